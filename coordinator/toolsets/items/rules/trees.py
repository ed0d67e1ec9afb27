"""create_work_tree and complete_tree: checks of their arguments, levels, and the order of completion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.items.contract.notes import NOTE_ROLES
from coordinator.toolsets.items.contract.specs import TreeItem
from coordinator.toolsets.items.contract.trees import CreateWorkTree
from coordinator.toolsets.items.rules.dependencies.edges import Edge, edge_type, threshold
from coordinator.toolsets.items.rules.items import NewItem, new_item
from coordinator.toolsets.items.rules.notes import check_key
from coordinator.toolsets.items.rules.resources import demands
from coordinator.toolsets.items.rules.roles import one_of
from coordinator.toolsets.items.rules.schema import Resolved, SchemaConfig
from coordinator.toolsets.items.rules.values import MAX_NOTE_KEY, names_in, not_blank, short_text, size

ROOT = "root"
MAX_ELEMENTS = 125
MAX_NOTES = 600
MAX_NOTES_EACH = 500
"""The most notes of one item, besides its result (also in ``lua/notes/notes.lua``)."""
_RESULT = "result"
"""The key of its result."""
MAX_TEXT = 200_000
"""The bytes of all texts together."""
MAX_REF = 100


@dataclass(frozen=True, slots=True)
class TreeNoteSpec:
    """A note to create on the item under ``ref``."""

    ref: str
    key: str
    role: str
    body: str


def items_by_ref(args: CreateWorkTree) -> dict[str, TreeItem]:
    """The tree's items by ref, root first.

    Raises:
        ToolFailure: VALIDATION_ERROR for a blank, reserved or repeated ref, or too many elements.
    """
    total = 1 + len(args.children) + len(args.deps)
    if total > MAX_ELEMENTS:
        raise invalid("children", f"at most {MAX_ELEMENTS} items and deps together in one call, not {total}")
    items: dict[str, TreeItem] = {ROOT: args.root}
    for number, child in enumerate(args.children):
        short_text(child.ref, f"children[{number}].ref", MAX_REF)
        if child.ref in items:
            problem = "is reserved for the root" if child.ref == ROOT else "is used twice"
            raise invalid(f"children[{number}].ref", f"'{child.ref}' {problem}")
        items[child.ref] = child
    return items


def edges(args: CreateWorkTree, refs: Mapping[str, object]) -> list[Edge]:
    """The tree's edges.

    Raises:
        ToolFailure: VALIDATION_ERROR for unknown refs, self-edges, duplicates, bad types and cycles.
    """
    edges: list[Edge] = []
    for number, dep in enumerate(args.deps):
        place = f"deps[{number}]"
        _known(dep.source, f"{place}.from", refs)
        _known(dep.target, f"{place}.to", refs)
        if dep.source == dep.target:
            raise invalid(place, "a dependency cannot reference the same item on both sides")
        kind = edge_type(dep.type, f"{place}.type")
        edge = Edge(dep.source, dep.target, kind, threshold(dep.unblock_at, kind, f"{place}.unblockAt"))
        if any((edge.source, edge.target, edge.type) == (e.source, e.target, e.type) for e in edges):
            raise invalid(place, "a dependency of this type between these items is given twice")
        edges.append(edge)
    return edges


def _known(ref: str, field: str, refs: Mapping[str, object]) -> None:
    if ref not in refs:
        known = ", ".join(list(refs)[:20]) + (", ..." if len(refs) > 20 else "")
        raise invalid(field, f"'{ref[:64]}' is not a ref of this call; known: {known}")


def blockers(edges: Sequence[Edge], refs: Mapping[str, object]) -> dict[str, set[str]]:
    """The blockers of each ref, ignoring thresholds."""
    waits: dict[str, set[str]] = {ref: set() for ref in refs}
    for edge in edges:
        if edge.order:
            waits[edge.order[1]].add(edge.order[0])
    return waits


def levels(edges: Sequence[Edge], refs: Mapping[str, object]) -> dict[str, int]:
    """A level for each ref above those of all its blockers.

    Raises:
        ToolFailure: VALIDATION_ERROR naming a cycle.
    """
    waits = blockers(edges, refs)
    result: dict[str, int] = {}
    try:
        for ref in TopologicalSorter(waits).static_order():
            result[ref] = max((result[blocker] + 1 for blocker in waits[ref]), default=0)
    except CycleError as error:
        raise invalid("deps", f"the dependencies form a cycle: {' -> '.join(error.args[1])}") from None
    return result


def waiting(edges: Sequence[Edge], ref: str) -> int:
    """How many edges block a new item; blockers are all in queue."""
    return sum(edge.order is not None and edge.order[1] == ref and edge.unblock_at != "queue" for edge in edges)


def stored(item: TreeItem, place: str, item_id: str, parent: str, level: int, blocked_by: int) -> NewItem:
    """The item in the form of ``create_work_tree.lua``.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field, below ``place``.
    """
    try:
        return new_item(item, item_id, parent)._replace(level=level, blockers=blocked_by)
    except ToolFailure as failure:
        raise ToolFailure(failure.code, f"{place}.{failure.message}") from None


def notes(args: CreateWorkTree, schemas: Mapping[str, Resolved | None]) -> list[TreeNoteSpec]:
    """Explicit notes (of a repeated one the last counts) and, with createNotes, blank ones for the rest.

    Raises:
        ToolFailure: VALIDATION_ERROR: unknown itemRef, bad key, a role other than the schema's, or too many.
    """
    notes: dict[tuple[str, str], TreeNoteSpec] = {}
    for number, note in enumerate(args.notes):
        place = f"notes[{number}]"
        _known(note.item_ref, f"{place}.itemRef", schemas)
        check_key(short_text(note.key, f"{place}.key", MAX_NOTE_KEY), f"{place}.key")
        role = one_of(note.role, NOTE_ROLES, f"{place}.role")
        schema = schemas[note.item_ref]
        declared = next((spec.role for spec in schema.notes if spec.key == note.key), role) if schema else role
        if declared != role:
            raise invalid(f"{place}.role", f"key '{note.key}' has role '{declared}' in the item's schema, not '{role}'")
        notes[note.item_ref, note.key] = TreeNoteSpec(note.item_ref, note.key, role, not_blank(note.body))
    if args.create_notes:
        for ref, schema in schemas.items():
            for spec in schema.notes if schema else ():
                notes.setdefault((ref, spec.key), TreeNoteSpec(ref, spec.key, spec.role, ""))
    if len(notes) > MAX_NOTES:
        raise invalid(
            "notes", f"at most {MAX_NOTES} notes in one call, those of createNotes with them, not {len(notes)}"
        )
    for ref, count in Counter(ref for ref, key in notes if key != _RESULT).items():
        if count > MAX_NOTES_EACH:
            raise invalid("notes", f"an item can have at most {MAX_NOTES_EACH} notes, not {count} ('{ref}')")
    return list(notes.values())


def check_traits(items: Mapping[str, TreeItem], config: SchemaConfig) -> None:
    """Raises ToolFailure VALIDATION_ERROR naming the item and the trait that is not configured."""
    for number, item in enumerate(items.values()):
        place = f"children[{number - 1}]" if number else ROOT
        own = demands(item.resources, f"{place}.resources") if isinstance(item.resources, list) else ""
        problem = config.unknown_trait(",".join(names_in(item.traits or "")), f"{place}.traits")
        if problem := problem or config.resources.problem(own, f"{place}.resources"):
            raise problem


def check_texts(items: Iterable[NewItem], notes: Iterable[TreeNoteSpec]) -> None:
    """Checks the total length of a tree's texts.

    Args:
        items: the root first.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the longest part: root, children or notes.
    """
    root, *children = [sum(size(text) for text in item.fields.values() if isinstance(text, str)) for item in items]
    parts = {"root": root, "children": sum(children), "notes": sum(size(note.body) for note in notes)}
    total = sum(parts.values())
    if total > MAX_TEXT:
        raise invalid(
            max(parts, key=parts.__getitem__),
            f"at most {MAX_TEXT:,} bytes of text in one call, root, children and notes together, not {total:,}",
        )


def completion_order(dependents: Mapping[str, Sequence[str]], last: str | None) -> list[str]:
    """The items (the keys of ``dependents``) in dependency order; ``last`` comes last.

    If edges changed while they were read, there may seem to be a cycle; its items come at the end.
    """
    waits: dict[str, set[str]] = {item: set() for item in dependents}
    for item, blocked in dependents.items():
        for other in blocked:
            if other in waits:
                waits[other].add(item)
    order: list[str] = []
    sorter = TopologicalSorter(waits)
    try:
        sorter.prepare()
    except CycleError:
        pass  # the remaining order has the items outside of cycles
    while ready := sorter.get_ready():
        order += ready
        sorter.done(*ready)
    if len(order) < len(waits):
        placed = set(order)
        order += [item for item in waits if item not in placed]
    if last is not None:
        order = [item for item in order if item != last] + [last]
    return order


def placeholder(prefix: str) -> str:
    """An unknown prefix in the place of an id in a plan."""
    return prefix.ljust(32, "?")


def unfound(item: str) -> str:
    """The prefix of a ``placeholder``; '' for an id."""
    return item.rstrip("?") if item.endswith("?") else ""


def check_targets(root: str | None, items: Sequence[str] | None) -> None:
    """Raises ToolFailure VALIDATION_ERROR unless exactly one of rootId and itemIds is given."""
    if bool(not_blank(root)) == (items is not None):
        raise invalid("rootId", "give exactly one of rootId and itemIds")
