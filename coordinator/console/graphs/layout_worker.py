"""Lays out graphs, in a process of its own: while it does, graphlay lets no other Python code of the process run.

``layouts`` runs this file as a script, so that the process has graphlay and nothing else of the fleet in memory. It
answers a graph a line: nodes (width and height) and edges (source, target, width and height of the label), with the
drawing's size, the upper left corners of nodes, the lines of edges and the centres of their labels. It ends when its
input does, and when a graph takes too long, so it never outlives the front-end that started it by more than that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import graphlay

SECONDS = 5.0
"""The longest time for one graph."""
BALANCED_EDGES = 150
"""With more edges, a quicker way is taken that leaves a few more crossings."""


def drawing(nodes: list[list[float]], edges: list[list[float]]) -> dict[str, Any]:
    """The layout of a graph, beginning at (0, 0)."""
    graph = graphlay.Graph()
    for width, height in nodes:
        graph.node(width=width, height=height)
    for source, target, width, height in edges:
        label: dict[str, Any] = {"label_size": {"width": width, "height": height}} if width else {}
        graph.edge(source, target, **label)
    effort = "balanced" if len(edges) <= BALANCED_EDGES else "fast"
    layout = graphlay.layout(graph, options={"effort": effort, "spacing": {"node_gap": 24.0, "isolated_gap": 24.0}})
    low, high = layout.bounds["min"], layout.bounds["max"]

    def moved(point: dict[str, float]) -> list[float]:
        return [round(point["x"] - low["x"], 1), round(point["y"] - low["y"], 1)]

    corners = []
    for node, (width, height) in zip(layout.nodes, nodes, strict=True):
        x, y = moved(node["center"])
        corners.append([x - width / 2, y - height / 2])
    return {
        "size": moved(high),
        "nodes": corners,
        "lines": [[moved(point) for point in edge["points"]] for edge in layout.edges],
        "labels": [edge["label_anchor"] and moved(edge["label_anchor"]) for edge in layout.edges],
    }


def main() -> None:
    """Answers graphs until the input ends."""
    os.nice(10)  # claims come first
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)  # ends the process, even within graphlay
        answer = json.dumps(drawing(*json.loads(line)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
