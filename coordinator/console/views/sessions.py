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
    shown = [Row(f"session:{one.id}", list(_cells(visit, one))) for one in page.rows]
    told = f"{number(len(shown))} shown of {number(waiting if only_open else total)}"
    waits = f"; {number(waiting)} with an open checkpoint" if waiting and not only_open else ""
    earlier = a(rel="next", href=visit.url(after=page.next))["earlier ones"] if page.next else None
    newest = a(rel="prev", href=visit.url(after=None))["the last changed"] if after else None
    return Rows(shown, total, head=[span(".dim")[told + waits], newest, earlier])


def _cells(visit: Visit, one: SessionRow) -> Iterator[Node]:
    yield cell("session")[a(href=path_of("session", visit.project, one.id))[one.id[:8]]]
    yield cell("procedure")[plain(one.workflow)]
    yield cell("activity")[
        plain(one.activity) or span(".dim")["not begun"], " ", chip("ended") if one.completed else None
    ]
    waits: Node = None
    if one.checkpoint:
        link = path_of("approvals", visit.project) + f"?show=checkpoint:{one.id}"
        waits = [a(href=link)[plain(one.checkpoint)], ", ", ago(one.yielded_at)]
    yield cell("open checkpoint", ".prose")[waits]
    yield cell("item")[item_link(visit.project, dashed(one.item), "") if one.item else None]
    yield cell("agent")[agent_link(visit.project, one.agent) if one.agent else None]
    yield cell("started by")[
        a(href=path_of("session", visit.project, one.parent))[one.parent[:8]] if one.parent else None
    ]
    yield cell("changed")[ago(one.changed_at)]


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
