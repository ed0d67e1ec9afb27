"""The dependency graph of a tree: what blocks what, what is ready, and the longest chain that waits; and as a list."""

from __future__ import annotations

import re
from asyncio import to_thread
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import htpy
from htpy import Node, a, h2, li, ol, p, span, ul
from markupsafe import Markup

from coordinator.console.graphs.drawing import GraphEdge, GraphNode, graph_element, graph_rows, structure
from coordinator.console.graphs.layouts import Drawn
from coordinator.console.items.cards import window
from coordinator.console.items.graph import ItemState, drawn, state_of
from coordinator.console.parts import chip, item_id, item_link, number, plain, spaced, state
from coordinator.console.view import (
    MOST_ROWS,
    Region,
    Rendered,
    Row,
    Rows,
    View,
    Visit,
    path_of,
    region_element,
    region_head,
)
from coordinator.toolsets.items import (
    MAX_NODES,
    ROLE_NAMES,
    Below,
    BoardPage,
    TreeGraph,
    Wanted,
    dashed,
    no_such_item,
    read_tree,
)
from coordinator.toolsets.items import TreeNode as Item

_KEPT = 8_192
"""Entries of lists that are kept as HTML: of a tree with a change, most are as before."""
_DEEPEST = 12
"""Levels that are indented."""
_DIGITS = re.compile(r"(\d+)")


class _Shown(NamedTuple):
    tree: TreeGraph
    path: list[int]
    edges: list[GraphEdge]
    drawn: Drawn
    """The nodes in ``ends``."""
    ends: list[int]
    """The nodes that wait for others or block some, by id, so that their order does not depend on their states."""
    children: BoardPage | None
    """A window of the root's children, if the tree is too large to be shown."""
    offset: int = 0
    """Where it begins."""


async def _shown(visit: Visit) -> _Shown:
    by_complexity = visit.query.get("by") == "complexity"

    async def make() -> _Shown:
        root: str = (await visit.tool("items", "query_items", {"operation": "get", "id": visit.id})).id.replace("-", "")
        tree = await visit.read(read_tree, root)
        if not tree.nodes or tree.nodes[0].id != root:  # it was deleted meanwhile
            raise no_such_item("itemId")
        if tree.cut:
            page, offset = await window(visit, Wanted(parent=root), MOST_ROWS)
            return _Shown(tree, [], [], Drawn(None), [], page, offset)
        path = tree.critical_path(by_complexity)
        ids = [node.id for node in tree.nodes]
        ends = sorted({end for edge in tree.edges for end in (edge.blocker, edge.blocked)}, key=ids.__getitem__)
        place = {end: n for n, end in enumerate(ends)}
        edges = sorted(GraphEdge(place[edge.blocker], place[edge.blocked]) for edge in tree.edges)
        if not edges:
            none = Drawn(None, "No item of this tree waits for another one of it.")
            return _Shown(tree, path, [], none, [], None)
        return _Shown(tree, path, edges, await visit.layouts.drawn(structure(len(ends), edges)), ends, None)

    key = "tree", visit.project, visit.id, by_complexity, visit.offset, visit.viewer.reads("items"), visit.at
    return await visit.reads.shared(key, make)


async def _graph(visit: Visit) -> Rows:
    graph = await _shown(visit)
    if graph.drawn.layout is None:
        return Rows([], again=graph.drawn.again)
    steps = {end: f"step {n} of {len(graph.path)}" for n, end in enumerate(graph.path, 1)}
    first = graph.path[0] if graph.path else None
    nodes: list[GraphNode] = []
    for end in graph.ends:
        classes = "strong" * (end in steps) + " first" * (end == first)
        nodes.append(drawn(visit, graph.tree.nodes[end], graph.tree.now, classes, steps.get(end, "")))
    place = {end: n for n, end in enumerate(graph.ends)}
    strong = {(place[above], place[other]) for above, other in zip(graph.path, graph.path[1:], strict=False)}
    return Rows(await to_thread(graph_rows, graph.drawn.layout, nodes, graph.edges, strong))


async def _list(visit: Visit) -> Rows:
    graph = await _shown(visit)
    if graph.children is not None:
        return _children(visit, graph.children, graph.offset)
    single = len(graph.tree.nodes) - len(graph.ends)
    head = f" Only in the list: {number(single)} without dependencies here." if single else None
    # 300 at once are much.
    return Rows(await to_thread(_entries, visit.project, graph, visit.viewer.sees_holders), head=head)


def _entries(project: str, graph: _Shown, sees: bool) -> list[Row]:
    tree, rows = graph.tree, list[Row]()
    steps = {end: n for n, end in enumerate(graph.path, 1)}
    for place, level, position, of in _walk(tree):
        node, below = tree.nodes[place], tree.below[place]
        standing = state_of(node, tree.now, sees)
        content = _entry(project, node, below, standing, (level, position, of), steps.get(place, 0), len(graph.path))
        rows.append(Row(f"item:{dashed(node.id)}", content, "", {"role": "none"}))
    return rows


