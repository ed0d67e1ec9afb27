"""Task lists in Markdown: what plans and imports read, and exports write.

    # Release 2
    - [ ] Build #ci !high (ref: build)
    - [ ] Write notes #docs (after: build)
      What has changed since 1.9, for users.
      - [x] Collect the changes
      - [~] Ask everybody
    - [ ] Publish (not before: 2026-12-01T09:00:00Z) (due: +4w) (resources: site) (budget: cost=2.50, time=2h)

``[x]`` is done, ``[~]`` or ``[-]`` cancelled, ``[!]`` blocked, ``[/]`` in progress. Deeper tasks are children, headings
containers of what is below them. Tasks of a numbered list are done one after the other. Other text belongs to the task
that it is indented below, else to the last one or the heading above. A heading without tasks is text; so is a fence.

Marks stand anywhere in a task, as words: tags, a priority, and the fields of ``fields`` as in ``(due: +4w)``, with
their values as they are or as texts of JSON. ``(after: Build)`` names tasks by ref, title or identity, and what is
below the task waits with it; ``(after 1a2b3c)`` names identities, and the task alone waits. ``<!-- fleet:1a2b3c -->``
is its identity. A backslash keeps ``#``, ``!``, ``(`` or an entry from being read as more than text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.client.plans.fields import MARKS, PLAN_FIELDS
from coordinator.errors import that_exist

BOXES = {"": "queue", " ": "queue", "/": "in-progress", "!": "blocked", "x": "done", "~": "cancelled", "-": "cancelled"}
"""What stands in the box of a task -> the state that it means."""
_ENDED = ("x", "~", "-")
_SAID_BY_HEADINGS = (("container", "true"), ("type", "heading"))
_ENTRY = re.compile(r"([ \t]*)(?:[-*+]|(\d{1,9})[.)])(?:[ \t]{1,4}\[([xX]|\W)\](?=[ \t]|\Z))?(?:[ \t]+(.*)|\Z)")
_REMARK = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]{1,4}(\[\w\][ \t]+.*)")
"""An entry with a letter in brackets that is no box: text, such as a legend."""
_LIKE_AN_ENTRY = re.compile(
    r"([ \t]*(?:\d{1,9}(?=\\*[.)][ \t]+\[.\](?:[ \t]|\Z))|(?=\\*(?:[-*+][ \t]+\[.\](?:[ \t]|\Z)|`{3}|~{3}))))(\\*)"
)
"""A line of text that would be a task or a fence, or was escaped for that; group 2 has its backslashes."""
_HEADING = re.compile(r"(#{1,6}) +(.*)")
_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})(.*)")
IDENTITY = re.compile(r"(?<!\s)\s*(?<!\\)<!-- fleet:([0-9a-zA-Z_.-]{1,64}) -->\s*")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_PLAIN = r"(?:[^()\s]|\([^()]*\))(?:[^()]|\([^()]*\))*"
"""It may have parentheses, but none within them."""
_NAMED = rf"\((?P<name>after|ref|{'|'.join(MARKS)}):\s*(?P<value>{_QUOTED}|{_PLAIN})\)"
_TAG = r"[A-Za-z][\w:./-]*"
_MARK = re.compile(
    rf"(?<!\S)(?:#(?P<tag>{_TAG})|!(?P<priority>(?i:high|medium|low))|\(after (?P<ids>[0-9a-zA-Z_.,\s-]+)\)|{_NAMED})"
    r"(?!\S)"
)
_LIKE_A_MARK = re.compile(r"(?<![\\\S])!\w+|(?<![\\\]])\((?:after\b|[A-Za-z]\w*(?: \w+)?:(?!//))[^()]*\)?")
_ESCAPED = re.compile(r"\\([#!(<\\])")
_ESCAPE = re.compile(rf"(?=\\[#!(<\\]|<!-- fleet:|{_LIKE_A_MARK.pattern})|(?<!\S)(?=#[A-Za-z])")


@dataclass(eq=False)
class Task:
    """A task, or a heading with tasks below."""

    title: str
    box: str = " "
    """What stands in its box, in lower case; empty: it has none."""
    tags: list[str] = field(default_factory=list)
    priority: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    """What its marks say of other fields, by name."""
    ref: str = ""
    identity: str = ""
    after: list[str] = field(default_factory=list)
    """Names of what it waits for, and what is below it with it."""
    blockers: list[str] = field(default_factory=list)
    """Identities of what it waits for alone."""
    description: str = ""
    heading: bool = False
    """Whether it is a heading: a container of type ``heading``, if its marks do not say another."""
    children: list[Task] = field(default_factory=list)
    parent: Task | None = None
    before: Task | None = None
    """The task of a numbered list that it comes after."""
    line: int = 0
    """From 1."""
    doubled: list[str] = field(default_factory=list)
    """Marks that it has already, which are left out."""
    unread: list[str] = field(default_factory=list)
    """What looks like a mark, and stays text."""
    lines: list[str] = field(default_factory=list)
    """Of its description, while it is read."""
    indent: int = 0
    numbered: bool = False

    def all(self) -> Iterator[Task]:
        """It and all below, parents first, in the order of the text."""
        waiting = [self]
        while waiting:
            yield (task := waiting.pop())
            waiting += reversed(task.children)


@dataclass
class TaskList:
    tops: list[Task] = field(default_factory=list)
    """Those below no other."""
    text: str = ""
    """What belongs to none of them."""
    remarks: list[str] = field(default_factory=list)
    """Entries with another mark than a box: they are text."""
    blank: list[int] = field(default_factory=list)
    """Lines of tasks without a text, which are left out; those of plans are wrong."""

    def all(self) -> Iterator[Task]:
        """All tasks, parents first, in the order of the text."""
        for top in self.tops:
            yield from top.all()


def read_tasks(text: str, *, boxless: bool = False) -> TaskList:
    """Reads a list.

    Args:
        boxless: whether an entry without a box is a task, too, unless it is below one with an identity.

    Raises:
        ValueError: the text has a merge conflict; it says in which line.
    """
    result, top = TaskList(), Task("")
    headings: list[tuple[int, Task]] = [(0, top)]
    tasks: list[Task] = []
    """The last task, and those that it is below."""
    owner, fence, room = top, "", 0
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if not fence and line.startswith("<<<<<<< "):
            raise ValueError(f"line {number} begins a merge conflict: resolve it first")
        lead = _columns(line)
        if lead < room and line.strip():  # a fence of a task ends with it
            fence, room = "", 0
        inside, below = fence, next((task for task in reversed(tasks) if task.indent < lead), None)
        if line.strip() and not inside:
            owner = below or (tasks[-1] if tasks else headings[-1][1])
        if begun := _FENCE.match(line):
            fence = _fence_after(inside, begun)
            room = room if inside and fence else below.indent + 2 if fence and below and lead > below.indent + 1 else 0
        if inside or begun:
            _describe(owner, line)
        elif heading := _HEADING.fullmatch(line):
            headings = [above for above in headings if above[0] < len(heading[1])]
            owner = _task(heading[2].rstrip(" #"), headings[-1][1], number)
            owner.box, owner.heading = "", True
            headings.append((len(heading[1]), owner))
            tasks = []
        elif entry := _entry(line, boxless, below):
            last = None
            while tasks and tasks[-1].indent >= lead:
                last = tasks.pop()
            if not boxless and not (entry[4] or "").strip():
                result.blank.append(number)
                continue
            owner = _task(entry[4] or "", below or headings[-1][1], number)
            owner.box, owner.indent, owner.numbered = (entry[3] or "").lower(), lead, entry[2] is not None
            owner.before = last if last is not None and last.numbered and owner.numbered else None
            tasks.append(owner)
        else:
            if remark := _REMARK.fullmatch(line):
                result.remarks.append(remark[1])
            _describe(owner, _unescaped(line))
    _settle(top, text.split("\n"))
    result.tops, result.text = top.children, top.description
    for top_task in result.tops:
        top_task.parent = None
    return result


def _entry(line: str, boxless: bool, below: Task | None) -> re.Match[str] | None:
    """The parts of an entry that is a task below another."""
    entry = _ENTRY.fullmatch(line)
    if entry is None or entry[3] is not None:
        return entry
    task = boxless and (entry[4] or "").strip() and not (below is not None and below.identity)
    return entry if task else None


def _columns(line: str) -> int:
    """The columns before a line's text."""
    return len(line[: len(line) - len(line.lstrip())].expandtabs(4))


