"""What may need somebody soon: the first of the stalled, the expiring and the contended, a short list each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import htpy
from htpy import Node, a, div, li, span, ul

from coordinator.console.numbers.readings import FleetState, fleet_state
from coordinator.console.parts import ago, holder_link, item_id, item_link, left, number, plain
from coordinator.console.view import Row, Rows, Visit, path_of
from coordinator.toolsets.items import Claims, ItemRow, dashed, read_claims, rows_by_ids

_LISTED = 5
"""How many claims or items each shows."""
_TITLES = {
    "stalled": ("Stalled", "claims without a sign of life for half their time", "No claim is stalled."),
    "expiring": ("Expiring", "claims that end within a minute", "No claim ends within a minute."),
    "contended": ("Contended", "items for which agents lost a race", "No agent has lost a race for an item."),
}


async def short_lists(visit: Visit) -> Rows:
    store, project = visit.reads.store, visit.project
    fleet = await fleet_state(visit)

    async def read() -> tuple[Claims, Claims, Row]:
        return await asyncio.gather(
            read_claims(store, project, "stalled", 0, _LISTED),
            read_claims(store, project, "expiring", 0, _LISTED),
            _contended(visit, fleet),
        )

    stalled, expiring, contended = await visit.reads.admitted(project, read)
    return Rows([_claims(visit, "stalled", stalled), _claims(visit, "expiring", expiring), contended])


def _list(which: str, size: str, entries: Sequence[Node], more: Node) -> Row:
    title, meaning, none = _TITLES[which]
    head = htpy.h2(title=meaning)[title, " ", span(".count")[size]]
    return Row(which, [head, ul[entries] if entries else div(".dim")[none], more], "short-list")


def _claims(visit: Visit, which: str, page: Claims) -> Row:
    project = visit.project

    def entry(row: ItemRow, time: Node) -> Node:
        return li[
            item_link(project, dashed(row.id), plain(row.title)),
            span(".dim")[holder_link(visit, row.holder), " ", time],
        ]

    entries = [entry(one.row, ago(one.sign) if which == "stalled" else left(one.row.expires)) for one in page.claims]
    more = a(href=path_of("claims", project) + f"?list={which}")[f"all {number(page.total)}"]
    return _list(which, number(page.total), entries, more if page.total > len(entries) else None)


async def _contended(visit: Visit, fleet: FleetState) -> Row:
    """The items of this project that the processes name as the hottest."""
    project = visit.project
    losers = {hot.item.replace("-", ""): hot.losers for hot in fleet.processes.hot(_LISTED, project)}
    _, rows = await rows_by_ids(visit.reads.store, project, list(losers)) if losers else (0, [])
    entries = [
        li[
            item_link(project, dashed(row.id), plain(row.title)),
            span(".dim")[
                item_id(dashed(row.id)), f" {number(n := round(losers[row.id]))} loser{'s' * (n != 1)} a minute"
            ],
        ]
        for row in rows
    ]
    return _list("contended", number(len(entries)), entries, None)
