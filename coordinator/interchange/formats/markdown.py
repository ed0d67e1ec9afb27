"""Markdown: the task lists of ``client/plans/task_list.py``, as plans have them; here each task is an item of its own.

A task without an identity has that of the path of headings and titles that it stands at. Headings are containers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coordinator.client.plans.fields import MARKS, PLAN_FIELDS
from coordinator.client.plans.task_list import BOXES, IDENTITY, Task, TaskList, named, read_tasks, write_tasks
from coordinator.interchange.files import encoding_of, text_of_bytes
from coordinator.interchange.model import ImportProblem, ImportSource, SourceRecord, State
from coordinator.interchange.shaping import MOST_EDGES

STATES: Mapping[str, State] = BOXES  # type: ignore[assignment]
_BOXES = {"queue": " ", "work": "/", "review": "/", "blocked": "!"}
_OWN = ("summary", "type", "complexity", "container")
"""Fields of marks that records have by themselves."""
_ID = 12


def read(data: bytes) -> ImportSource:
    """Reads a file; its marks must have the right form, and name one task each."""
    found = _tasks(text_of_bytes(data))
    source, keys = ImportSource(), _keys(found)
    source.lost["lines of text below no task"] = sum(1 for line in found.text.split("\n") if line.strip())
    source.left_out |= {"entries with another mark than one of a task": found.remarks} if found.remarks else {}
    for one in found.all():
        for mark in one.doubled:
            source.leave_out("marks that a task has already", mark)
        for mark in one.unread:
            source.leave_out("what looks like a mark of a task, and stays text", mark)
        source.records.append(_record(one, keys))
    for line in found.blank:
        source.leave_out("tasks without a text", f"line {line}")
    waits = _waits(keys)
    for one, record in zip(keys, source.records, strict=True):
        record.blockers = waits[one]
    return source


def with_ids(data: bytes) -> bytes:
    """The file with an identity at each task, so that a task keeps it when its title changes."""
    text = text_of_bytes(data)
    found, lines = _tasks(text), text.split("\n")
    for one, key in _keys(found).items():
        at = one.line - 1
        if not one.heading and not IDENTITY.search(lines[at]):
            end = "\r" if lines[at].endswith("\r") else ""
            lines[at] = f"{lines[at].rstrip()} <!-- fleet:{key} -->{end}"
    return "\n".join(lines).encode(encoding_of(data))


def _tasks(text: str) -> TaskList:
    try:
        return read_tasks(text)
    except ValueError as error:
        raise ImportProblem(str(error)) from None


def _keys(found: TaskList) -> dict[Task, str]:
    """The identity of each task, in the order of the list."""
    keys: dict[Task, str] = {}
    used: Counter[str] = Counter()
    for one in found.all():
        path = f"{keys[one.parent] if one.parent else ''}/{' '.join(one.title.split())}"
        used[path] += 1
        if used[path] > 1 and not one.identity:  # two of one name
            path += f"/{used[path]}"
        keys[one] = one.identity or hashlib.sha256(path.encode(errors="replace")).hexdigest()[:_ID]
    return keys


def _record(one: Task, keys: Mapping[Task, str]) -> SourceRecord:
    fields = dict[str, Any]()
    for name, text in one.fields.items():
        try:
            fields[name] = PLAN_FIELDS[name].form(text)
        except ValueError as error:
            raise _wrong(one, f"{name}: {error}") from None
    own = {name: fields.pop(name) for name in _OWN if name in fields}
    if one.heading:
        own = {"type": "heading", **own, "container": True, "state": "done" if one.box else "queue"}
    return SourceRecord(
        keys[one],
        one.title,
        description=one.description,
        status="" if one.heading else one.box,
        priority=one.priority,
        tags=one.tags,
        parent=keys[one.parent] if one.parent else None,
        fields=fields,
        **own,
    )


def _waits(keys: Mapping[Task, str]) -> dict[Task, list[str]]:
    """The keys of what each task waits for; what is below a task waits with it."""
    refs, titles = dict[str, str](), dict[str, list[str]]()
    for one, key in keys.items():
        titles.setdefault(one.title.casefold(), []).append(key)
        if one.ref and refs.setdefault(one.ref, key) != key:
            raise _wrong(one, f"ref: {one.ref!r} is used twice")
    known = {one.identity: one.identity for one in keys if one.identity} | refs
    waits: dict[Task, list[str]] = {}
    passed: dict[Task | None, list[str]] = {None: []}
    for one in keys:  # parents first
        further = passed[one.parent]
        try:
            mine = [known.get(other, other) for other in (named(name, known, titles) for name in one.after)]
        except ValueError as error:
            raise _wrong(one, f"after: {error}; a backslash before ( makes it text") from None
        mine += [keys[one.before]] if one.before else []
        waits[one] = list(dict.fromkeys([*one.blockers, *further, *mine]))
        passed[one] = further
        if mine:
            below = {keys[each] for each in one.all()}
            passed[one] = [*further, *(other for other in mine if other not in below)][:MOST_EDGES]
    return waits


def _wrong(one: Task, problem: str) -> ImportProblem:
    return ImportProblem(f"line {one.line}: {problem}")


def write(records: Iterable[SourceRecord]) -> Iterator[str]:
    """The records as lists of tasks, each with its identity; parents before their children, which follow them."""
    written: dict[str, Task] = {}
    tops: list[Task] = []
    records = list(records)
    for one in records:
        box = _BOXES.get(one.status, "~" if one.state == "cancelled" else "x")
        fields = {**one.fields, "summary": one.summary, "type": one.type, "complexity": one.complexity}
        if one.container:
            fields["container"] = True
        said = {
            name: PLAN_FIELDS[name].text(fields[name]) for name in MARKS.values() if fields.get(name) not in (None, "")
        }
        written[one.id] = Task(
            one.title,
            "/" if one.state == "in-progress" else box,
            one.tags,
            one.priority if one.priority in ("high", "low") else "",
            said,
            identity=one.id,
            blockers=one.blockers,
            description=one.description,
        )
    for one in records:
        (written[one.parent].children if one.parent in written else tops).append(written[one.id])
    return write_tasks(tops)