def _fence_after(open_: str, match: re.Match[str]) -> str:
    """The fence that is open after a line that begins with a mark of one; empty: none is."""
    mark, info = match[2], match[3]
    if open_:
        return "" if mark.startswith(open_) and not info.strip() else open_
    return "" if mark[0] == "`" and "`" in info else mark


def _describe(owner: Task, line: str) -> None:
    """Adds a line to a description, less the indentation that it has as a part of it."""
    room = 0 if owner.heading or not owner.line else owner.indent + 2
    owner.lines.append(line[min(room, len(line) - len(line.lstrip())) :])


def _unescaped(line: str) -> str:
    match = _LIKE_AN_ENTRY.match(line)
    return line if match is None or not match[2] else line[: match.end(1)] + line[match.end(1) + 1 :]


def _task(text: str, above: Task, line: int) -> Task:
    """A task with what its marks say."""
    task = Task("", parent=above, line=line)
    above.children.append(task)
    for identity in IDENTITY.finditer(text):
        task.doubled += [identity[0].strip()] if task.identity else []
        task.identity = task.identity or identity[1]

    def take(mark: re.Match[str]) -> str:
        name, value, priority = mark["name"], mark["value"], mark["priority"]
        if mark["tag"]:
            task.tags.append(mark["tag"])
        elif mark["ids"]:
            task.blockers += _listed(mark["ids"])
        elif name == "after":
            task.after += _listed(_value(value))
        elif (name == "ref" and task.ref) or MARKS.get(name or "") in task.fields or (priority and task.priority):
            task.doubled.append(mark[0])
        elif priority:
            task.priority = priority.lower()
        elif name == "ref":
            task.ref = _value(value)
        else:
            task.fields[MARKS[name or ""]] = _value(value)
        return "\n"  # which no line has

    rest = _MARK.sub(take, IDENTITY.sub("\n ", text))
    task.unread = [mark[0] for mark in _LIKE_A_MARK.finditer(rest)]
    task.tags += _listed(task.fields.pop("tags", ""))
    task.title = _ESCAPED.sub(r"\1", "".join(part.rstrip() for part in rest.split("\n")).strip())
    return task


