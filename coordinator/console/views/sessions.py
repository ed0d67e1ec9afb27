"""Sessions of guided procedures, by their last change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from htpy import Node, a, div, p, span, tr

from coordinator.console.parts import agent_link, ago, chip, item_link, number, plain
from coordinator.console.tables import cell, choices, region_table
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_head
from coordinator.store import keys
from coordinator.toolsets.items import dashed
from coordinator.toolsets.sessions import SessionRow, count_open, list_sessions

_PAGE = 50
_LISTS = {"all": "all", "open": "with an open checkpoint"}


async def _sessions(visit: Visit) -> Rows:
    store, project, after = visit.reads.store, visit.project, visit.query.get("after", "")
    only_open = visit.query.get("list") == "open"
    page, total, waiting = await visit.reads.admitted(
        project,
        lambda: asyncio.gather(
            list_sessions(store, project, only_open=only_open, after=after, limit=_PAGE),
            store.command("ZCARD", keys.session_index.key(project)),
            count_open(store, project),
        ),
    )
    rows = [Row(f"session:{row.id}", list(_cells(visit, row))) for row in page.rows]
    summary = f"{number(len(rows))} shown of {number(waiting if only_open else total)}"
    waits = f"; {number(waiting)} with an open checkpoint" if waiting and not only_open else ""
    earlier = a(rel="next", href=visit.url(after=page.next))["earlier ones"] if page.next else None
    newest = a(rel="prev", href=visit.url(after=None))["the last changed"] if after else None
    return Rows(rows, total, head=[span(".dim")[summary + waits], newest, earlier])


def _cells(visit: Visit, row: SessionRow) -> Iterator[Node]:
    yield cell("session")[a(href=path_of("session", visit.project, row.id))[row.id[:8]]]
    yield cell("procedure")[plain(row.workflow)]
    yield cell("activity")[
        plain(row.activity) or span(".dim")["not begun"], " ", chip("ended") if row.completed else None
    ]
    waits: Node = None
    if row.checkpoint:
        link = path_of("approvals", visit.project) + f"?show=checkpoint:{row.id}"
        waits = [a(href=link)[plain(row.checkpoint)], ", ", ago(row.yielded_at)]
    yield cell("open checkpoint", ".prose")[waits]
    yield cell("item")[item_link(visit.project, dashed(row.item), "") if row.item else None]
    yield cell("agent")[agent_link(visit.project, row.agent) if row.agent else None]
    yield cell("started by")[
        a(href=path_of("session", visit.project, row.parent))[row.parent[:8]] if row.parent else None
    ]
    yield cell("changed")[ago(row.changed_at)]


_COLUMNS = ("session", "procedure", "activity", "open checkpoint", "item", "agent", "started by", "changed")


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    empty = "No session waits for an answer."
    if visit.query.get("list") != "open":
        empty = "No session has been started here. Agents start one with start_session at /mcp/sessions."
    return [
        choices(visit, "list", _LISTS, "all"),
        region_head("sessions", regions, div(".list-head")),
        region_table(visit, "sessions", regions, _COLUMNS, empty),
        p(".dim")[
            "Walks of the navigator are not listed: each lives in the signed state that its agent carries, and the "
            "fleet keeps nothing of it."
        ],
    ]


VIEW = View(
    "sessions",
    "Sessions",
    _body,
    {"sessions": Region(_sessions, ("sessions",), tr)},
    needs=("sessions",),
    query=("list", "after"),
)
