"""Backlog.md: the folder ``backlog`` with a Markdown file for each task."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from coordinator.interchange.encodings import text_of_bytes
from coordinator.interchange.files import read_regular
from coordinator.interchange.model import ImportProblem, Record, Source, State, sections, text_of, texts_of
from coordinator.interchange.yamltext import safe_yaml

STATES: dict[str, State] = {"": "queue", "to do": "queue", "in progress": "in-progress", "done": "done"}
_FRONT = re.compile(r"---\r?\n(.*?)\r?\n---\s*?(?:\r?\n|\Z)(.*)", re.DOTALL)
_MARKS = re.compile(r"(?<![ \t])[ \t]*<!-- (?:AC|SECTION|DOD)(?::[A-Z_]+)*:(?:BEGIN|END) -->[ \t]*\n?")
_HEADING = re.compile(r"^## ++(\S.*)$", re.MULTILINE)
_NUMBER = re.compile(r"(?:[A-Za-z]+-)?(\d+(?:\.\d+)*)")
_MOST_BYTES = 4 * 1024 * 1024
_NOTES = {"implementation plan": "plan", "implementation notes": "notes"}
_LOST = ("assignee", "created_date", "updated_date", "reporter", "ordinal")


def read_folder(folder: Path) -> Source:
    """Reads a folder; of one that holds ``backlog``, that.

    Raises:
        ImportProblem: it is none, or a file in it is none of a task.
    """
    folder = folder / "backlog" if (folder / "backlog" / "tasks").is_dir() else folder
    if not (folder / "tasks").is_dir():
        raise ImportProblem(f"{folder} is no folder of Backlog.md: it has no folder 'tasks'")
    source = Source()
    last = _last_status(folder)
    for part, ended in (("tasks", False), ("completed", True)):
        for file in sorted((folder / part).glob("*.md")):
            source.records.append(_record(file, ended, last, source))
    for part in ("archive", "drafts"):
        if (folder / part).is_dir():
            source.lost[f"tasks in the folder {part}"] = len(list((folder / part).rglob("*.md")))
    numbers = {_number(one.id): one.id for one in source.records}
    for one in source.records:
        one.blockers = [numbers.get(_number(other), other) for other in one.blockers]
        above = _number(one.parent) if one.parent else _number(one.id).rpartition(".")[0]
        one.parent = numbers.get(above, one.parent)
    return source


def _last_status(folder: Path) -> str:
    """The status that means done: the last one of the configuration."""
    for name in ("config.yml", "config.yaml"):
        file = folder / name
        if file.is_file():
            try:
                statuses = texts_of(_mapping(safe_yaml(text_of_bytes(read_regular(file)))).get("statuses"))
            except (ImportProblem, OSError, ValueError) as error:
                raise ImportProblem(f"{file}: {error}") from None
            return statuses[-1].lower() if statuses else "done"
    return "done"


def _record(file: Path, ended: bool, last: str, source: Source) -> Record:
    try:
        data = read_regular(file, _MOST_BYTES + 1)
        text = text_of_bytes(data)
    except (OSError, ImportProblem) as error:
        raise ImportProblem(f"{file} cannot be read: {error}") from None
    match = _FRONT.match(text)
    if len(data) > _MOST_BYTES or match is None:
        raise ImportProblem(f"{file} is not a task: it has no front matter, or is too large")
    try:
        front = _mapping(safe_yaml(match[1]))
    except ValueError as error:
        raise ImportProblem(f"{file}: {error}") from None
    id = text_of(front.get("id"))  # noqa: A001 (as the format names it)
    if not id:
        raise ImportProblem(f"{file}: the front matter has no id")
    # Ids differ in case and prefix where they are named, and not in number.
    status = text_of(front.get("status"))
    description, notes = _body(_MARKS.sub("", match[2]))
    for name in _LOST:
        source.lost[name] += bool(front.get(name))
    return Record(
        id.upper(),
        text_of(front.get("title")),
        description,
        status=status,
        state="done" if ended or status.lower() == last else None,
        priority=text_of(front.get("priority")),
        type=text_of(front.get("type")),
        tags=texts_of(front.get("labels")),
        parent=text_of(front.get("parent_task_id")) or None,
        blockers=texts_of(front.get("dependencies")),
        notes=notes,
        updated=text_of(front.get("updated_date")) or str(front.get("updated_date") or ""),
        extra={"milestone": front["milestone"]} if text_of(front.get("milestone")) else {},
    )


def _body(text: str) -> tuple[str, dict[str, str]]:
    """Description and notes: the sections below second headings."""
    parts = _HEADING.split(text)
    found = [("", parts[0].strip()), *zip(map(str.strip, parts[1::2]), map(str.strip, parts[2::2]), strict=True)]
    notes = {_NOTES[name.lower()]: body for name, body in found if name.lower() in _NOTES and body}
    kept = [("" if name == "Description" else name, body) for name, body in found if name.lower() not in _NOTES]
    return sections(*kept), notes


def _number(id: str) -> str:
    match = _NUMBER.fullmatch(id.strip())
    return match[1] if match else id


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
