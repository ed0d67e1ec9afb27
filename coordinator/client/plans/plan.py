"""Plans: trees of work as mappings, YAML files, or Markdown task lists.

    title: Release 2
    children:
      - {ref: build, title: Build, tags: ci}
      - {ref: notes, title: Write notes, tags: [docs, text], after: [build]}
      - {title: Publish, after: [build, notes]}

An item has ``title``, and may have ``ref``, ``after``, ``blockers``, ``children``, ``notes`` (key: body), ``done`` and
``blocked`` besides the fields that ``manage_items`` takes; ``recurs`` can be a cron expression alone, ``resources`` and
``budget`` have short forms (``gpu=2``; ``cost=2.50, tokens=200000, time=2h``). ``after`` names refs, or titles that
occur once, anywhere in the plan; what is below an item waits with it, but not for its ``blockers``. An item with
children is offered to nobody, and ends with the last of them: what comes after them is one more child, ``after`` the
others.

A list of tasks (``task_list``) is a plan, too. Its root is the one heading that all else is below, or one task, if it
has an identity, as exports write it; else it has the file's name. Headings are containers, the root only with an
identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, BinaryIO

from coordinator.client.errors import FleetError, error_of
from coordinator.client.plans.fields import PLAN_FIELDS
from coordinator.client.plans.task_list import BOXES, Task, TaskList, named, read_tasks
from coordinator.errors import that_exist
from coordinator.units import MOMENT, moment

DEEPEST = 3
MOST_BYTES = 10_000_000
"""Of a plan in a file."""
_PATH = re.compile(r"plan((?:\.children\[\d+\])*)(?:\.(\w+))?: ")
_NUMBER = re.compile(r"\d+")
_OWN = ("ref", "after", "blockers", "children", "notes", "done", "blocked")


@dataclass
class Node:
    """An item of a plan."""

    path: str
    """Where it is in the plan, for messages."""
    fields: dict[str, Any]
    ref: str
    after: list[str] = field(default_factory=list)
    blockers: list[str] = field(default_factory=list)
    """What it waits for alone, without what is below it."""
    children: list[Node] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    done: bool = False
    blocked: bool = False

    def all(self) -> Iterator[Node]:
        """It and all items below, parents first."""
        yield self
        for child in self.children:
            yield from child.all()


@dataclass
class Plan:
    """A checked plan."""

    root: Node
    edges: list[tuple[str, str]]
    """Refs: the second waits for the first. Parents wait for their children without edges."""


@dataclass(frozen=True)
class Text:
    """A plan as it is written, with the file's name for messages."""

    text: str
    name: str
    markdown: bool
    """Whether it is a task list; else YAML, which JSON is, too."""

    @classmethod
    def of(cls, path: Path) -> Text:
        """That of a file. Raises as ``read``."""
        with path.open("rb") as file:
            return cls.from_stream(file, str(path), path.suffix in (".md", ".markdown"))

    @classmethod
    def from_stream(cls, stream: BinaryIO, name: str, markdown: bool) -> Text:
        """That of an open file. Raises as ``read``."""
        data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise _wrong(name, f"is larger than a plan may be, {MOST_BYTES // 1_000_000} MB")
        try:
            return cls(data.decode("utf-8-sig"), name, markdown)
        except UnicodeDecodeError:
            raise _wrong(name, "is not text in UTF-8") from None

    def mapping(self) -> Mapping[str, Any]:
        """The mapping that it stands for. Raises as ``read``."""
        if self.markdown:
            try:
                return _of_tasks(read_tasks(self.text, boxless=True), Path(self.name).stem)
            except ValueError as error:
                raise _wrong(self.name, str(error)) from None
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError  # only plans in files need it

        try:
            mapping = YAML(typ="safe", pure=True).load(self.text)
        except MarkedYAMLError as error:
            at = f"{self.name}:{error.problem_mark.line + 1}" if error.problem_mark else self.name
            raise _wrong(at, f"is not YAML: {error.problem or error.context}") from None
        except (YAMLError, ValueError, RecursionError) as error:  # also values of a wrong form, and a tower of brackets
            raise _wrong(self.name, f"is not YAML: {error}") from None
        if not isinstance(mapping, Mapping):
            raise _wrong(self.name, "must be a mapping with title and children")
        return mapping

    def located(self, message: str) -> str:
        """A message that begins with the path of an item, with the file and the line of that before it."""
        path = _PATH.match(message)
        if path is None:
            return message
        numbers = [int(number) for number in _NUMBER.findall(path[1])]
        line = self._task_line(numbers) if self.markdown else self._entry_line(numbers, path[2] or "")
        return f"{self.name}:{line}: {message}" if line else f"{self.name}: {message}"

    def _task_line(self, numbers: Sequence[int]) -> int:
        tasks = read_tasks(self.text, boxless=True)
        at = _root(tasks) or Task("", children=tasks.tops)
        for number in numbers:
            at = at.children[number]
        return at.line

    def _entry_line(self, numbers: Sequence[int], field: str) -> int:
        from ruamel.yaml import YAML

        at = YAML(typ="safe", pure=True).compose(self.text)
        for number in numbers:
            at = _member(at, "children")[1].value[number]
        key = _member(at, field)[0]
        return int((key or at).start_mark.line) + 1


