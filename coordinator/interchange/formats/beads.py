"""Beads: the lines of ``bd export``, or of ``.beads/issues.jsonl``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from coordinator.interchange.formats import assigned, states
from coordinator.interchange.formats.lines import json_lines
from coordinator.interchange.model import ImportProblem, ImportSource, SourceRecord, sections, text_of, texts_of

STATES = states({
    "queue": ("", "open"),
    "in-progress": ("in_progress", "hooked"),
    "blocked": ("blocked", "deferred", "pinned"),
    "done": ("closed",),
})  # fmt: skip
_PRIORITIES = {"0": "high", "1": "high", "2": "medium", "3": "low", "4": "low"}
_NO_ITEMS = ("message", "event", "gate", "molecule")
_KEPT = ("estimated_minutes", "external_ref", "due_at", "defer_until", "close_reason")
_READ = {*_KEPT, "_type", "id", "title", "description", "design", "acceptance_criteria", "notes", "status", "priority"}
_READ |= {"assignee", "issue_type", "labels", "dependencies", "comments"}
_READ |= {"dependency_count", "dependent_count", "comment_count", "content_hash"}  # other members say the same
_STATUS_OUT = {"queue": "open", "work": "in_progress", "review": "in_progress", "blocked": "blocked"}


def read(data: bytes) -> ImportSource:
    """Reads an export. Raises ImportProblem: a line is no issue."""
    source = ImportSource()
    for number, issue in json_lines(data):
        kind = text_of(issue.get("_type")) or "issue"
        name = text_of(issue.get("title")) or text_of(issue.get("id")) or text_of(issue.get("key")) or f"line {number}"
        if kind != "issue":
            source.leave_out(f"lines of type {kind}", name)
        elif text_of(issue.get("status")) == "tombstone":
            source.leave_out("tombstones", name)
        elif (kind := text_of(issue.get("issue_type"))) in _NO_ITEMS:
            source.leave_out(f"issues of type {kind}", name)
        elif issue.get("ephemeral"):
            source.leave_out("ephemeral issues", name)
        else:
            source.records.append(_record(issue, number, source))
    return source


def _record(issue: dict[str, Any], number: int, source: ImportSource) -> SourceRecord:
    id = text_of(issue.get("id"))  # noqa: A001 (as the format names it)
    if not id:
        raise ImportProblem(f"line {number} has no id")
    priority = text_of(issue.get("priority"))
    status = text_of(issue.get("status"))
    record = SourceRecord(
        id,
        text_of(issue.get("title")),
        sections(
            ("", text_of(issue.get("description"))),
            ("Design", text_of(issue.get("design"))),
            ("Acceptance criteria", text_of(issue.get("acceptance_criteria"))),
            ("Notes", text_of(issue.get("notes"))),
        ),
        status=status,
        # A status of one's own is closed if the issue is.
        state="done" if issue.get("closed_at") and status.lower() not in STATES else None,
        updated=text_of(issue.get("updated_at")),
        priority=_PRIORITIES.get(priority, priority),
        type=text_of(issue.get("issue_type")),
        tags=texts_of(issue.get("labels")),
        fields=assigned(texts_of(issue.get("assignee")), source.lost),
        extra={name: issue[name] for name in _KEPT if issue.get(name)},
    )
    for edge in _objects(issue.get("dependencies")):
        _add_edge(record, text_of(edge.get("depends_on_id")), text_of(edge.get("type")) or "blocks", source)
    if comments := [_comment(each) for each in _objects(issue.get("comments"))]:
        record.notes["comments"] = "\n\n".join(comments)
        source.lost["authors and times of comments: kept as one note"] += 1
    for name, value in issue.items():
        source.lost[name] += name not in _READ and bool(value)
    return record


def _add_edge(record: SourceRecord, other: str, kind: str, source: ImportSource) -> None:
    if kind == "blocks":
        record.blockers.append(other)
    elif kind == "parent-child":
        record.parent = other
    else:
        record.related.append(other)
        if kind in ("conditional-blocks", "waits-for"):
            source.lost[f"dependencies of type {kind}: RELATES_TO, they hold nothing back"] += 1


def _comment(comment: dict[str, Any]) -> str:
    head = " ".join(filter(None, (text_of(comment.get("author")), text_of(comment.get("created_at")))))
    return f"{head}:\n{text_of(comment.get('text'))}" if head else text_of(comment.get("text"))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def write(records: Iterable[SourceRecord]) -> Iterator[str]:
    """The records as lines of beads; ``status`` is the role here, and ``state`` says how a terminal item ended."""
    priorities = {"high": 1, "medium": 2, "low": 3}
    for one in records:
        edges = [(other, "blocks") for other in one.blockers] + [(other, "related") for other in one.related]
        if one.parent is not None:
            edges.append((one.parent, "parent-child"))
        line: dict[str, Any] = {
            "_type": "issue",
            "id": one.id,
            "title": one.title,
            "description": "\n\n".join(filter(None, (one.summary, one.description))),
            "status": "in_progress" if one.state == "in-progress" else _STATUS_OUT.get(one.status, "closed"),
            "priority": priorities.get(one.priority, 2),
            "issue_type": one.type or "task",
            "assignee": one.fields.get("assignee", []),
            "labels": one.tags,
            "dependencies": [{"issue_id": one.id, "depends_on_id": other, "type": kind} for other, kind in edges],
            "comments": [{"text": body if key == "comments" else f"{key}:\n{body}"} for key, body in one.notes.items()],
            **{name: one.extra[name] for name in ("created_at", "updated_at", "closed_at") if name in one.extra},
        }
        if one.state == "cancelled":
            line["close_reason"] = "cancelled"
        yield msgspec.json.encode({name: value for name, value in line.items() if value != []}).decode()
