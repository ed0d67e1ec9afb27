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
    tasks = _tasks(text_of_bytes(data))
    source, keys = ImportSource(), _keys(tasks)
    source.lost["lines of text below no task"] = sum(1 for line in tasks.text.split("\n") if line.strip())
    source.left_out |= {"entries with another mark than one of a task": tasks.remarks} if tasks.remarks else {}
    for task in tasks.all():
        for mark in task.doubled:
            source.leave_out("marks that a task has already", mark)
        for mark in task.unread:
            source.leave_out("what looks like a mark of a task, and stays text", mark)
        source.records.append(_record(task, keys))
    for line in tasks.blank:
        source.leave_out("tasks without a text", f"line {line}")
    waits = _waits(keys)
    for task, record in zip(keys, source.records, strict=True):
        record.blockers = waits[task]
    return source


def with_ids(data: bytes) -> bytes:
    """The file with an identity at each task, so that a task keeps it when its title changes."""
    text = text_of_bytes(data)
    tasks, lines = _tasks(text), text.split("\n")
    for task, key in _keys(tasks).items():
        at = task.line - 1
        if not task.heading and not IDENTITY.search(lines[at]):
            end = "\r" if lines[at].endswith("\r") else ""
            lines[at] = f"{lines[at].rstrip()} <!-- fleet:{key} -->{end}"
    return "\n".join(lines).encode(encoding_of(data))


def _tasks(text: str) -> TaskList:
    try:
        return read_tasks(text)
    except ValueError as error:
        raise ImportProblem(str(error)) from None


def _keys(tasks: TaskList) -> dict[Task, str]:
    keys: dict[Task, str] = {}
    used: Counter[str] = Counter()
    for task in tasks.all():
        path = f"{keys[task.parent] if task.parent else ''}/{' '.join(task.title.split())}"
        used[path] += 1
        if used[path] > 1 and not task.identity:  # two of one name
            path += f"/{used[path]}"
        keys[task] = task.identity or hashlib.sha256(path.encode(errors="replace")).hexdigest()[:_ID]
    return keys


def _record(task: Task, keys: Mapping[Task, str]) -> SourceRecord:
    fields = dict[str, Any]()
    for name, text in task.fields.items():
        try:
            fields[name] = PLAN_FIELDS[name].form(text)
        except ValueError as error:
            raise _wrong(task, f"{name}: {error}") from None
    own = {name: fields.pop(name) for name in _OWN if name in fields}
    if task.heading:
        own = {"type": "heading", **own, "container": True, "state": "done" if task.box else "queue"}
    return SourceRecord(
        keys[task],
        task.title,
        description=task.description,
        status="" if task.heading else task.box,
        priority=task.priority,
        tags=task.tags,
        parent=keys[task.parent] if task.parent else None,
        fields=fields,
        **own,
    )


def _waits(keys: Mapping[Task, str]) -> dict[Task, list[str]]:
    """The keys of what each task waits for; what is below a task waits with it."""
    refs, titles = dict[str, str](), dict[str, list[str]]()
    for task, key in keys.items():
        titles.setdefault(task.title.casefold(), []).append(key)
        if task.ref and refs.setdefault(task.ref, key) != key:
            raise _wrong(task, f"ref: {task.ref!r} is used twice")
    known = {task.identity: task.identity for task in keys if task.identity} | refs
    waits: dict[Task, list[str]] = {}
    passed: dict[Task | None, list[str]] = {None: []}
    for task in keys:  # parents first
        further = passed[task.parent]
        try:
            mine = [known.get(other, other) for other in (named(name, known, titles) for name in task.after)]
        except ValueError as error:
            raise _wrong(task, f"after: {error}; a backslash before ( makes it text") from None
        mine += [keys[task.before]] if task.before else []
        waits[task] = list(dict.fromkeys([*task.blockers, *further, *mine]))
        passed[task] = further
        if mine:
            below = {keys[each] for each in task.all()}
            passed[task] = [*further, *(other for other in mine if other not in below)][:MOST_EDGES]
    return waits


def _wrong(task: Task, problem: str) -> ImportProblem:
    return ImportProblem(f"line {task.line}: {problem}")


def write(records: Iterable[SourceRecord]) -> Iterator[str]:
    """The records as lists of tasks, each with its identity; parents before their children, which follow them."""
    written: dict[str, Task] = {}
    tops: list[Task] = []
    records = list(records)
    for record in records:
        box = _BOXES.get(record.status, "~" if record.state == "cancelled" else "x")
        fields = {**record.fields, "summary": record.summary, "type": record.type, "complexity": record.complexity}
        if record.container:
            fields["container"] = True
        said = {
            name: PLAN_FIELDS[name].text(fields[name]) for name in MARKS.values() if fields.get(name) not in (None, "")
        }
        written[record.id] = Task(
            record.title,
            "/" if record.state == "in-progress" else box,
            record.tags,
            record.priority if record.priority in ("high", "low") else "",
            said,
            identity=record.id,
            blockers=record.blockers,
            description=record.description,
        )
    for record in records:
        (written[record.parent].children if record.parent in written else tops).append(written[record.id])
    return write_tasks(tops)
