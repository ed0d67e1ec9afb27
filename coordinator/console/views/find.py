"""Find: pages, projects and items by what somebody types. The palette of all pages shows the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import htpy
from htpy import Node, a, button, form, span, ul

from coordinator.console.numbers.searches import search
from coordinator.console.parts import icon, item_id, item_link, plain, role
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_element
from coordinator.errors import ToolFailure
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.store.projects.lists import find
from coordinator.toolsets.items import ROLE_NAMES, Wanted, dashed

LEAST_LETTERS = 3
"""Of a title, as scans for less find nearly everything."""
MOST = 10
"""Projects and items, each."""
_Navigation = Sequence[tuple[View, str]]


async def _found(navigation: _Navigation, visit: Visit) -> Rows:
    text = visit.query.get("text", "").strip()
    rows = list(_pages(navigation, visit, text.lower()))
    if text:
        if visit.viewer.reads("items"):
            rows = [*await _item(visit, text), *rows, *await _items(visit, text)]
        rows += [
            Row(f"project:{name}", a(href=path_of(navigation[0][0].name, name))[icon("projects"), "project ", name])
            for name in await _projects(visit, text)
        ]
    return Rows(rows)


def _pages(navigation: _Navigation, visit: Visit, text: str) -> Iterator[Row]:
    for view, key in navigation:
        if text in view.title.lower() and view.open_to(visit.viewer):
            path = (
                path_of(view.name, visit.project)
                if view.of_project
                else f"{path_of(view.name)}?project={visit.project}"
            )
            link: Node = [a(href=path)[icon(view.name), view.title], " ", span(".dim")[f"g {key}"]]
            yield Row(f"page:{view.name}", link)


async def _item(visit: Visit, text: str) -> list[Row]:
    """The item whose id begins with a text."""
    try:
        item = await visit.tool("items", "query_items", {"operation": "get", "id": text})
    except ToolFailure as failure:
        if failure.kind != "permanent":
            raise
        return []
    return [_row(visit, item.id, item.title, item.role)]


async def _items(visit: Visit, text: str) -> list[Row]:
    """Items with a text in their titles or summaries."""
    if len(text) < LEAST_LETTERS:
        return []
    hits = await search(visit, Wanted(text=text), MOST)
    return [_row(visit, dashed(row.id), row.title, ROLE_NAMES[row.role]) for row in hits.rows]


def _row(visit: Visit, id: str, title: str, of_role: str) -> Row:
    content = [item_link(visit.project, id, plain(title)), " ", role(of_role), " ", item_id(id)]
    return Row(f"item:{id}", content)


async def _projects(visit: Visit, text: str) -> list[str]:
    seen = visit.viewer.projects
    if seen is not None:
        return sorted(name for name in seen if name.startswith(text))[:MOST]
    store = visit.reads.store
    return (await visit.reads.admitted(DEFAULT_PROJECT, lambda: find(store, text, MOST)))[0]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    text = visit.query.get("text") or None
    return [
        form(".filters", method="get", action=visit.path, role="search")[
            htpy.input(type="search", name="text", value=text, aria_label="Find", autocomplete="off", data_filter=True),
            button(type="submit")["Find"],
        ],
        region_element(visit, "found", regions, ul, "Nothing here has such a name.", class_="found"),
    ]


def view(navigation: _Navigation) -> View:
    """The page, given those that it finds."""
    region = Region(partial(_found, navigation), ("items",), htpy.li, personal=True)
    return View("find", "Find", _body, {"found": region}, query=("text",))
