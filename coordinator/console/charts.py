"""Sparklines: numbers over time as small pictures, drawn here as SVG paths. Charts to study are in Grafana."""

from __future__ import annotations

from collections.abc import Sequence

import htpy
from htpy import Node

POINTS = 60
"""Of a sparkline."""
_HEIGHT = 24
_TALL = 40
"""Of columns."""


def sparkline(values: Sequence[float | None], label: str) -> Node:
    """Values over time, the present one last; None: nothing is known of then. ``label`` says what they are."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return htpy.span(".no-spark")
    least, most = min(known), max(known)
    # A count that hardly changes is a flat line, not a saw.
    least = min(least, most * 0.8)
    step, rise = 100 / (len(values) - 1), (_HEIGHT - 3) / max(most - least, 1)
    points = [
        (round(n * step, 1), round(_HEIGHT - 1.5 - (value - least) * rise, 1))
        for n, value in enumerate(values)
        if value is not None
    ]
    line = "L".join(f"{x:g} {y:g}" for x, y in points)
    summary = f"{label}: {known[0]:,.4g} at first, {known[-1]:,.4g} now, at most {most:,.4g}"
    return htpy.svg(".spark", viewBox=f"0 0 100 {_HEIGHT}", preserveAspectRatio="none", role="img", aria_label=summary)[
        htpy.title[summary],
        htpy.path(".spark-area", d=f"M{points[0][0]:g} {_HEIGHT}L{line}L{points[-1][0]:g} {_HEIGHT}z"),
        htpy.path(".spark-line", d=f"M{line}"),
    ]


def ends(values: Sequence[float | None], count: int = POINTS) -> list[float | None]:
    """Fewer values: the last one of each of ``count`` equal parts."""
    size = len(values) // count
    return [values[n + size - 1] for n in range(0, size * count, size)]


def sums(values: Sequence[float | None], count: int = POINTS) -> list[float | None]:
    """Fewer values: the sum of each of ``count`` equal parts; None: nothing is known of a part."""
    size = len(values) // count
    parts = [values[n : n + size] for n in range(0, size * count, size)]
    return [None if all(value is None for value in part) else sum(value or 0 for value in part) for part in parts]


def bars(values: Sequence[int], label: str) -> Node:
    """Sums as columns side by side, the present one last; ``label`` says what they are."""
    most = max(*values, 1)
    heights = [max(round(value * _TALL / most, 1), 1) if value else 0 for value in values]
    return htpy.svg(
        ".bars", viewBox=f"0 0 {len(values) * 4} {_TALL}", preserveAspectRatio="none", role="img", aria_label=label
    )[
        htpy.title[label],
        (
            htpy.rect(x=str(n * 4), y=f"{_TALL - height:g}", width="3", height=f"{height:g}")
            for n, height in enumerate(heights)
            if height
        ),
    ]
