"""Markdown: a list of tasks, below headings.

``- [ ] Upload retries #net !high`` is a task with a tag and a priority; ``[x]`` is done, ``[~]`` or ``[-]`` cancelled,
``[!]`` blocked; ``1. [ ]`` is one, too. Deeper tasks are children, headings are containers of what is below them, and
text below a task is its description. ``<!-- fleet:1a2b3c -->`` at the end of a task is its identity; without it, the
path of headings and titles. A backslash keeps ``#``, ``!`` or ``(after`` from being read as more than text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from coordinator.client.markdown import MARK
from coordinator.interchange.encodings import encoding_of, text_of_bytes
from coordinator.interchange.model import ImportProblem, Record, Source, State

STATES: dict[str, State] = {
    "": "queue",
    " ": "queue",
    "/": "in-progress",
    "!": "blocked",
    "x": "done",
    "~": "cancelled",
    "-": "cancelled",
}
_TASK = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]{1,4}\[([xX]|\W)\](?:[ \t]+(.*))?")
_REMARK = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]{1,4}(\[\w\][ \t]+.*)")
"""An entry with a letter in brackets that is no mark: text, such as a legend."""
_HEADING = re.compile(r"(#{1,6}) +(.*)")
_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})(.*)")
_IDENTITY = re.compile(r"(?<!\s)\s*(?<!\\)<!-- fleet:([0-9a-zA-Z_.-]{1,64}) -->\s*")
_TAG = re.compile(r"(?:^|\s)#([A-Za-z][\w:./-]*)(?=\s|$)")
_PRIORITY = re.compile(r"(?:^|\s)!(high|medium|low)(?=\s|$)", re.IGNORECASE)
_AFTER = re.compile(r"(?:^|\s)\(after ([0-9a-zA-Z_.,\s-]+)\)(?=\s|$)")
_OF_PLANS = re.compile(rf"(?<!\S){MARK}(?!\S)")
_ESCAPED = re.compile(r"\\([#!(<\\])")
_ESCAPE = re.compile(r"(?=\\[#!(<\\])|(?<!\S)(?=#[A-Za-z]|![hmlHML]|\(after )|(?=<!-- fleet:)")
_MARKS = {"queue": " ", "work": "/", "review": "/", "blocked": "!"}
_ID = 12


def read(data: bytes) -> Source:
    """Reads a file.

    Raises:
        ImportProblem: it is not text, or has a merge conflict.
    """
    return _read(text_of_bytes(data))[0]


def with_ids(data: bytes) -> bytes:
    """The file with an identity at each task, so that a task keeps it when its title changes.

    Raises:
        ImportProblem: it is not text, or has a merge conflict.
    """
    text = text_of_bytes(data)
    _, places = _read(text)
    lines = text.split("\n")
    for at, key in places.items():
        if not _IDENTITY.search(lines[at]):
            end = "\r" if lines[at].endswith("\r") else ""
            lines[at] = f"{lines[at].rstrip()} <!-- fleet:{key} -->{end}"
    return "\n".join(lines).encode(encoding_of(data))


def _read(text: str) -> tuple[Source, dict[int, str]]:
    """The records, and the key of the task at each line from 0."""
    source, places = Source(), dict[int, str]()
    headings: list[tuple[int, Record]] = []
    tasks: list[tuple[int, Record]] = []
    used: Counter[str] = Counter()
    texts: list[tuple[Record, list[str]]] = []
    """Of all tasks: the lines of their descriptions."""
    fence, room = "", 0
    lines: list[str] | None = None
    listed: set[str] = set()
    for at, line in enumerate(text.split("\n")):
        line = line.rstrip("\r")
        if not fence and line.startswith("<<<<<<< "):
            raise ImportProblem(f"line {at + 1} begins a merge conflict: resolve it first")
        lead = _indent(line)
        if lead < room and line.strip():  # a fence of a task ends with it
            fence, room = "", 0
        if match := _FENCE.match(line):
            if not fence:
                room = tasks[-1][0] + 2 if tasks and lead >= tasks[-1][0] + 2 else 0
            fence = _fence(fence, match)
            room = room if fence else 0
            _describe(lines, line, tasks)
            continue
        task, heading = (None, None) if fence else (_TASK.fullmatch(line), _HEADING.fullmatch(line))
        if heading is not None:
            level = len(heading[1])
            headings = [one for one in headings if one[0] < level]
            above = headings[-1][1] if headings else None
            record = _record(heading[2].rstrip(" #"), above, used)
            record.type, record.container = "heading", True
            headings.append((level, record))
            tasks, lines = [], None
        elif task is not None:
            indent = lead
            tasks = [one for one in tasks if one[0] < indent]
            if not (task[3] or "").strip():
                source.leave_out("tasks without a text", f"line {at + 1}")
                lines = None
                continue
            above = tasks[-1][1] if tasks else headings[-1][1] if headings else None
            current = _record(task[3], above, used)
            current.status = task[2].lower()
            _name_marks(source, current.title)
            tasks.append((indent, current))
            places[at] = current.id
            for _, each in headings:
                if each.id not in listed:
                    listed.add(each.id)
                    source.records.append(each)
            source.records.append(current)
            lines = []
            texts.append((current, lines))
        else:
            if not fence and (match := _REMARK.fullmatch(line)):
                source.leave_out("entries with another mark than one of a task", match[1])
            if lines is None and line.strip():
                source.lost["lines of text below no task"] += 1
            _describe(lines, line, tasks)
    for one, described in texts:
        one.description = "\n".join(described).strip("\n")
    _end_headings(source)
    return source, places


def _name_marks(source: Source, title: str) -> None:
    for mark in _OF_PLANS.finditer(title):
        source.leave_out("marks of plans (`fleet items plan` reads them), which stay text", mark[0])


def _indent(line: str) -> int:
    """The columns before a line's text."""
    return len(line[: len(line) - len(line.lstrip())].expandtabs(4))


