"""Workflows: a list with filters. ``flow`` shows one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import htpy
from htpy import Node, a, button, form, label, option, select, span
from htpy import input as field

from coordinator.console.parts import ago, icon, number, plain, state, whole_id
from coordinator.console.tables import cell, region_table
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_head
from coordinator.toolsets.flows import (
    MAX_ID,
    WORKFLOW_STATUSES,
    FlowRow,
    WaitingGate,
    flows_at_gates,
    gates_of,
    list_visible,
)

PAGE = 50
WAITS = "waits"
"""The filter for workflows that wait for a person."""
_COLUMNS = ("workflow", "status", "creator", "created", "ended", "why", "id")
_STATUS = {
    "running": ("work", "work"),
    "paused": ("warning", "paused"),
    "completed": ("done", "done"),
    "failed": ("blocked", "failed"),
    "cancelled": ("queue", "cancelled"),
}


def flow_status(status: str) -> Node:
    return state(*_STATUS[status], status)


def flow_waits(gates: Sequence[WaitingGate]) -> Node:
    """That a workflow waits for somebody; nothing if it does not."""
    if not gates:
        return None
    first, more = gates[0], len(gates) - 1
    text = f"waits for {plain(first.name)}, step {first.place} of {first.steps}" + (
        f", and {more} more" if more else ""
    )
    return span(".role.review", title=f"for the role {plain(first.role)}" if first.role else "for a person")[
        icon("gate"), text, " since ", ago(first.since)
    ]


def flow_id(text: str) -> int:
    """The id of a workflow or a step in a path or query; 0: it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 17 and int(text) <= MAX_ID else 0


class _Page(NamedTuple):
    rows: list[FlowRow]
    gates: Mapping[int, list[WaitingGate]]
    """Those that wait, by flow."""
    total: int | None
    next: str
    """Where the next page begins; empty: this is the last one."""


async def _page(visit: Visit) -> _Page:
    query, viewer = visit.query, visit.viewer
    store, project, status = visit.reads.store, visit.project, query.get("status", "")
    creator, name, before = (query.get(key, "") for key in ("creator", "name", "before"))

    async def waiting() -> _Page:
        rows, gates, following = await flows_at_gates(store, project, viewer.caller, after=before, limit=PAGE)
        matching = [row for row in rows if creator in ("", row.creator) and name.lower() in row.name.lower()]
        return _Page(matching, gates, None, following)

    async def listed() -> _Page:
        wanted = status if status in WORKFLOW_STATUSES else None
        page = await list_visible(
            store, project, viewer.caller,
            creator=creator, status=wanted, name=name, before=flow_id(before), limit=PAGE,
        )  # fmt: skip
        gates = await gates_of(store, project, viewer.caller, page.rows)
        return _Page(page.rows, gates, page.total, str(page.before or ""))

    async def make() -> _Page:
        return await visit.reads.admitted(project, waiting if status == WAITS else listed)

    return await visit.reads.shared(
        ("flows", visit.project, tuple(sorted(query.items())), viewer.caller, visit.at), make
    )


async def _flows(visit: Visit) -> Rows:
    page = await _page(visit)
    rows = [Row(f"flow:{row.id}", _cells(visit, row, page.gates.get(row.id, ()))) for row in page.rows]
    return Rows(rows, head=_shown(visit, page))


def _cells(visit: Visit, row: FlowRow, gates: Sequence[WaitingGate]) -> Node:
    ended = row.completed_at or row.cancelled_at
    return [
        cell("workflow")[a(href=path_of("flow", visit.project, str(row.id)))[plain(row.name)]],
        cell("status")[None if gates and row.status == "running" else flow_status(row.status), flow_waits(gates)],
        cell("creator")[a(href=visit.url(creator=row.creator, before=None))[plain(row.creator)]],
        cell("created")[ago(row.created_at)],
        cell("ended")[ago(ended) if ended else None],
        cell("why", ".dim")[plain(row.error or "")],
        cell("id")[whole_id(str(row.id))],
    ]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    filtered = any(visit.query.get(name) for name in ("status", "creator", "name", "before"))
    empty: Node = "No workflow is like that."
    if not filtered:
        empty = ["No workflow yet. Agents begin them with ", htpy.code["workflow_create"], "."]
    return [
        _filters(visit),
        region_table(visit, "flows", regions, _COLUMNS, empty),
        region_head("flows", regions, htpy.p(".dim")),
    ]


def _filters(visit: Visit) -> Node:
    query = visit.query
    return form(".filters", method="get", role="search")[
        label[
            "status ",
            select(name="status")[
                option(value="")["any"],
                (option(value=one, selected=query.get("status") == one)[one] for one in (WAITS, *WORKFLOW_STATUSES)),
            ],
        ],
        label["creator ", field(name="creator", value=query.get("creator", ""), size="14")],
        label["name contains ", field(name="name", value=query.get("name", ""), size="14")],
        button(type="submit")["Show"],
        a(href=visit.path)["all"] if query else None,
    ]


def _shown(visit: Visit, page: _Page) -> Node:
    """How many of how many there are, and the way to the others; nothing if there are none."""
    if not page.total and not page.rows and not visit.query.get("before"):
        return None
    summary = f"{number(len(page.rows))} shown"
    if page.total is not None and not visit.query.get("before"):
        summary = f"first {number(len(page.rows))} of {number(page.total)}"
    return [
        summary,
        [" \N{MIDDLE DOT} ", a(href=visit.url(before=None))["newest"]] if visit.query.get("before") else None,
        [" \N{MIDDLE DOT} ", a(rel="next", href=visit.url(before=page.next))["older"]] if page.next else None,
    ]


VIEW = View(
    "flows",
    "Flows",
    _body,
    {"flows": Region(_flows, ("flows",), htpy.tr, personal=True)},
    needs=("flows",),
    query=("status", "creator", "name", "before"),
)
