"""Tables and their pages: heads, cells that say on narrow screens what they are, choices of lists, places in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import htpy
from htpy import Element, Node, a, div, h2, nav, section, span, table, tbody, td, th, thead, tr

from coordinator.console.parts import number
from coordinator.console.view import MOST_ROWS, Rendered, Visit, region_element, region_head


def region_table(
    visit: Visit,
    name: str,
    regions: Mapping[str, Rendered],
    columns: Sequence[str],
    empty: Node,
    numbers: Sequence[str] = (),
) -> Node:
    """A region as a table, which is hidden while it is empty.

    Args:
        empty: shown instead while it has no rows.
    """
    heads = [th(scope="col", class_="number" if column in numbers else None)[column] for column in columns]
    return [
        table(".stack")[thead[tr[heads]], region_element(visit, name, regions, tbody)],
        div(".empty", data_empty_of=name, hidden=bool(regions[name].rows))[
            ["The list ends before this place. ", a(href=visit.url(offset=None))["Go to its beginning"]]
            if visit.offset
            else empty
        ],
    ]


def table_part(
    visit: Visit,
    regions: Mapping[str, Rendered],
    name: str,
    title: str,
    columns: Sequence[str],
    empty: Node,
    numbers: Sequence[str] = (),
) -> Node:
    """A part of a page with a heading, what is said about a region, and the region as ``region_table`` shows it."""
    return section(".fleet-part", aria_labelledby=f"of-{name}")[
        h2(id=f"of-{name}")[title, " ", region_head(name, regions)],
        region_table(visit, name, regions, columns, empty, numbers),
    ]


def search_form(visit: Visit, name: str, hint: str, kept: Mapping[str, str | None], before: Node = None) -> Node:
    """A field in which people say what a list is to show, a parameter of the query; ``kept`` are further ones."""
    value = visit.query.get(name) or None
    return htpy.form(".filters", method="get", role="search")[
        before,
        (htpy.input(type="hidden", name=key, value=value) for key, value in kept.items() if value),
        htpy.input(type="search", name=name, value=value, placeholder=hint, aria_label="Name"),
        htpy.button(type="submit")["Filter"],
    ]


def cell(name: str, classes: str = "") -> Element:
    return td(classes, data_label=name) if classes else td(data_label=name)


def choices(visit: Visit, parameter: str, options: Mapping[str, str], default: str) -> Node:
    """Links that choose one of several lists (value -> text), by a parameter of the query."""
    wanted = visit.query.get(parameter, "")
    chosen = wanted if wanted in options else default
    return nav(".choices", aria_label="Lists")[
        (
            a(
                href=visit.url(**{parameter: value if value != default else None, "offset": None}),
                aria_current="true" if value == chosen else None,
            )[text]
            for value, text in options.items()
        )
    ]


def pager(visit: Visit, count: int, total: int, more: bool = False) -> Node:
    """Which rows of a list are shown, and links to those before and after; nothing if that is all."""
    offset = visit.offset
    if not offset and count >= total and not more:
        return None
    before, after = max(0, offset - MOST_ROWS), offset + MOST_ROWS
    return nav(".pager", aria_label="Pages")[
        span[f"{number(offset + 1)}-{number(offset + count)} of {number(total, more)}" if count else None],
        a(rel="prev", href=visit.url(offset=str(before or "")))["previous"] if offset else None,
        a(rel="next", href=visit.url(offset=str(after)))["next"] if after < total else None,
    ]
