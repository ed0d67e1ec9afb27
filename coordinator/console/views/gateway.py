"""Gateway: instances of workflows, by their last change, and how the connections of the fleet go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

import htpy
from htpy import Node, a, button, code, details, div, form, label, li, span, summary, tr, ul

from coordinator.console.numbers.readings import fleet_state
from coordinator.console.parts import ago, chip, left, number, plain
from coordinator.console.tables import cell, choices, region_table, table_part
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_head
from coordinator.store.fleet.connection_states import ConnectionState
from coordinator.toolsets.gateway import InstanceRow, LeftOut, count_instances, list_instances

_PAGE = 50
SECONDS = 5
_STATUS = {"": "all", "r": "running", "e": "ended"}


def _status(visit: Visit) -> Literal["", "r", "e"]:
    status = visit.query.get("status", "")
    return cast(Literal["", "r", "e"], status) if status in _STATUS else ""


async def _instances(visit: Visit) -> Rows:
    store, project, query = visit.reads.store, visit.project, visit.query
    definition, state, status = query.get("definition", ""), query.get("state", ""), _status(visit)
    filters = {"definition": definition, "state": state, "status": status}
    page, total = await visit.reads.admitted(
        project,
        lambda: asyncio.gather(
            list_instances(store, project, **filters, after=query.get("after", ""), limit=_PAGE),  # type: ignore[arg-type]
            count_instances(store, project),
        ),
    )
    rows = [Row(f"instance:{row.id}", list(_cells(visit, row))) for row in page.rows]
    heading = [f"{number(len(rows))} shown of {number(total)} instances"]
    if any(filters.values()):
        heading = [f"{number(len(rows))} shown" + (", perhaps more further on" if page.next else "")]
    earlier = a(rel="next", href=visit.url(after=page.next))["earlier ones"] if page.next else None
    newest = a(rel="prev", href=visit.url(after=None))["the last changed"] if query.get("after") else None
    return Rows(rows, total, head=[span(".dim")[heading], newest, earlier])


def _cells(visit: Visit, row: InstanceRow) -> Iterator[Node]:
    yield cell("instance")[a(href=path_of("instance", visit.project, row.id))[row.id]]
    yield cell("workflow")[a(href=visit.url(definition=row.definition, after=None))[plain(row.definition)]]
    yield cell("state")[
        a(href=visit.url(state=row.state, after=None))[plain(row.state)],
        " ",
        chip(row.outcome, "trouble" if row.outcome == "failure" else "") if row.outcome else None,
    ]
    waits: Node = None
    if row.approvals:
        waits = a(href=path_of("approvals", visit.project) + f"?show=approval:{row.approvals[0]}")["an approval"]
    elif row.operation:
        waits = [plain(row.transition) or "what follows", " since ", ago(row.since)]
    yield cell("waits for")[waits]
    yield cell("version", ".number")[number(row.version)]
    yield cell("by")[plain(row.creator)]
    yield cell("started")[ago(row.started_at)]
    yield cell("changed")[ago(row.changed_at)]
    yield cell("time left")[left(row.deadline) if row.deadline and row.status == "r" else None]


_MOST_REASONS = 20
"""How many tools of a connection are named that are left out."""
_CONNECTION_COLUMNS = ("connection", "state", "why", "since", "last used")
_COLUMNS = ("instance", "workflow", "state", "waits for", "version", "by", "started", "changed", "time left")


async def _connections(visit: Visit) -> Rows:
    uses = (await fleet_state(visit)).processes.uses()
    left_out = visit.reads.left_out
    return Rows([Row(f"connection:{use.name}", list(_connection(use, left_out.get(use.name, ())))) for use in uses])


def _connection(use: ConnectionState, left_out: Sequence[LeftOut]) -> Iterator[Node]:
    yield cell("connection")[code[use.name], " ", span(".dim")[use.kind]]
    bad = use.state == "failing" or bool(use.unset)
    yield cell("state")[chip(use.state, "trouble" if bad else "")]
    yield cell("why")[
        plain("; ".join([*([use.reason] if use.reason else []), *use.lacking])),
        _tools_left_out(left_out) if left_out else None,
    ]
    yield cell("since")[ago(use.since) if use.worker else None]
    yield cell("last used")[[ago(use.at), " by ", code[plain(use.worker)]] if use.worker else None]


def _tools_left_out(tools: Sequence[LeftOut]) -> Node:
    reasons = [f"{tool.tool}: {tool.reason}" for tool in tools[:_MOST_REASONS]]
    if len(tools) > _MOST_REASONS:
        reasons.append(f"and {number(len(tools) - _MOST_REASONS)} more: fleet gateway tools --left-out")
    return details[summary[f"{number(len(tools))} tools left out"], ul[[li[plain(reason)] for reason in reasons]]]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    def field(name: str) -> Node:
        return label[name, htpy.input(name=name, value=visit.query.get(name, ""), autocomplete="off")]

    filtered = any(visit.query.get(name) for name in ("definition", "state", "status", "after"))
    empty: Node = "No instance has been started here. Agents start one with workflow.start at /mcp/gateway."
    if filtered:
        empty = ["No instance fits. ", a(href=visit.path)["Show all"]]
    return [
        choices(visit, "status", _STATUS, ""),
        form(".filters", method="get", role="search")[
            htpy.input(type="hidden", name="status", value=_status(visit)) if _status(visit) else None,
            field("definition"),
            field("state"),
            button(type="submit")["Filter"],
        ],
        region_head("instances", regions, div(".list-head")),
        region_table(visit, "instances", regions, _COLUMNS, empty, ("version",)),
        table_part(
            visit, regions, "connections", "Connections", _CONNECTION_COLUMNS, "No worker reports a connection."
        ),
    ]


VIEW = View(
    "gateway",
    "Gateway",
    _body,
    {"instances": Region(_instances, ("gateway",), tr), "connections": Region(_connections, (), tr, seconds=SECONDS)},
    needs=("gateway",),
    query=("definition", "state", "status", "after"),
)
