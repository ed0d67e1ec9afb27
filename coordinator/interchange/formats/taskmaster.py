"""Task Master: ``.taskmaster/tasks/tasks.json``, with a container for each context."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from coordinator.interchange.formats import assigned, states
from coordinator.interchange.formats.lines import json_value
from coordinator.interchange.model import ImportProblem, ImportSource, SourceRecord, sections, text_of

STATES = states({
    "queue": ("", "pending"),
    "in-progress": ("in-progress", "review"),
    "blocked": ("deferred", "blocked"),
    "done": ("done", "completed"),
    "cancelled": ("cancelled",),
})  # fmt: skip
_SIBLINGS = 100
"""In a subtask, a smaller number names a subtask of the same task, also where it is a text."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_READ = {"id", "title", "description", "details", "testStrategy", "status", "priority", "dependencies", "subtasks"}
_READ |= {"assignee", "complexity", "complexityScore", "parentTaskId", "parentId"}


def read(data: bytes) -> ImportSource:
    """Reads a file of tasks. Raises ImportProblem: it is none."""
    file = json_value(data)
    if not isinstance(file, dict):
        raise ImportProblem("the file is not one of Task Master: it has no object at the top")
    contexts = {name: context for name, context in file.items() if isinstance(context, dict) and "tasks" in context}
    if isinstance(file.get("tasks"), list):  # as before there were contexts
        if "master" in contexts:
            raise ImportProblem("there are tasks at the top and in the context master: leave those that count")
        contexts["master"] = {"tasks": file["tasks"]}
    if not contexts:
        raise ImportProblem("the file is not one of Task Master: it has no tasks")
    source = ImportSource()
    source.lost.update(name for name, value in file.items() if value and name != "tasks" and name not in contexts)
    for name, context in contexts.items():
        source.lost.update(f"{key} of context {name}" for key, value in context.items() if value and key != "tasks")
        tasks = context["tasks"]
        if not isinstance(tasks, list):
            raise ImportProblem(f"{name}: tasks is not a list")
        root = SourceRecord(name, name, type="context", container=True, state="queue")
        source.records.append(root)
        # Of each task: its place for messages, the number of the one above, and the record above.
        left: deque[tuple[Any, str, str | None, SourceRecord]] = deque(
            (task, f"{name}: task {place + 1}", None, root) for place, task in enumerate(tasks)
        )
        while left:
            task, place, above, parent = left.popleft()
            record = _record(task, place, name, above, source)
            record.parent = parent.id
            source.records.append(record)
            number = record.id.removeprefix(f"{name}/")
            subtasks = task.get("subtasks")
            for n, subtask in enumerate(subtasks if isinstance(subtasks, list) else []):
                left.append((subtask, f"{name}: subtask {n + 1} of task {number}", number, record))
        _end_root(root, [record for record in source.records if record.parent == root.id])
    return source


def _end_root(root: SourceRecord, tasks: list[SourceRecord]) -> None:
    ended = tasks and all(STATES.get(task.status.lower()) in ("done", "cancelled") for task in tasks)
    root.state = "done" if ended else "queue"


def _record(task: Any, place: str, context: str, above: str | None, source: ImportSource) -> SourceRecord:
    number = text_of(task.get("id")) if isinstance(task, dict) else ""
    if not number:
        raise ImportProblem(f"{place} has no id")
    own = f"{above}.{number.removeprefix(f'{above}.')}" if above is not None else number
    details = sections(("", text_of(task.get("details"))), ("Test strategy", text_of(task.get("testStrategy"))))
    summary = text_of(task.get("description"))
    if len(summary) > 2_000:
        summary, details = "", sections(("", summary), ("Details", details))
    for name, value in task.items():
        source.lost[name] += name not in _READ and bool(value)
    complexity = task.get("complexity", task.get("complexityScore"))
    is_number = isinstance(complexity, (int, float)) and not isinstance(complexity, bool)
    dependencies = task.get("dependencies")
    wrong = {
        "complexities that are no numbers": complexity is not None and not is_number and complexity,
        "dependencies that are no lists": not isinstance(dependencies, list) and dependencies,
        "subtasks that are no lists": not isinstance(task.get("subtasks"), list) and task.get("subtasks"),
    }
    for kind, value in wrong.items():
        if value:
            source.leave_out(kind, f"{value!r} of {text_of(task.get('title')) or number}")
    blockers = [_blocker(dependency, above) for dependency in dependencies] if isinstance(dependencies, list) else []
    return SourceRecord(
        f"{context}/{own}",
        text_of(task.get("title")),
        details,
        summary,
        status=text_of(task.get("status")),
        priority=text_of(task.get("priority")),
        complexity=complexity if is_number else None,
        blockers=[f"{context}/{blocker}" for blocker in blockers if blocker],
        fields=assigned([text_of(task.get("assignee"))], source.lost),
        extra={"id": own},
    )


def _blocker(value: Any, above: str | None) -> str:
    """The id of a dependency within its context."""
    id = text_of(value).strip()  # noqa: A001 (as the format names it)
    if above is not None and _NUMBER.fullmatch(id) and int(id) < _SIBLINGS:
        return f"{above}.{id}"
    return id