def _fence(open_: str, match: re.Match[str]) -> str:
    """The fence that is open after a line that begins with a mark of one; empty: none is."""
    mark, info = match[2], match[3]
    if open_:
        return "" if mark.startswith(open_) and not info.strip() else open_
    return "" if mark[0] == "`" and "`" in info else mark


def _describe(lines: list[str] | None, line: str, tasks: list[tuple[int, Record]]) -> None:
    """Adds a line to the description of a task, less the indentation that it has as a part of it."""
    if lines is not None:
        room = tasks[-1][0] + 2
        lead = len(line) - len(line.lstrip())
        lines.append(line[min(room, lead) :])


def _record(text: str, above: Record | None, used: Counter[str]) -> Record:
    identity = _IDENTITY.search(text)
    text = _IDENTITY.sub(" ", text)
    priority = _PRIORITY.search(text)
    after = _AFTER.search(text)
    tags = _TAG.findall(text)
    title = " ".join(_AFTER.sub(" ", _TAG.sub(" ", _PRIORITY.sub(" ", text))).split())
    title = _ESCAPED.sub(r"\1", title)
    path = f"{above.id if above else ''}/{title}"
    used[path] += 1
    if identity is not None:
        key = identity[1]
    else:
        if used[path] > 1:  # two of one name
            path += f"/{used[path]}"
        key = hashlib.sha256(path.encode(errors="replace")).hexdigest()[:_ID]
    return Record(
        key,
        title,
        priority=priority[1] if priority else "",
        tags=tags,
        parent=above.id if above else None,
        blockers=[one.strip() for one in after[1].split(",")] if after else [],
    )


def _end_headings(source: Source) -> None:
    """A heading is done if all that is below it is."""
    ended: dict[str | None, bool] = {}
    for one in reversed(source.records):
        if one.container:
            one.state = "done" if ended.get(one.id, False) else "queue"
        closed = one.state == "done" or STATES.get(one.status) in ("done", "cancelled")
        closed = closed if not one.container else one.state == "done"
        ended[one.parent] = ended.get(one.parent, True) and closed


def write(records: Iterable[Record]) -> Iterator[str]:
    """The records as lists of tasks, each with its identity; parents before their children, which follow them.
    Containers are headings, if they are below no task and have no text."""
    children: dict[str | None, list[Record]] = {}
    for one in records:
        children.setdefault(one.parent, []).append(one)
    yield from _section(None, children, 1)


def _section(above: str | None, children: Mapping[str | None, list[Record]], level: int) -> Iterator[str]:
    """What is below a heading, or at the top: tasks, then headings of this level."""
    tasks, headings = list[Record](), list[Record]()
    for one in children.get(above, ()):
        heading = one.container and one.id in children and not (one.summary or one.description)
        (headings if heading else tasks).append(one)
    stack = [(one, 0) for one in reversed(tasks)]
    while stack:
        one, indent = stack.pop()
        yield from _lines(one, indent)
        stack += [(child, indent + 1) for child in reversed(children.get(one.id, []))]
    for one in headings:
        yield f"{'#' * level} {_words(one)}"
        yield from _section(one.id, children, level + 1)


def _words(one: Record) -> str:
    words = [_ESCAPE.sub(r"\\", one.title), *(f"#{tag}" for tag in one.tags)]
    words += [f"!{one.priority}"] if one.priority in ("high", "low") else []
    words += [f"(after {', '.join(one.blockers)})"] if one.blockers else []
    return f"{' '.join(words)} <!-- fleet:{one.id} -->"


def _lines(one: Record, indent: int) -> Iterator[str]:
    lead = "  " * indent
    mark = _MARKS.get(one.status, "~" if one.state == "cancelled" else "x")
    mark = "/" if one.state == "in-progress" else mark
    yield f"{lead}- [{mark}] {_words(one)}"
    text = "\n\n".join(filter(None, (one.summary, one.description)))
    fence = ""
    for line in text.splitlines():
        if match := _FENCE.match(line):
            fence = _fence(fence, match)
        elif not fence and (_TASK.fullmatch(line) or _HEADING.fullmatch(line)):
            line = f"> {line}"  # else it would be read as a task or a heading of its own
        yield f"{lead}  {line}".rstrip()
    if fence:
        yield f"{lead}  {fence}"