def _root(tasks: TaskList) -> Task | None:
    """What is the root of the plan, of what the list has."""
    top = tasks.tops[0] if len(tasks.tops) == 1 else None
    return top if top is not None and (top.heading or top.identity) else None


def _of_tasks(tasks: TaskList, title: str) -> dict[str, Any]:
    """The mapping that a list stands for. Raises ValueError naming the line."""
    text, root = tasks.text, _root(tasks)
    if not tasks.tops and text.startswith("#"):
        title, _, text = text.lstrip("#").strip().partition("\n")
    items: dict[Task | None, dict[str, Any]] = {None: {"title": title, "description": text.strip("\n"), "children": []}}
    refs = {task.identity: task.ref for task in tasks.all() if task.identity and task.ref}
    steps = 0
    for task in tasks.all():
        if task.doubled:
            raise ValueError(f"line {task.line} has {task.doubled[0]} besides another such mark")
        if task.box not in BOXES:
            raise ValueError(f"line {task.line}: [{task.box}] is no state: a box has one of '{''.join(BOXES)}'")
        state = BOXES[task.box]
        item: dict[str, Any] = {
            "title": task.title,
            "description": task.description,
            "ref": task.ref or task.identity,
            "tags": task.tags,
            "priority": task.priority,
            "after": [refs.get(name, name) for name in task.after],
            "blockers": [refs.get(name, name) for name in task.blockers],
            "done": state in ("done", "cancelled"),
            "blocked": state == "blocked",
            "statusLabel": state if state in ("cancelled", "in-progress") else "",
        }
        if task.heading and (task.identity or task is not root):
            item |= {"type": "heading", "container": True}
        if task.before is not None:
            before = items[task.before]
            item["after"].append(before.setdefault("ref", f"step {steps}"))
        steps += task.numbered
        items[task] = {name: value for name, value in (item | task.fields).items() if value}
        items[task.parent].setdefault("children", []).append(items[task])
    if root is not None and text:
        items[root]["description"] = "\n\n".join(filter(None, (text, root.description)))
    return {name: value for name, value in items[root].items() if value}


def _member(node: Any, name: str) -> tuple[Any, Any]:
    """Key and value of a member of a YAML mapping; None: it has none."""
    members = node.value if isinstance(node.value, list) else ()
    return next(((key, value) for key, value in members if key.value == name), (None, None))


def read(plan: Mapping[str, Any] | str | Path | Text | Plan) -> Plan:
    """Reads and checks a plan.

    Args:
        plan: the plan, or the path of a file with one: ``.yaml``, ``.yml``, ``.json`` or ``.md``.

    Raises:
        Invalid: the plan is wrong; the message says where, and what is allowed.
        OSError: the file cannot be read.
    """
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, Mapping):
        return _checked(plan)
    text = plan if isinstance(plan, Text) else Text.of(Path(plan))
    mapping = text.mapping()
    try:
        return _checked(mapping)
    except FleetError as error:
        raise error_of(error.code, text.located(error.message)) from None


def _checked(mapping: Mapping[str, Any]) -> Plan:
    root = _node(mapping, "plan", "root", 0)
    nodes: dict[str, Node] = {}
    for node in root.all():
        if nodes.setdefault(node.ref, node) is not node:
            raise _wrong(f"{node.path}.ref", f"{node.ref!r} is used twice")
    titles: dict[str, list[str]] = {}
    for node in nodes.values():
        titles.setdefault(str(node.fields["title"]).casefold(), []).append(node.ref)
    waits: dict[str, set[str]] = {ref: {child.ref for child in node.children} for ref, node in nodes.items()}
    own = [(_named(name, node, nodes, titles), node.ref) for node in nodes.values() for name in node.blockers]
    above = {child.ref: ref for ref, node in nodes.items() for child in node.children}
    named = {node.ref: [_named(name, node, nodes, titles) for name in node.after] for node in nodes.values()}
    edges = []
    for node in nodes.values():
        for ref in dict.fromkeys(named[node.ref]):
            if ref in waits[node.ref]:
                continue
            waits[node.ref].add(ref)
            edges.append((ref, node.ref))
            if ref in {below.ref for below in node.all()}:
                continue
            for child in node.children:  # these come later: parents are first
                # One that waits for an open sibling waits with it.
                if all(above.get(blocker) != node.ref or nodes[blocker].done for blocker in named[child.ref]):
                    named[child.ref].append(ref)
    for ref, other in own:
        waits[other].add(ref)
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as cycle:
        circle = " -> ".join(str(nodes[ref].fields["title"]) for ref in reversed(cycle.args[1]))
        raise _wrong(
            nodes[cycle.args[1][0]].path, f"these wait for each other, or for what they are part of: {circle}"
        ) from None
    return Plan(root, [*dict.fromkeys([*edges, *own])])


