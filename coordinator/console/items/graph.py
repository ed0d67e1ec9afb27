"""Items as nodes of graphs, and the neighbourhood of one item, which pages about it can show."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from typing import NamedTuple

import htpy
from htpy import Node

from coordinator.console.graphs.drawing import GraphEdge, GraphNode, graph_element, graph_rows, structure
from coordinator.console.graphs.layouts import Drawn
from coordinator.console.parts import number, plain
from coordinator.console.view import Region, Rendered, Rows, Visit, path_of, region_head
from coordinator.toolsets.items import MAX_SIDE, ROLE_NAMES, STATES, Neighbourhood, TreeNode, dashed, read_neighbourhood


class ItemState(NamedTuple):
    tone: str
    icon: str
    word: str


_IN_QUEUE = {"ready": "ready", "held": "ready", "waiting": "not offered", "parent": "waits for its children"}


def state_of(item: TreeNode, now: int, sees: bool) -> ItemState:
    """What an item does or waits for; only some viewers see who holds it."""
    role, state = ROLE_NAMES[item.role], STATES[item.state]
    if role == "terminal":
        return ItemState("done", "done", "done")
    if role == "blocked":
        return ItemState("blocked", "blocked", "blocked")
    if state == "held" and item.expires > now:
        return ItemState(role, role, f"{role}: {plain(item.holder) if sees else 'held'}")
    if item.blockers:
        return ItemState("queue", "pending", f"waits for {number(item.blockers)}")
    if state == "abandoned":
        return ItemState("warning", "blocked", f"{role}, abandoned")
    if role == "queue":
        return ItemState("queue", "ready", _IN_QUEUE[state])
    return ItemState(role, role, role)


def drawn(visit: Visit, item: TreeNode, now: int, classes: str = "", more: str = "") -> GraphNode:
    """An item as a node; ``more`` is said after its state."""
    standing = state_of(item, now, visit.viewer.sees_holders)
    key, word = dashed(item.id), f"{standing.word}, {more}" if more else standing.word
    classes += " ready" * (standing.word == "ready")
    path = path_of("item", visit.project, key)
    return GraphNode(f"item:{key}", item.title, standing.icon, standing.tone, word, path, classes)


class _Shown(NamedTuple):
    found: Neighbourhood
    edges: list[GraphEdge]
    drawn: Drawn


async def _shown(visit: Visit) -> _Shown:
    async def make() -> _Shown:
        item: str = (await visit.tool("items", "query_items", {"operation": "get", "id": visit.id})).id.replace("-", "")
        neighbourhood = await visit.read(read_neighbourhood, item)
        edges = sorted(GraphEdge(edge.blocker, edge.blocked) for edge in neighbourhood.edges)
        if not edges:
            return _Shown(neighbourhood, [], Drawn(None))
        return _Shown(neighbourhood, edges, await visit.layouts.drawn(structure(len(neighbourhood.nodes), edges)))

    key = "neighbours", visit.project, visit.id, visit.viewer.reads("items"), visit.at
    return await visit.reads.shared(key, make)


async def _rows(visit: Visit) -> Rows:
    graph = await _shown(visit)
    head = _about(visit, graph)
    if graph.drawn.layout is None:
        return Rows([], head=head, again=graph.drawn.again)
    nodes = [
        drawn(visit, node, graph.found.now, "here first" * (place == 0)) for place, node in enumerate(graph.found.nodes)
    ]
    return Rows(await to_thread(graph_rows, graph.drawn.layout, nodes, graph.edges, ()), head=head)


def _about(visit: Visit, graph: _Shown) -> Node:
    item = graph.found.nodes[0]
    return [
        f"{MAX_SIDE} on each side are drawn. " if max(graph.found.blockers, graph.found.blocked) > MAX_SIDE else None,
        f"{graph.drawn.why} " if graph.drawn.why and not graph.drawn.again else None,
        htpy.a(href=path_of("tree", visit.project, dashed(item.id)))["Graph of what is below it"],
        [", ", htpy.a(href=path_of("tree", visit.project, dashed(item.parent)))["of its parent"]]
        if isinstance(item.parent, str)
        else None,
    ]


NEIGHBOURS = Region(_rows, ("items",), htpy.g)
"""The region of a view whose path ends in an item's id; the view needs the module ``graph.js``."""


async def neighbours_element(visit: Visit, name: str, rendered: Mapping[str, Rendered]) -> Node:
    """What the item waits for and what waits for it, one step both ways, as a graph, with the way to the whole."""
    graph = await _shown(visit)
    about = region_head(name, rendered)
    return graph_element(visit, name, rendered, graph.drawn.layout, "Neighbours", about)