@lru_cache(_KEPT)
def _entry(
    project: str, node: Item, below: Below, standing: ItemState, place: tuple[int, int, int], step: int, steps: int
) -> Markup:
    """An item in the list.

    Args:
        place: level, place among its siblings, their number.
        step: on the critical path; 0: it is not on it.
    """
    level, position, of = place
    entry = a(
        href=path_of("item", project, dashed(node.id)),
        role="treeitem",
        aria_level=str(level),
        aria_posinset=str(position),
        aria_setsize=str(of),
    )[
        [span(".indent")] * min(level - 1, _DEEPEST),
        state(standing.tone, standing.icon, standing.word),
        span(".name")[plain(node.title)],
        chip(f"critical path, step {step} of {steps}") if step else None,
        span(".dim")[f"{number(below.ended)} of {number(below.items)} below ended"] if below.items > 0 else None,
        span(".dim")[f"{number(below.hidden)} ended not shown"] if below.hidden > 0 else None,
    ]
    return entry.__html__()


def _walk(tree: TreeGraph) -> Iterable[tuple[int, int, int, int]]:
    """Places of nodes from the root down, each with its level from 1, its place among its siblings and their number."""
    places = {node.id: place for place, node in enumerate(tree.nodes)}
    below: dict[int, list[int]] = {}
    for place, node in enumerate(tree.nodes[1:], 1):
        below.setdefault(places.get(str(node.parent), 0), []).append(place)
    for siblings in below.values():
        siblings.sort(key=lambda place: (_natural(tree.nodes[place].title), tree.nodes[place].id))
    waiting = [(0, 1, 1, 1)]
    while waiting:
        place, level, position, of = waiting.pop()
        yield place, level, position, of
        children = below.get(place, [])
        waiting += reversed([(child, level + 1, n, len(children)) for n, child in enumerate(children, 1)])


def _natural(title: str) -> list[tuple[bool, int, str]]:
    return [
        (part.isdecimal(), int(part) if part.isdecimal() and len(part) < 16 else 0, part)
        for part in _DIGITS.split(title.casefold())
    ]


def _children(visit: Visit, page: BoardPage, offset: int) -> Rows:
    """The parts of a tree that is too large, to be chosen from."""
    rows = [
        Row(
            f"item:{dashed(child.id)}",
            a(
                href=path_of("tree", visit.project, dashed(child.id)), role="treeitem", aria_level="1",
                aria_posinset=str(n), aria_setsize=str(page.total or -1),
            )[
                state(*_role(child.role), ROLE_NAMES[child.role]),
                span(".name")[plain(child.title)],
                span(".dim")[f"{number(child.children)} children" if child.children else "no children"],
            ],
            "",
            {"role": "none"},
        )
        for n, child in enumerate(page.rows, offset + 1)
    ]  # fmt: skip
    return Rows(rows, page.total, offset)


def _role(code: int) -> tuple[str, str]:
    name = ROLE_NAMES[code].replace("terminal", "done")
    return name, name


async def _facts(visit: Visit) -> Rows:
    graph = await _shown(visit)
    tree = graph.tree
    if graph.children is not None:
        first, count, total = graph.offset, len(graph.children.rows), graph.children.total or 0
        content: Node = [
            p(".reason")[
                f"This tree has {number(tree.total)} items. A graph shows up to {MAX_NODES} that have not ended: "
                "open a part of it."
            ],
            span[f"{'first' if not first else f'from {number(first + 1)}:'} {number(count)} of {number(total)} parts"],
            a(href=visit.url(offset=str(first + count)))["next"] if first + count < total else None,
        ]
        return Rows([Row("facts:tree", content)], head=_subject(visit, tree.nodes[0]))
    words = [state_of(node, tree.now, True).word for node in tree.nodes]
    below = tree.below[0]
    weighed = visit.query.get("by") == "complexity"
    content = [
        span[f"{number(tree.total)} items"],
        span[f"{number(below.ended)} of {number(below.items)} below ended"] if below.items >= 0 else None,
        span[f"{words.count('ready')} ready"],
        span[f"{sum(word.startswith('waits') for word in words)} wait for others"],
        span[f"critical path: {len(graph.path)} items, by {'complexity' if weighed else 'number'}"]
        if graph.path
        else None,
        a(href=visit.url(by=None if weighed else "complexity"))[f"by {'number' if weighed else 'complexity'}"]
        if graph.path
        else None,
        span[f"{number(below.hidden)} ended items are not shown"] if below.hidden > 0 else None,
        None if tree.all_edges else span(".reason")["There are more dependencies than can be shown."],
        span(".dim")[graph.drawn.why] if graph.drawn.why else None,
    ]
    return Rows([Row("facts:tree", content)], head=_subject(visit, tree.nodes[0]), again=graph.drawn.again)


def _subject(visit: Visit, root: Item) -> Node:
    parent = dashed(root.parent) if isinstance(root.parent, str) else ""
    return spaced(
        item_link(visit.project, dashed(root.id), plain(root.title)),
        item_id(dashed(root.id)),
        a(href=path_of("tree", visit.project, parent))["graph of its parent"] if parent else None,
    )


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    graph = await _shown(visit)
    about = ["An arrow leads from what has to be done first. Bold: the critical path.", region_head("list", regions)]
    return [
        region_head("facts", regions, h2(".subject")),
        region_element(visit, "facts", regions, ol, class_="facts"),
        graph_element(visit, "graph", regions, graph.drawn.layout, "Dependency graph", about),
        region_element(visit, "list", regions, ul, role="tree", aria_label="Items of the tree", class_="tree"),
    ]


VIEW = View(
    "tree",
    "Dependency graph",
    _body,
    {
        "facts": Region(_facts, ("items",)),
        "graph": Region(_graph, ("items",), htpy.g),
        "list": Region(_list, ("items",), li),
    },
    needs=("items",),
    takes_id=True,
    query=("by",),
    modules=("graph.js",),
)
