"""Markdown: a list of tasks, below headings.

``- [ ] Upload retries #net !high`` is a task with a tag and a priority; ``[x]`` is done, ``[~]`` or ``[-]`` cancelled,
``[!]`` blocked; ``1. [ ]`` is one, too. Deeper tasks are children, headings are containers of what is below them, and
text below a task is its description. ``<!-- fleet:1a2b3c -->`` at the end of a task is its identity; without it, the
path of headings and titles. The marks of plans are read as there (``client/markdown.py``): ``(after: Design)``, which
names tasks by ref, title or identity, ``(due: +4w)`` and the others; ``(after 1a2b3c)`` names identities alone. A
backslash keeps ``#``, ``!`` or ``(`` from being read as more than text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from coordinator.client.markdown import MARK, set_mark
from coordinator.client.plan_fields import PLAN_FIELDS
from coordinator.errors import that_exist
from coordinator.interchange.encodings import encoding_of, text_of_bytes
from coordinator.interchange.model import ImportProblem, Record, Source, State
from coordinator.interchange.shaping import MOST_EDGES

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
_LIKE_A_MARK = re.compile(r"(?<![\\\S])!\w+|(?<![\\\]])\((?:after\b|[A-Za-z]\w*(?: \w+)?:(?!//))[^()]*\)?")
_ESCAPED = re.compile(r"\\([#!(<\\])")
_ESCAPE = re.compile(rf"(?=\\[#!(<\\])|(?<!\S)(?=#[A-Za-z]|![hmlHML]|\(after |{MARK})|(?=<!-- fleet:)")
_MARKS = {"queue": " ", "work": "/", "review": "/", "blocked": "!"}
_ID = 12
_PLAIN = {"timeZone": "UTC", "missed": "one", "overlap": "skip"}
"""What a mark of a recurring task means besides its cron expression."""


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
    marked: list[tuple[int, Record, dict[str, Any]]] = []
    """Lines from 1, records, and what their marks say."""
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
            record, said = _record(source, heading[2].rstrip(" #"), above, used)
            marked.append((at + 1, record, said))
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
            current, said = _record(source, task[3], above, used)
            marked.append((at + 1, current, said))
            current.status = task[2].lower()
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
    _apply_marks(source, marked)
    _end_headings(source)
    return source, places


def _apply_marks(source: Source, marked: Sequence[tuple[int, Record, dict[str, Any]]]) -> None:
    """Gives records what their marks say; what is below a task waits with it.

    Raises:
        ImportProblem: a mark has no such form, or names no task or several.
    """
    ids = {one.id: one.id for one in source.records}
    refs: dict[str, str] = {}
    titles: dict[str, list[str]] = {}
    for one in source.records:
        titles.setdefault(one.title.casefold(), []).append(one.id)
    marked = [each for each in marked if each[1].id in ids]  # not headings without tasks
    for line, one, said in marked:
        if "ref" in said and refs.setdefault(said["ref"], one.id) != one.id:
            raise ImportProblem(f"line {line}: ref: {said['ref']!r} is used twice")
    waits: dict[str, list[str]] = {}
    for line, one, said in marked:
        for name in said.pop("after", ()):
            same = titles.get(name.casefold(), [])
            found = refs.get(name) or ids.get(name) or (same[0] if len(same) == 1 else None)
            if found is None:
                why = f"{len(same)} tasks have the title {name!r}: give them a ref"
                none = f"there is no {name!r}{that_exist(name, [*refs.keys() - ids.keys(), *titles])}"
                raise ImportProblem(f"line {line}: after: {why if same else none}; a backslash before ( makes it text")
            waits.setdefault(one.id, []).append(found)
        said.pop("ref", None)
        for name, value in said.items():
            try:
                one.fields[name] = PLAN_FIELDS[name].form(value)
            except ValueError as error:
                raise ImportProblem(f"line {line}: {name}: {error}") from None
    above = {one.id: one.parent for one in source.records}
    passed: dict[str | None, list[str]] = {}
    for one in source.records:  # parents first
        further, mine = passed.get(one.parent, []), waits.get(one.id, [])
        one.blockers = list(dict.fromkeys([*one.blockers, *further, *mine]))
        passed[one.id] = [*further, *(other for other in mine if not _is_below(other, one.id, above))][:MOST_EDGES]


def _is_below(id_: str, top: str, above: Mapping[str, str | None]) -> bool:
    at: str | None = id_
    while at is not None and at != top:
        at = above.get(at)
    return at is not None


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


def _record(source: Source, text: str, above: Record | None, used: Counter[str]) -> tuple[Record, dict[str, Any]]:
    """A record, and what its marks say, as a plan has it; names what looks like a mark and stays text."""
    identity = _IDENTITY.search(text)
    text = _IDENTITY.sub(" ", text)
    priority = _PRIORITY.search(text)
    after = _AFTER.search(text)
    tags = _TAG.findall(text)
    said: dict[str, Any] = {}
    names = {"after"}
    for mark in _OF_PLANS.finditer(text):
        if mark["name"] in names - {"after"}:
            source.leave_out("marks that a task has already", mark[0])
            continue
        names.add(mark["name"])
        set_mark(said, mark)
    for pattern in (_PRIORITY, _TAG, _AFTER, _OF_PLANS):
        text = pattern.sub(" ", text)
    for mark in _LIKE_A_MARK.finditer(text):
        source.leave_out("what looks like a mark of a task, and stays text", mark[0])
    title = _ESCAPED.sub(r"\1", " ".join(text.split()))
    path = f"{above.id if above else ''}/{title}"
    used[path] += 1
    if identity is not None:
        key = identity[1]
    else:
        if used[path] > 1:  # two of one name
            path += f"/{used[path]}"
        key = hashlib.sha256(path.encode(errors="replace")).hexdigest()[:_ID]
    record = Record(
        key,
        title,
        priority=priority[1] if priority else "",
        tags=tags,
        parent=above.id if above else None,
        blockers=[one.strip() for one in after[1].split(",")] if after else [],
    )
    return record, said


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
    words += [f"({name}: {value})" for name, value in _marks(one.fields)]
    return f"{' '.join(words)} <!-- fleet:{one.id} -->"


def _marks(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What marks can say of an item's fields."""
    yield from (
        (name, fields[field]) for name, field in (("due", "dueAt"), ("not before", "notBefore")) if field in fields
    )
    recurs = fields.get("recurs")
    if recurs and {**_PLAIN, **recurs}.items() >= _PLAIN.items():
        yield "recurs", recurs["cron"]
    if demands := fields.get("resources"):
        yield "resources", ", ".join(map(_demand, demands))
    budget = fields.get("budget") or {}
    units = (("cost", "costMicroUsd", 1_000_000, ""), ("tokens", "tokens", 1, ""), ("time", "wallMs", 1_000, "s"))
    if limits := [f"{name}={Decimal(budget[of]) / by:f}{unit}" for name, of, by, unit in units if of in budget]:
        yield "budget", ", ".join(limits)


def _demand(one: Mapping[str, Any]) -> str:
    amount = "shared" if one.get("mode") == "shared" else one.get("units", 1)
    return one["key"] if amount == 1 else f"{one['key']}={amount}"


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