def _named(name: str, node: Node, nodes: Mapping[str, Node], titles: Mapping[str, Sequence[str]]) -> str:
    """The ref that ``after`` of a node means by a name."""
    try:
        return named(name, nodes, titles)
    except ValueError as error:
        raise _wrong(f"{node.path}.after", str(error)) from None


def _node(value: Any, path: str, ref: str, depth: int) -> Node:
    """Checks one item and those below; what only the fleet knows, such as names of types, is left to it."""
    if isinstance(value, str):
        value = {"title": value}
    if not isinstance(value, Mapping):
        raise _wrong(path, "must be a mapping, or a title")
    if depth > DEEPEST:
        raise _wrong(path, f"is too deep: an item has at most {DEEPEST} above it")
    for name in value:
        if name not in PLAN_FIELDS and name not in _OWN:
            raise _wrong(f"{path}.{name}", f"is unknown{that_exist(str(name), (*PLAN_FIELDS, *_OWN))}")
    if not isinstance(value.get("title"), str) or not value["title"].strip():
        raise _wrong(f"{path}.title", "must be a text that is not blank")
    fields = _fields(value, path)
    notes = value.get("notes") or {}
    if not isinstance(notes, Mapping) or not all(isinstance(body, str) for body in notes.values()):
        raise _wrong(f"{path}.notes", "must be a mapping of keys to texts")
    for name in ("done", "blocked"):
        if not isinstance(value.get(name) or False, bool):
            raise _wrong(f"{path}.{name}", "must be true or false")
    if value.get("done") and value.get("blocked"):
        raise _wrong(f"{path}.blocked", "must be false: it is done")
    if not isinstance(value.get("ref") or "", str | int):
        raise _wrong(f"{path}.ref", "must be a text")
    children = value.get("children") or []
    if not isinstance(children, Sequence) or isinstance(children, str):
        raise _wrong(f"{path}.children", "must be a list")
    after, blockers = (value.get(name) or [] for name in ("after", "blockers"))
    node = Node(
        path,
        fields,
        str(value.get("ref") or ref),
        _names(after, f"{path}.after"),
        _names(blockers, f"{path}.blockers"),
        notes={str(key): body for key, body in notes.items()},
        done=bool(value.get("done")),
        blocked=bool(value.get("blocked")),
    )
    for number, child in enumerate(children):
        below = f"{number + 1}" if ref == "root" else f"{ref}.{number + 1}"
        node.children.append(_node(child, f"{path}.children[{number}]", below, depth + 1))
    return node


def _fields(mapping: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The fields of an item, as ``manage_items`` takes them."""
    fields = {name: value for name, value in mapping.items() if name in PLAN_FIELDS and value is not None}
    for name, value in fields.items():
        field, at = PLAN_FIELDS[name], f"{path}.{name}"
        if field.listed and not isinstance(value, str):
            fields[name] = ",".join(_texts(value, at))
        elif field.form is moment and isinstance(value, date):
            fields[name] = _time(value, at)
        elif isinstance(value, str):
            try:
                fields[name] = field.form(value)
            except ValueError as error:
                raise _wrong(at, str(error)) from None
    return fields


def _time(time: date, path: str) -> str:
    """A time of YAML, which reads it by itself."""
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise _wrong(path, MOMENT)
    return time.isoformat()


def _names(value: Any, path: str) -> list[str]:
    return _texts([value] if isinstance(value, str | int) else value, path)


def _texts(value: Any, path: str) -> list[str]:
    if not isinstance(value, Sequence) or not all(isinstance(text, str | int) for text in value):
        raise _wrong(path, "must be a list of texts")
    return [str(text) for text in value]


def _wrong(path: str, problem: str) -> FleetError:
    return error_of("VALIDATION_ERROR", f"{path}: {problem}")
