"""Backlog.md: the folder ``backlog`` with a Markdown file for each task."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from coordinator.interchange.files import read_regular, text_of_bytes
from coordinator.interchange.formats import assigned
from coordinator.interchange.model import ImportProblem, ImportSource, SourceRecord, State, sections, text_of, texts_of
from coordinator.interchange.yamltext import safe_yaml

STATES: dict[str, State] = {"": "queue", "to do": "queue", "in progress": "in-progress", "done": "done"}
_FRONT = re.compile(r"---\r?\n(.*?)\r?\n---\s*?(?:\r?\n|\Z)(.*)", re.DOTALL)
_MARKS = re.compile(r"(?<![ \t])[ \t]*<!-- (?:AC|SECTION|DOD)(?::[A-Z_]+)*:(?:BEGIN|END) -->[ \t]*\n?")
_HEADING = re.compile(r"^## ++(\S.*)$", re.MULTILINE)
_NUMBER = re.compile(r"(?:[A-Za-z]+-)?(\d+(?:\.\d+)*)")
_MOST_BYTES = 4 * 1024 * 1024
_NOTES = {"implementation plan": "plan", "implementation notes": "notes"}
_READ = {"id", "title", "status", "priority", "type", "labels", "parent_task_id", "dependencies", "milestone"}
_READ |= {"assignee"}
_PEOPLE = re.compile(r"^([ \t]*(?:(?:assignee|reporter):[ \t]*|-[ \t]+(?=@)))([^\s-].*)$", re.MULTILINE)


def read_folder(folder: Path, skip_unreadable: bool = False) -> ImportSource:
    """Reads the files that Backlog.md takes for tasks; of a folder that holds ``backlog``, that.

    Args:
        skip_unreadable: whether files that cannot be read are left out.

    Raises:
        ImportProblem: it is none, or files in it cannot be read: all are named.
    """
    folder = folder / "backlog" if (folder / "backlog" / "tasks").is_dir() else folder
    if not (folder / "tasks").is_dir():
        raise ImportProblem(f"{folder} is no folder of Backlog.md: it has no folder 'tasks'")
    source = ImportSource()
    last, prefix = _settings(folder)
    unreadable: list[str] = []
    for part, ended in (("tasks", False), ("completed", True)):
        for file in sorted((folder / part).rglob("*.md")):
            name = str(file.relative_to(folder))
            if file.parent != folder / part or not file.name.lower().startswith(f"{prefix}-"):
                source.leave_out(f"files that Backlog.md does not take for tasks (task_prefix {prefix})", name)
                continue
            try:
                source.records.append(_record(file, ended, last, source))
            except (ImportProblem, OSError, ValueError) as error:
                unreadable.append(f"{name}: {error}")
    for part in ("archive", "drafts"):
        for file in sorted((folder / part).rglob("*.md")):
            source.leave_out(f"files in the folder {part}", file.stem)
    for problem in unreadable:
        source.leave_out("files that cannot be read", problem)
    if unreadable and not skip_unreadable:
        raise ImportProblem(
            f"{len(unreadable)} files cannot be read; mend them, or leave them out (--skip-unreadable): "
            + "; ".join(unreadable)
        )
    numbers = {_number(record.id): record.id for record in source.records}
    for record in source.records:
        record.blockers = [numbers.get(_number(other), other) for other in record.blockers]
        above = _number(record.parent) if record.parent else _number(record.id).rpartition(".")[0]
        record.parent = numbers.get(above, record.parent)
    return source


def _settings(folder: Path) -> tuple[str, str]:
    """The status that means done, which is the last one of the configuration, and how names of tasks begin."""
    for name in ("config.yml", "config.yaml"):
        file = folder / name
        if file.is_file():
            try:
                mapping = _mapping(safe_yaml(text_of_bytes(read_regular(file))))
            except (ImportProblem, OSError, ValueError) as error:
                raise ImportProblem(f"{file}: {error}") from None
            statuses = texts_of(mapping.get("statuses"))
            prefix = text_of(mapping.get("task_prefix")).lower()
            return statuses[-1].lower() if statuses else "done", prefix or "task"
    return "done", "task"


def _record(file: Path, ended: bool, last: str, source: ImportSource) -> SourceRecord:
    """The task of a file. Raises ImportProblem, OSError, ValueError: it cannot be read."""
    data = read_regular(file, _MOST_BYTES + 1)
    match = _FRONT.match(text_of_bytes(data))
    if len(data) > _MOST_BYTES or match is None:
        raise ImportProblem("it has no front matter, or is too large")
    front = _mapping(safe_yaml(_PEOPLE.sub(_quoted, match[1])))
    id = text_of(front.get("id"))  # noqa: A001 (as the format names it)
    if not id:
        raise ImportProblem("the front matter has no id")
    # Ids differ in case and prefix where they are named, and not in number.
    status = text_of(front.get("status"))
    description, notes = _body(_MARKS.sub("", match[2]))
    for name, value in front.items():
        source.lost[str(name)] += name not in _READ and bool(value)
    return SourceRecord(
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
        updated=str(front.get("updated_date") or ""),
        fields=assigned([name.removeprefix("@") for name in texts_of(front.get("assignee"))], source.lost),
        extra={"milestone": front["milestone"]} if text_of(front.get("milestone")) else {},
    )


def _quoted(match: re.Match[str]) -> str:
    """A line with names of people, which may be no YAML: the tool quotes them before it reads them."""
    lead, value = match[1], match[2].strip()
    if value[0] == "[" and value[-1] == "]":
        names = [name.strip() for name in value[1:-1].split(",")]
        return f"{lead}[{', '.join(json.dumps(name) if name[:1] == '@' else name for name in names)}]"
    return match[0] if value[0] in "'\"[" else lead + json.dumps(value)


def _body(text: str) -> tuple[str, dict[str, str]]:
    """Description and notes: the sections below second headings."""
    parts = _HEADING.split(text)
    blocks = [("", parts[0].strip()), *zip(map(str.strip, parts[1::2]), map(str.strip, parts[2::2]), strict=True)]
    notes: dict[str, str] = {}
    for name, body in blocks:
        if body and (key := _NOTES.get(name.lower())):
            notes[key] = f"{notes[key]}\n\n{body}" if key in notes else body
    kept = [("" if name == "Description" else name, body) for name, body in blocks if name.lower() not in _NOTES]
    return sections(*kept), notes


def _number(id: str) -> str:
    match = _NUMBER.fullmatch(id.strip())
    return match[1] if match else id


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
