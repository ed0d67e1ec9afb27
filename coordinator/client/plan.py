"""Plans: trees of work as mappings, YAML files, or Markdown task lists.

    title: Release 2
    children:
      - {ref: build, title: Build, tags: ci}
      - {ref: notes, title: Write notes, tags: [docs, text], after: [build]}
      - {title: Publish, after: [build, notes]}

An item has ``title``, and may have ``ref``, ``after``, ``children``, ``notes`` (key: body) and ``done`` besides the
fields that ``manage_items`` takes. ``after`` names refs, or titles that occur once, anywhere in the plan. ``markdown``
has the other form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from coordinator.client.errors import FleetError, error_of
from coordinator.client.markdown import markdown
from coordinator.errors import that_exist

DEEPEST = 3
_LISTS = ("tags", "traits")
_OWN = ("ref", "after", "children", "notes", "done")
_FIELDS = (
    "title", "description", "summary", "priority", "complexity", "tags", "type", "traits", "requires",
    "requiresVerification", "maxAttempts", "retryBackoffSeconds", "metadata", "properties", "statusLabel",
)  # fmt: skip


@dataclass
class Node:
    """An item of a plan."""

    path: str
    """Where it is in the plan, for messages."""
    fields: dict[str, Any]
    ref: str
    after: list[str] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    done: bool = False

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
    """Refs: the second waits for the first. Parents wait for their children, so that nobody is offered them before."""


def load(path: str | Path) -> Mapping[str, Any]:
    """The mapping that a file has. Raises as ``read``."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise _wrong(str(path), "is not text") from None
    if path.suffix in (".md", ".markdown"):
        return markdown(text, path.stem)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError  # only plans in files need it

    try:
        found = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise _wrong(str(path), f"is not YAML: {error}") from None
    if not isinstance(found, Mapping):
        raise _wrong(str(path), "must be a mapping with title and children")
    return found


def read(given: Mapping[str, Any] | str | Path) -> Plan:
    """Reads and checks a plan.

    Args:
        given: the plan, or the path of a file with one: ``.yaml``, ``.yml``, ``.json`` or ``.md``.

    Raises:
        Invalid: the plan is wrong; the message says where, and what is allowed.
        OSError: the file cannot be read.
    """
    root = _node(given if isinstance(given, Mapping) else load(given), "plan", "root", 0)
    nodes: dict[str, Node] = {}
    for node in root.all():
        if nodes.setdefault(node.ref, node) is not node:
            raise _wrong(f"{node.path}.ref", f"{node.ref!r} is used twice")
    titles: dict[str, list[str]] = {}
    for node in nodes.values():
        titles.setdefault(str(node.fields["title"]).casefold(), []).append(node.ref)
    waits: dict[str, set[str]] = {ref: {child.ref for child in node.children} for ref, node in nodes.items()}
    edges = []
    for node in nodes.values():
        for name in node.after:
            same = titles.get(name.casefold(), [])
            ref = name if name in nodes else same[0] if len(same) == 1 else None
            if ref is None:
                told = (
                    f"{len(same)} items have the title {name!r}: give them a ref" if same else f"there is no {name!r}"
                )
                raise _wrong(f"{node.path}.after", told + ("" if same else that_exist(name, [*nodes, *titles])))
            if ref not in waits[node.ref]:
                waits[node.ref].add(ref)
                edges.append((ref, node.ref))
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as cycle:
        named = " -> ".join(str(nodes[ref].fields["title"]) for ref in reversed(cycle.args[1]))
        raise _wrong("plan", f"these wait for each other, or for what they are part of: {named}") from None
    above = {child.ref: ref for ref, node in nodes.items() for child in node.children}
    # A parent waits for a child by waiting for a sibling that does.
    followed = {before for before, ref in edges if above.get(before) == above.get(ref)}
    for node in nodes.values():
        edges += [(child.ref, node.ref) for child in node.children if child.ref not in followed]
    return Plan(root, edges)


def _node(given: Any, path: str, ref: str, depth: int) -> Node:
    """Checks one item and those below; what only the fleet knows, such as names of types, is left to it."""
    if isinstance(given, str):
        given = {"title": given}
    if not isinstance(given, Mapping):
        raise _wrong(path, "must be a mapping, or a title")
    if depth > DEEPEST:
        raise _wrong(path, f"is too deep: an item has at most {DEEPEST} above it")
    for name in given:
        if name not in _FIELDS and name not in _OWN:
            raise _wrong(f"{path}.{name}", f"is unknown{that_exist(str(name), (*_FIELDS, *_OWN))}")
    if not isinstance(given.get("title"), str) or not given["title"].strip():
        raise _wrong(f"{path}.title", "must be a text that is not blank")
    fields = {name: value for name, value in given.items() if name in _FIELDS and value is not None}
    for name in _LISTS:
        if name in fields and not isinstance(fields[name], str):
            fields[name] = ",".join(_texts(fields[name], f"{path}.{name}"))
    notes = given.get("notes") or {}
    if not isinstance(notes, Mapping) or not all(isinstance(body, str) for body in notes.values()):
        raise _wrong(f"{path}.notes", "must be a mapping of keys to texts")
    after = given.get("after") or []
    children = given.get("children") or []
    if not isinstance(children, Sequence) or isinstance(children, str):
        raise _wrong(f"{path}.children", "must be a list")
    node = Node(
        path,
        fields,
        str(given.get("ref") or ref),
        _texts([after] if isinstance(after, str) else after, f"{path}.after"),
        notes={str(key): body for key, body in notes.items()},
        done=bool(given.get("done")),
    )
    for number, child in enumerate(children):
        below = f"{number + 1}" if ref == "root" else f"{ref}.{number + 1}"
        node.children.append(_node(child, f"{path}.children[{number}]", below, depth + 1))
    return node


def _texts(given: Any, path: str) -> list[str]:
    if not isinstance(given, Sequence) or not all(isinstance(one, str | int) for one in given):
        raise _wrong(path, "must be a list of texts")
    return [str(one) for one in given]


def _wrong(path: str, problem: str) -> FleetError:
    return error_of("VALIDATION_ERROR", f"{path}: {problem}")
