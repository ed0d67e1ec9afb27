"""The board: all items of a project in five columns, a window of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import htpy
from htpy import Node, a, button, div, form, h2, label, nav, noscript, ol, option, p, section, select, span

from coordinator.console.acts.buttons import MODULE
from coordinator.console.items.actions import bulk_bar, new_item, new_item_dialog
from coordinator.console.items.cards import HEIGHT, WINDOW, again, cards, window
from coordinator.console.numbers.searches import KEPT_SECONDS, search
from coordinator.console.numbers.spent import NOTHING, held, whose
from coordinator.console.parts import number, plain, role
from coordinator.console.view import Region, Rendered, Rows, View, Visit, region_element, region_head
from coordinator.errors import ToolFailure
from coordinator.toolsets.items import BOARD_STATES, PRIORITIES, ROLE_CODES, ROLE_NAMES, ROLES, Wanted, recent_page

LEAST_LETTERS = 3
"""Of a text that is searched for."""
_EMPTY = {
    "queue": "Nothing waits to be done.",
    "work": "No agent works on anything.",
    "review": "Nothing waits for a review.",
    "blocked": "Nothing is on hold.",
    "terminal": "Nothing has ended yet.",
}
_FILTERS = ("text", "tags", "priority", "type", "holder", "state", "below")


async def _wanted(visit: Visit) -> Wanted | str:
    """What the filters of a board ask for, but the role; or what is wrong with them. Raises ToolFailure."""
    try:
        wanted = await _read(visit)
        wanted._replace(role=visit.query.get("role", "")).packable()
    except ToolFailure as failure:
        if failure.kind != "permanent":
            raise
        return failure.message
    return wanted


async def _read(visit: Visit) -> Wanted:
    filters = {name: visit.query.get(name, "").strip() for name in _FILTERS}
    if not visit.viewer.sees_holders:
        filters["holder"] = ""
    below = filters["below"]
    if below:
        read = partial(visit.tool, "items", "get_context", {"itemId": below})
        context = await visit.reads.shared(("below", visit.project, below, visit.at), read)  # by all columns
        below = context.item.id.replace("-", "")
    tags = ",".join(filter(None, map(str.strip, filters["tags"].split(","))))
    text = filters["text"] if len(filters["text"]) >= LEAST_LETTERS else ""
    return Wanted(
        tags=tags, type=filters["type"], priority=filters["priority"], state=filters["state"],
        holder=filters["holder"], ancestor=below, text=text,
    )  # fmt: skip


def _scans(wanted: Wanted) -> bool:
    """Whether no index can answer."""
    return bool(wanted.text) or "," in wanted.tags or bool(wanted.tags and wanted.type)


async def _column(name: str, visit: Visit) -> Rows:
    if visit.query.get("role", name) not in ("", name):
        return Rows([])
    wanted = await _wanted(visit)
    if isinstance(wanted, str):
        return Rows([])  # the page says why
    counted, kept = wanted._replace(role=name), NOTHING
    if wanted.state == "available" and name != "terminal":
        kept = await held(visit)
        if kept.project is not None:
            return Rows([], head=f"0: {whose(kept.project)} is spent")
    if _scans(wanted) or kept.of("item"):
        return await _found(visit, wanted, name)
    page, offset = await window(visit, counted)
    if page.total is None:
        return await _found(visit, wanted, name)
    total, rows, of = page.total, page.rows, page.roles[ROLE_CODES[name]]
    if name == "terminal" and total > WINDOW and not visit.query.get("role"):
        last = await visit.read(recent_page, counted, limit=WINDOW)
        if len(last.rows) == WINDOW:
            head = f"last {WINDOW} of {number(total)}"
            return Rows(await cards(visit, last.rows), head=head)
    head = number(total) if total == of else f"{number(total)} of {number(of)}"
    return Rows(await cards(visit, rows), total, offset, head=head, again=again(page.now, rows))


async def _found(visit: Visit, wanted: Wanted, name: str) -> Rows:
    """A column of what a search has found."""
    only = visit.query.get("role", "")
    hits = await search(visit, wanted._replace(role=only))
    matching = [row for row in hits.rows if ROLE_NAMES[row.role] == name]
    if wanted.state == "available":
        matching = [row for row in matching if not row.spent]
    of = hits.roles[ROLE_CODES[name]]
    head = f"{len(matching)} of first {len(hits.rows)}" if hits.more else f"{len(matching)} of {number(of)}"
    offset = min(visit.offset, max(0, len(matching) - WINDOW))
    rows = await cards(visit, matching[offset : offset + WINDOW])
    return Rows(rows, len(matching), offset, hits.more, head, KEPT_SECONDS)


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    only = visit.query.get("role", "")
    filtered = any(visit.query.get(name) for name in _FILTERS)
    columns = [name for name in ROLES if only in ("", name)]
    problem = await _wanted(visit)
    if isinstance(problem, str):
        return [_filters(visit, True), p(".hint", role="alert")[plain(problem)]]
    return [
        _filters(visit, filtered),
        bulk_bar(visit),
        new_item_dialog(visit),
        nav(".tabs", aria_label="Roles")[(_tab(visit, regions, name, only) for name in ROLES)],
        div(class_="columns one" if only else "columns")[
            (_section(visit, regions, name, filtered) for name in columns)
        ],
    ]


def _tab(visit: Visit, regions: Mapping[str, Rendered], name: str, only: str) -> Node:
    current = "page" if name == (only or ROLES[0]) else None
    return a(href=visit.url(role=name, offset=None), aria_current=current, data_same=True)[role(name)]


def _section(visit: Visit, regions: Mapping[str, Rendered], name: str, filtered: bool) -> Node:
    region = regions[name]
    empty = "No item here meets the filters." if filtered else _EMPTY[name]
    end = region.offset + len(region.rows)
    return section(".column", aria_label=name)[
        h2[
            a(href=visit.url(role=None if visit.query.get("role") else name, offset=None), data_same=True)[role(name)],
            region_head(name, regions, span(".dim")),
        ],
        region_element(visit, name, regions, ol, empty, class_="window", aria_label=f"items in {name}"),
        noscript[a(href=visit.url(offset=str(end)))[f"from {number(end + 1)} on"]] if end < region.total else None,
    ]


def _filters(visit: Visit, filtered: bool) -> Node:
    parameter = visit.query.get
    return [
        form(".filters", method="get", action=visit.path, data_search="text", role="search")[
            _field(
                visit,
                "text",
                "search",
                minlength=str(LEAST_LETTERS),
                placeholder="text in title or summary",
                data_filter=True,
            ),
            _choice(visit, "role", "role", ROLES),
            _choice(visit, "priority", "priority", PRIORITIES),
            _choice(visit, "state", "state", BOARD_STATES),
            _field(visit, "tags", "tags", placeholder="any of these, with commas"),
            _field(visit, "type", "type"),
            _field(visit, "holder", "held by", placeholder="agent") if visit.viewer.sees_holders else None,
            _field(visit, "below", "below", placeholder="id of an item"),
            button(type="submit")["Filter"],
            a(".button", href=visit.path)["Show all"] if filtered or parameter("role") else None,
            new_item(visit),
        ],
        p(".hint")[f"A text has at least {LEAST_LETTERS} letters; this one is left out."]
        if 0 < len(parameter("text", "").strip()) < LEAST_LETTERS
        else None,
    ]


def _field(visit: Visit, name: str, title: str, **attributes: str | bool) -> Node:
    kind = "search" if name == "text" else "text"
    value = visit.query.get(name) or None
    return label[span[title], htpy.input(type=kind, name=name, value=value, autocomplete="off", **attributes)]


def _choice(visit: Visit, name: str, title: str, values: tuple[str, ...]) -> Node:
    chosen = visit.query.get(name)
    names = {"terminal": "done"}
    options = [option(value=value, selected=value == chosen)[names.get(value, value)] for value in values]
    return label[span[title], select(name=name)[option(value="")["any"], options]]


VIEW = View(
    "board",
    "Board",
    _body,
    {name: Region(partial(_column, name), ("items",), htpy.li, height=HEIGHT) for name in ROLES},
    needs=("items",),
    query=("role", *_FILTERS),
    modules=("list.js", "search.js", MODULE),
)
