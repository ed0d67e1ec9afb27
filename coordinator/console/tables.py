"""Tables and their pages: heads, cells that say on narrow screens what they are, choices of lists, places in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from htpy import Element, Node, a, div, nav, span, table, tbody, td, th, thead, tr

from coordinator.console.parts import number
from coordinator.console.view import MOST_ROWS, Asked, Rendered, region_element


def region_table(
    asked: Asked,
    name: str,
    found: Mapping[str, Rendered],
    columns: Sequence[str],
    empty: Node,
    numbers: Sequence[str] = (),
) -> Node:
    """A region as a table, which is hidden while it is empty.

    Args:
        columns: their heads; ``cell`` names them, too.
        empty: shown instead while it has no rows.
        numbers: columns of numbers.
    """
    heads = [th(scope="col", class_="number" if one in numbers else None)[one] for one in columns]
    return [
        table(".stack")[thead[tr[heads]], region_element(asked, name, found, tbody)],
        div(".empty", data_empty_of=name, hidden=bool(found[name].rows))[
            ["The list ends before this place. ", a(href=asked.url(offset=None))["Go to its beginning"]]
            if asked.offset
            else empty
        ],
    ]


def cell(name: str, classes: str = "") -> Element:
    """A cell of the column of this name."""
    return td(classes, data_label=name) if classes else td(data_label=name)


def choices(asked: Asked, parameter: str, options: Mapping[str, str], default: str) -> Node:
    """Links that choose one of several lists, by a parameter of the query.

    Args:
        options: value -> text.
    """
    given = asked.query.get(parameter, "")
    chosen = given if given in options else default
    return nav(".choices", aria_label="Lists")[
        (
            a(
                href=asked.url(**{parameter: value if value != default else None, "offset": None}),
                aria_current="true" if value == chosen else None,
            )[text]
            for value, text in options.items()
        )
    ]


def pager(asked: Asked, shown: int, total: int, more: bool = False) -> Node:
    """Which rows of a list are shown, and links to those before and after; nothing if that is all.

    Args:
        shown: how many are.
        more: whether there are more than ``total``.
    """
    offset = asked.offset
    if not offset and shown >= total and not more:
        return None
    before, after = max(0, offset - MOST_ROWS), offset + MOST_ROWS
    return nav(".pager", aria_label="Pages")[
        span[f"{number(offset + 1)}-{number(offset + shown)} of {number(total, more)}" if shown else None],
        a(rel="prev", href=asked.url(offset=str(before or "")))["previous"] if offset else None,
        a(rel="next", href=asked.url(offset=str(after)))["next"] if after < total else None,
    ]
