"""Claims and items that are held back, as lists: what the numbers of the overview lead to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast, get_args

from htpy import Node, div, tr

from coordinator.console.acts.buttons import MODULE, menu_opener
from coordinator.console.parts import ago, chip, holder_link, item_id, item_link, left, number, plain, role, spaced
from coordinator.console.tables import cell, choices, pager, region_table
from coordinator.console.uses import of_card
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, region_head
from coordinator.toolsets.items import (
    ROLE_NAMES,
    ClaimList,
    HeldBackList,
    ItemRow,
    LiveClaim,
    dashed,
    read_claims,
    read_held_back,
)

SECONDS = 5
_LISTS = {
    "held": "held longest",
    "ending": "ending soonest",
    "expiring": "expiring",
    "stalled": "stalled",
    "abandoned": "abandoned",
    "quarantined": "quarantined",
    "retries": "in back-off",
    "postponed": "later",
    "due": "due",
    "overdue": "overdue",
    "recurring": "recurring",
}
_MEANING = {
    "held": "Live claims, the one held longest first.",
    "ending": "Live claims, the one that ends soonest first.",
    "expiring": "Live claims that end within a minute, unless their agents renew them.",
    "stalled": "Live claims without a sign of life for half their time: their agents may have died.",
    "abandoned": "Items that an agent has left in the middle; the next agent takes them over.",
    "quarantined": "Items that failed too often, or are hopeless. No agent gets them until they are resumed.",
    "retries": "Items that wait after a failed attempt, the one that is offered again first.",
    "postponed": "Items that are not ready before a time, the next one first.",
    "due": "Open items that are to be done by a time, the one that is due first, or overdue for longest, at the top.",
    "overdue": "Open items that should have been done by now, the one that is overdue for longest first.",
    "recurring": "Templates, at whose times items are made that repeat them; the next one first.",
}
_AHEAD = {"retries": "offered again", "postponed": "ready", "due": "due", "overdue": "due", "recurring": "next"}
"""The column of the time that the items of a list wait for; in the others it is since when."""
_NONE = {
    "held": "No agent holds an item now.",
    "ending": "No agent holds an item now.",
    "expiring": "No claim ends within a minute.",
    "stalled": "No claim is stalled.",
    "abandoned": "No item is abandoned.",
    "quarantined": "No item is in quarantine.",
    "retries": "No item is in back-off.",
    "postponed": "No item waits for a time.",
    "due": "No open item is due at a time.",
    "overdue": "No open item is overdue.",
    "recurring": "No item recurs.",
}


def _list(visit: Visit) -> str:
    name = visit.query.get("list", "")
    return name if name in _LISTS else "held"


async def _rows(visit: Visit) -> Rows:
    which = _list(visit)
    if which in get_args(ClaimList):
        page = await visit.read(read_claims, cast(ClaimList, which), visit.offset)
        rows = [Row(f"item:{dashed(claim.row.id)}", list(_claim(visit, claim))) for claim in page.claims]
        total, more = page.total, page.looked < page.live
    else:
        held = await visit.read(read_held_back, cast(HeldBackList, which), visit.offset)
        rows = [
            Row(f"item:{dashed(row.id)}", list(_held_back(visit.project, which, row, time)))
            for row, time in zip(held.rows, held.times, strict=True)
        ]
        total, more = held.total, False
    return Rows(rows, total, visit.offset, more, [f"{number(total, more)} ", pager(visit, len(rows), total, more)])


def _item(project: str, item: ItemRow) -> Iterator[Node]:
    yield cell("item")[
        spaced(
            item_link(project, dashed(item.id), plain(item.title)),
            item_id(dashed(item.id)),
            role(ROLE_NAMES[item.role]),
            menu_opener(project, dashed(item.id), item.title),
        ),
        div(".facts")[card] if (card := of_card(item, "")) else None,
    ]


def _claim(visit: Visit, claim: LiveClaim) -> Iterator[Node]:
    item = claim.row
    yield from _item(visit.project, item)
    yield cell("agent")[
        holder_link(visit, item.holder),
        [" ", chip("verified", title="its identity was proved")] if claim.known_as.endswith("v") else None,
    ]
    yield cell("since")[ago(item.claimed)]
    yield cell("sign of life")[ago(claim.sign), [" ", chip("stalled", "warning")] if claim.stalled else None]
    yield cell("ends")[left(item.expires)]
    yield cell("failed attempts", ".number")[number(item.attempts)]


def _held_back(project: str, which: str, item: ItemRow, time: int) -> Iterator[Node]:
    yield from _item(project, item)
    most = f" of {item.max_attempts}" if item.max_attempts else ""
    yield cell("failed attempts", ".number")[f"{item.attempts}{most}"]
    yield cell("blockers", ".number")[number(item.blockers)]
    overdue = which in ("due", "overdue") and item.overdue
    words = ago(time) if overdue or which not in _AHEAD else left(time)
    yield cell(_AHEAD.get(which, "since"))[words, [" ", chip("overdue", "warning")] if overdue else None]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    which = _list(visit)
    columns = ["item", "agent", "since", "sign of life", "ends", "failed attempts"]
    if which not in get_args(ClaimList):
        columns = ["item", "failed attempts", "blockers", _AHEAD.get(which, "since")]
    return [
        choices(visit, "list", _LISTS, "held"),
        div(".list-head")[_MEANING[which], region_head("claims", regions)],
        region_table(visit, "claims", regions, columns, _NONE[which], ("failed attempts", "blockers")),
    ]


VIEW = View(
    "claims",
    "Claims",
    _body,
    {"claims": Region(_rows, ("items",), tr, seconds=SECONDS)},
    needs=("items",),
    query=("list",),
    modules=(MODULE,),
)
