"""Graphs as SVG: nodes with a shape, a word and a colour for their state, and edges with arrow heads.

The rows of a graph's region are its edges (one row), the edges that stand out (one), and a row a node. States change
rows of nodes; places depend on the structure only, so nothing moves unless nodes or edges come or go. A list beside the
graph shows the same to those who do not see it, so the drawing itself is hidden from screen readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from unicodedata import east_asian_width

import htpy
from htpy import Node
from markupsafe import Markup

from coordinator.console.graphs.layouts import Graph, Layout, Point
from coordinator.console.parts import icon_path, plain
from coordinator.console.view import Rendered, Row, Visit, region_element

WIDTH, HEIGHT = 196, 46
"""Of a node, in px."""
_TITLE_CELLS = 21
_WORD_CELLS = 27
_LABEL_CELLS = 30
_CELL = 6.5
"""Width of a character of a label, in px."""
_LABEL_HEIGHT = 16
_CORNER = 6.0
_KEPT_GRAPHS, _KEPT_NODES = 64, 8_192
"""How much is kept as HTML: of a graph with a change, most is as before."""


class GraphNode(NamedTuple):
    key: str
    """Of its row."""
    title: str
    icon: str
    tone: str
    """Its colour: queue, work, review, blocked, done, warning, or none."""
    word: str
    """Its state."""
    href: str
    classes: str = ""


class GraphEdge(NamedTuple):
    source: int
    target: int
    label: str = ""


def structure(count: int, edges: Iterable[GraphEdge]) -> Graph:
    """What the layout of a graph depends on."""
    shape = []
    for edge in edges:
        size = (round(_cells(cut(edge.label, _LABEL_CELLS)) * _CELL) + 8, _LABEL_HEIGHT) if edge.label else (0, 0)
        shape.append((edge.source, edge.target, *size))
    return Graph(((WIDTH, HEIGHT),) * count, tuple(shape))


def graph_rows(
    layout: Layout, nodes: Sequence[GraphNode], edges: Sequence[GraphEdge], strong: Collection[tuple[int, int]]
) -> list[Row]:
    """The rows of a graph's region. To be called in a thread: new ones of 300 nodes take some 80 ms."""
    width, height = layout.size
    thin, bold = _edges(layout, tuple(edges), frozenset(strong))
    rows = [
        Row("edges:all", thin, "edges", {"data-box": f"{width:g} {height:g}"}),
        Row("edges:strong", bold, "edges strong"),
    ]
    for node, (x, y) in zip(nodes, layout.nodes, strict=True):
        place = {"transform": f"translate({x:g} {y:g})"}
        rows.append(Row(node.key, _node(node), f"node {node.tone} {node.classes}".rstrip(), place))
    return rows


def graph_element(
    visit: Visit, name: str, rendered: Mapping[str, Rendered], layout: Layout | None, label: str, about: Node
) -> Node:
    """A graph in its page, with what it takes to look around in it.

    Args:
        layout: None: there is no drawing; it may come later.
        about: what the graph shows, and what its colours mean.
    """
    width, height = layout.size if layout is not None else (1.0, 1.0)
    size = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    return htpy.figure(".graph", data_graph=True)[
        htpy.div(".tools", role="group", aria_label=f"Size of the {label.lower()}")[
            htpy.button(type="button", data_zoom="in", title="Larger (+)", aria_label="Larger")["+"],
            htpy.button(type="button", data_zoom="out", title="Smaller (-)", aria_label="Smaller")["\N{MINUS SIGN}"],
            htpy.button(type="button", data_zoom="fit", title="Fit (0)")["fit"],
        ],
        htpy.div(".pane", tabindex="0", role="group", aria_label=f"{label}; a list on this page says the same")[
            htpy.svg(".drawing", size, aria_hidden="true")[
                htpy.defs[
                    _arrow("arrow"),
                    _arrow("strong-arrow"),
                    htpy.clippath(id="in-node")[htpy.rect(width=str(WIDTH - 8), height=str(HEIGHT))],
                ],
                region_element(visit, name, rendered, htpy.g),
            ]
        ],
        htpy.figcaption(".dim")[about],
    ]


def cut(text: str, cells: int) -> str:
    """Text cut to so many cells of a terminal; wide characters take two."""
    text = plain(text).replace("\n", " ")
    if _cells(text) <= cells:
        return text
    kept = ""
    for char in text:
        if _cells(kept + char) >= cells:
            break
        kept += char
    return kept.rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def _cells(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


@lru_cache(_KEPT_GRAPHS)
def _edges(layout: Layout, edges: tuple[GraphEdge, ...], strong: frozenset[tuple[int, int]]) -> tuple[Markup, Markup]:
    """The edges but the strong ones; these, and the labels."""
    thin, bold = list[Node](), list[Node]()
    for edge, points in zip(edges, layout.lines, strict=True):
        if (edge.source, edge.target) in strong:
            bold.append(htpy.path(d=_path(points), marker_end="url(#strong-arrow)"))
        else:
            thin.append(htpy.path(d=_path(points), marker_end="url(#arrow)"))
    for edge, at in zip(edges, layout.labels, strict=True):
        if edge.label and at is not None:
            bold.append(_label(edge.label, at))
    return htpy.fragment[thin].__html__(), htpy.fragment[bold].__html__()


@lru_cache(_KEPT_NODES)
def _node(node: GraphNode) -> Markup:
    drawn = icon_path(node.icon)
    element = htpy.a(href=node.href, tabindex="-1")[
        htpy.title[f"{plain(node.title)}: {node.word}"],
        htpy.rect(width=str(WIDTH), height=str(HEIGHT), rx="7"),
        htpy.g(clip_path="url(#in-node)")[
            htpy.text(".name", x="10", y="19")[cut(node.title, _TITLE_CELLS)],
            htpy.path(".shape", d=drawn, transform="translate(9 26) scale(.9)"),
            htpy.text(".word", x="28", y="37")[cut(node.word, _WORD_CELLS)],
        ],
    ]
    return element.__html__()


def _label(text: str, at: Point) -> Node:
    short = cut(text, _LABEL_CELLS)
    width = round(_cells(short) * _CELL) + 8
    x, y = at
    return htpy.g(".label")[
        htpy.rect(x=f"{x - width / 2:g}", y=f"{y - _LABEL_HEIGHT / 2:g}", width=str(width), height=str(_LABEL_HEIGHT)),
        htpy.text(x=f"{x:g}", y=f"{y + 4:g}", text_anchor="middle")[short],
    ]


def _arrow(id: str) -> Node:
    return htpy.marker(
        id=id, viewBox="0 0 8 8", refX="7.5", refY="4", markerWidth="8", markerHeight="8", orient="auto-start-reverse"
    )[htpy.path(d="M0 0.5L8 4L0 7.5z")]


def _path(points: Sequence[Point]) -> str:
    at = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _towards(corner, before), _towards(corner, after)
        at.append(f"L{start[0]:g} {start[1]:g}Q{corner[0]:g} {corner[1]:g} {end[0]:g} {end[1]:g}")
    return "".join(at) + f"L{points[-1][0]:g} {points[-1][1]:g}"


def _towards(corner: Point, other: Point) -> Point:
    length = ((other[0] - corner[0]) ** 2 + (other[1] - corner[1]) ** 2) ** 0.5
    part = min(_CORNER, length / 2) / length if length else 0.0
    return round(corner[0] + (other[0] - corner[0]) * part, 1), round(corner[1] + (other[1] - corner[1]) * part, 1)
