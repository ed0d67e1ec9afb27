"""GitHub: ``gh issue list --json number,title,body,state,stateReason,labels,milestone,url,...``."""

from __future__ import annotations

import re
from typing import Any

from coordinator.interchange.formats.lines import json_value
from coordinator.interchange.model import ImportProblem, Record, Source, State, text_of

STATES: dict[str, State] = {"": "queue", "open": "queue", "closed": "done", "not_planned": "cancelled"}
_LISTED = 30
_PRIORITY = re.compile(r"(?:priority[ :/_-]*)?(p[0-4]|critical|highest|urgent|high|medium|normal|low|lowest)", re.I)
_LINKS = ("subIssues", "blockedBy", "blocking")
_LOST = ("comments", "assignees", "author", "createdAt", "updatedAt", "closedAt", "projectItems", "reactionGroups")


def read(data: bytes) -> Source:
    """Reads a list of issues.

    Raises:
        ImportProblem: it is none.
    """
    found = json_value(data)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ImportProblem("the file is not a list of issues, as `gh issue list --json ...` prints it")
    source = Source()
    by_url: dict[str, Record] = {}
    for place, one in enumerate(found):
        record = _record(one, place, source)
        by_url[record.id] = record
        source.records.append(record)
    for one in found:
        _link(one, by_url, source)
    if len(found) == _LISTED:
        source.remarks.append(f"exactly {_LISTED} issues came: `gh issue list` prints no more unless --limit is given")
    return source


def _record(one: dict[str, Any], place: int, source: Source) -> Record:
    url, number = text_of(one.get("url")), text_of(one.get("number"))
    if not url:
        raise ImportProblem(f"issue {number or place + 1} has no url: ask for it (--json number,title,url,...)")
    labels = [text_of(_of(label, "name")) or text_of(label) for label in _list(one.get("labels"))]
    priority = next((match[1] for label in labels if (match := _PRIORITY.fullmatch(label.strip()))), "")
    milestone = text_of(_of(one.get("milestone"), "title"))
    reason = text_of(one.get("stateReason")).lower()
    for name in _LOST:
        source.lost[name] += bool(one.get(name))
    return Record(
        url,
        text_of(one.get("title")),
        text_of(one.get("body")),
        status="not_planned" if reason in ("not_planned", "duplicate") else text_of(one.get("state")),
        priority=priority,
        type=text_of(_of(one.get("issueType"), "name")),
        tags=labels + ([f"milestone:{milestone}"] if milestone else []),
        url=url,
        extra={"number": one.get("number")},
    )


def _link(one: dict[str, Any], by_url: dict[str, Record], source: Source) -> None:
    record = by_url[text_of(one.get("url"))]
    if isinstance(one.get("parent"), dict):
        record.parent = text_of(one["parent"].get("url")) or None
    for name in _LINKS:
        value = one.get(name)
        nodes = _list(_of(value, "nodes")) if isinstance(value, dict) else _list(value)
        total = _of(value, "totalCount")
        if isinstance(total, int) and total > len(nodes):
            source.remarks.append(f"issue {one.get('number')}: only {len(nodes)} of {total} {name} came")
        for url in filter(None, (text_of(_of(node, "url")) for node in nodes)):
            if name == "blockedBy":
                record.blockers.append(url)
            elif url in by_url and name == "blocking":
                by_url[url].blockers.append(record.id)
            elif url in by_url:
                by_url[url].parent = record.id


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