def named(name: str, refs: Collection[str], titles: Mapping[str, Sequence[str]]) -> str:
    """What ``after`` means by a name: a ref, or that of the one task with this title.

    Args:
        titles: in lower case -> refs.

    Raises:
        ValueError: there is none, or there are several.
    """
    same = titles.get(name.casefold(), ())
    if name in refs or len(same) == 1:
        return name if name in refs else same[0]
    if same:
        raise ValueError(f"{len(same)} items have the title {name!r}: give them a ref")
    raise ValueError(f"there is no {name!r}{that_exist(name, [*refs, *titles])}")


def _listed(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _value(text: str) -> str:
    if re.fullmatch(_QUOTED, text, re.DOTALL):
        try:
            return str(json.loads(text, strict=False))
        except ValueError:  # quotes that are part of the text
            pass
    return text.strip()


def _settle(task: Task, lines: list[str]) -> bool:
    """Ends a heading, or the list: headings without tasks become text. Returns whether it has tasks."""
    kept = []
    for child in task.children:
        if not child.heading:
            for below in child.all():
                below.description = "\n".join(below.lines).strip("\n")
        elif not _settle(child, lines):
            task.lines += [lines[child.line - 1].rstrip("\r"), *child.lines]
            continue
        kept.append(child)
    task.children = kept
    task.description = "\n".join(task.lines).strip("\n")
    task.box = "x" if kept and all(child.box in _ENDED for child in kept) else ""
    return bool(kept)


def write_tasks(tops: Iterable[Task]) -> Iterator[str]:
    """The lines of a list. Containers are headings, if they are below no task and a heading says all of them."""
    return _section([*tops], 1)


def _section(tasks: Iterable[Task], level: int) -> Iterator[str]:
    """What is below a heading, or at the top: tasks, then headings of this level."""
    headings = []
    for top in tasks:
        if _is_heading(top):
            headings.append(top)
            continue
        stack = [(top, "")]
        while stack:
            task, lead = stack.pop()
            yield f"{lead}- [{task.box}] {_words(task, task.fields)}"
            yield from (f"{lead}  {line}" if line else "" for line in _escaped(task.description))
            stack += [(child, f"{lead}  ") for child in reversed(task.children)]
    for task in headings:
        said = {name: value for name, value in task.fields.items() if (name, value) not in _SAID_BY_HEADINGS}
        yield f"{'#' * level} {_words(task, said)}"
        yield from _section(task.children, level + 1)


def _is_heading(task: Task) -> bool:
    ended = "x" if all(child.box in _ENDED for child in task.children) else " "
    container = task.fields.get("container") == "true" and bool(task.fields.get("type"))
    return container and bool(task.children) and not task.description and task.box.replace("/", " ") == ended


def _words(task: Task, fields: Mapping[str, str]) -> str:
    marked = [tag for tag in task.tags if not re.fullmatch(_TAG, tag)]
    words = [_ESCAPE.sub(r"\\", task.title), *(f"#{tag}" for tag in task.tags if tag not in marked)]
    words += [f"!{task.priority}"] if task.priority else []
    words += [f"(after {', '.join(task.blockers)})"] if task.blockers else []
    said = {"tags": ", ".join(marked), **fields} if marked else fields
    words += [f"({PLAN_FIELDS[name].mark}: {_quoted(value)})" for name, value in said.items()]
    return f"{' '.join(words)} <!-- fleet:{task.identity} -->"


def _quoted(value: str) -> str:
    if re.fullmatch(_PLAIN, value) and value[0] != '"' and value == value.strip() and not re.search("[\n\r<]", value):
        return value
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _escaped(text: str) -> Iterator[str]:
    """The lines of a description, such that none is read as a task, or as a fence that nothing ends."""
    lines = text.strip("\n").split("\n") if text.strip("\n") else []
    ends, closed = {"`": 0, "~": 0}, []
    for line in reversed(lines):
        match = _FENCE.match(line)
        closed.append(match is not None and ends[match[2][0]] >= len(match[2]))
        if match is not None and not match[3].strip():
            ends[match[2][0]] = max(ends[match[2][0]], len(match[2]))
    fence = ""
    for line in lines:
        begun, like, ended = _FENCE.match(line), _LIKE_AN_ENTRY.match(line), closed.pop()
        if fence or (begun is not None and ended):
            fence = fence if begun is None else _fence_after(fence, begun)
        elif like is not None and (like[2] or begun is None or _fence_after("", begun)):
            line = f"{like[1]}\\{line[like.end(1) :]}"
        yield line
