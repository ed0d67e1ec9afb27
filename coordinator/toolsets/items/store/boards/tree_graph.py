"""Trees and neighbourhoods of items as graphs that people see."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import Script, ScriptFailure, Store
from coordinator.toolsets.items.rules.dependencies.critical_path import critical_path
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.roles import ROLE_CODES
from coordinator.toolsets.items.store.base import LIBRARY, pack
from coordinator.toolsets.items.store.watched import WatchedItems

MAX_NODES = 300
"""How many nodes a graph has at most."""
MAX_SIDE = 50
"""How many blockers, and how many blocked items, a neighbourhood shows at most."""
_MEDIUM = 5
"""The complexity of an item that has none, on a path by complexity."""


class Node(NamedTuple):
    """An item of a graph, as ``lua/boards/nodes.lua`` packs it."""

    id: str
    """In the inner form."""
    title: str
    role: int
    state: int
    """A code of ``rows.STATES``."""
    priority: int
    complexity: int | bool
    """False: none."""
    holder: str
    """Whose claim, live or expired, is on the item; '' for none."""
    expires: int
    """When the claim ends or ended, in ms; 0: there is none."""
    blockers: int
    """Unsatisfied ones, in the graph or not."""
    parent: str | bool
    """False: none."""


class Below(NamedTuple):
    """What is below a node, at any depth; -1: the tree is too large to know."""

    items: int
    ended: int
    """Terminal ones."""
    hidden: int
    """Those that are not nodes of the graph."""


class GraphEdge(NamedTuple):
    """A blocking edge between two nodes."""

    blocker: int
    """Its place among the nodes."""
    blocked: int
    needed: int
    """The role that the blocker must reach, by code."""
    satisfied: bool


class TreeGraph(NamedTuple):
    """An item and those below it."""

    now: int
    total: int
    """How many items the tree has, with the root."""
    nodes: list[Node]
    """The root first; parents before their children."""
    below: list[Below]
    """Of each node."""
    edges: list[GraphEdge]
    all_edges: bool
    """Whether these are all among the nodes."""
    cut: bool
    """Whether there are more items than can be shown, even without subtrees that have ended: ask for a part."""

    def critical_path(self, by_complexity: bool = False) -> list[int]:
        """The places of the nodes on the longest chain of unfinished items that wait for each other, in order.

        Args:
            by_complexity: the chain with the most complexity, 5 for an item without one; else that of most items.
        """
        ended = ROLE_CODES["terminal"]
        weights = {
            place: int(node.complexity) or _MEDIUM if by_complexity else 1
            for place, node in enumerate(self.nodes)
            if node.role != ended
        }
        return critical_path(weights, [(edge.blocker, edge.blocked) for edge in self.edges if not edge.satisfied])


class Neighbourhood(NamedTuple):
    """An item, what blocks it and what it blocks."""

    now: int
    blockers: int
    """How many items block it, satisfied or not."""
    blocked: int
    nodes: list[Node]
    """The item, then some blockers, then some blocked items; at most ``MAX_SIDE`` of each."""
    edges: list[GraphEdge]
    all_edges: bool


_ITEMS = Script(LIBRARY, "tree_items", tuple[int, list[str], list[Below], bool])
_NODES = Script(LIBRARY, "read_nodes", tuple[int, list[Node], list[GraphEdge], bool])
_NEIGHBOURHOOD = Script(LIBRARY, "read_neighbourhood", Neighbourhood)


async def read_tree(store: Store, project: str, root: str, most: int = MAX_NODES) -> TreeGraph:
    """The tree of a root (inner form) in two reads; one of more than 1,000 items takes further ones to be counted.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND; and as ``Store.run`` says.
    """
    try:
        total, ids, below, cut = await store.run(_ITEMS, project, root, min(max(most, 1), MAX_NODES))
    except ScriptFailure:
        raise no_such_item("itemId") from None
    now, nodes, edges, all_edges = await store.run(_NODES, project, pack(ids))
    if total < 0:
        total = 1 + sum(await WatchedItems(store).counts(project, root))
    of = dict(zip(ids, below, strict=True))  # some may have been deleted between the reads
    return TreeGraph(now, total, nodes, [of[node.id] for node in nodes], edges, all_edges, cut)


async def read_neighbourhood(store: Store, project: str, item: str) -> Neighbourhood:
    """The neighbourhood of an item (inner form) in one read.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND; and as ``Store.run`` says.
    """
    try:
        return await store.run(_NEIGHBOURHOOD, project, item, MAX_SIDE)
    except ScriptFailure:
        raise no_such_item("itemId") from None
