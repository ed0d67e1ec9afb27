"""What does it cost to find the next item when nearly all ready ones are below an item that somebody holds?

Loads one claimed feature with ready tasks, all of higher priority than the one task outside it, and
asks for the next item with each kind of filter. Prints how many script runs and commands a call takes,
the server's time for them (commandstats), and the longest run. The first call of a kind may take a
little longer, because it records what it learns about held items.

    python -m benchmarks held [ITEMS]
    python -m benchmarks held 100000
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from benchmarks.loader import PROJECT, item_id
from benchmarks.server import Server
from benchmarks.store import TTL_MS, Side, claim, fresh, side
from benchmarks.support import Failed, embedded, table
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.contract.specs import ItemSpec
from coordinator.toolsets.items.rules.items import new_item
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents.presence import Claimant

SELECTORS = {
    "no filter": Selector(),
    "priority": Selector(priority=0),
    "complexity": Selector(complexity=3),
    "parent": Selector(parent=item_id(0)),
    "ancestor": Selector(ancestor=item_id(0)),
    "tags": Selector(tags=["rare"]),
    "time of creation": Selector(created_from=2),
    "oldest first": Selector(order="oldest"),
    "newest first": Selector(order="newest"),
}
BESIDE, BELOW, NOTHING = "the one beside", "one below the held one", "nothing"
_FINDS = {"priority": NOTHING, "parent": BELOW, "ancestor": BELOW}
"""What a selector finds; the others the one beside."""
CLAIMS = (("a", "an agent", BESIDE), ("b", "one too many", NOTHING), ("holder", "who holds the feature", BELOW))
"""Who claims, and what it gets."""
_SLOW_US = 200


def _task(number: int) -> ItemSpec:
    return ItemSpec(title=f"task {number}", priority="high", complexity=1 + number % 3, tags="rare")


async def _load(to: Side, items: int) -> None:
    made = to.items
    await made.create(PROJECT, NO_KEY, [new_item(ItemSpec(title="feature", role="work"), item_id(0), "")])
    for start in range(2, items, 100):
        numbers = range(start, min(start + 100, items))
        await made.create(PROJECT, NO_KEY, [new_item(_task(number), item_id(number), item_id(0)) for number in numbers])
    beside = ItemSpec(title="beside", priority="low", complexity=3, tags="rare")
    await made.create(PROJECT, NO_KEY, [new_item(beside, item_id(1), "")])
    await claim(to, "holder", item_id(0))()


async def _measured(
    server: Server, name: str, call: Callable[[], Awaitable[list[str]]], expected: str
) -> tuple[str, ...]:
    server.begin()
    server.watch_slow(_SLOW_US)
    ids = await call()
    found = {(): NOTHING, (item_id(1),): BESIDE}.get(tuple(ids), BELOW)
    if found != expected:
        raise Failed(f"{name} found {found}, not {expected}: {ids}")
    stats: dict[str, Any] = server.client.info("commandstats")
    slowest, scripts = server.slowest(), stats["cmdstat_fcall"]
    commands = sum(int(one["calls"]) for one in stats.values())
    longest = f"{slowest.ms:.1f}" if slowest else f"under {_SLOW_US / 1000}"
    return name, str(scripts["calls"]), f"{commands:,}", f"{int(scripts['usec']) / 1000:.2f}", longest


async def _rows(url: str, items: int) -> list[tuple[str, ...]]:
    rows = []
    async with side(url) as on:
        await _load(on, items)

        async def look(selector: Selector) -> list[str]:
            return [one.id for one in await on.recommendations.next(PROJECT, selector, 1, False, False)]

        async def take(agent: str) -> list[str]:
            reply = await on.claims.claim_next(PROJECT, fresh(), Claimant(agent), TTL_MS, Selector(), [])
            return [one.item for one in reply.claims if one.outcome == "success"]

        for name, selector in SELECTORS.items():
            for again in ("", ", again"):
                expected = _FINDS.get(name, BESIDE)
                rows.append(
                    await _measured(on.server, f"get_next_item, {name}{again}", lambda: look(selector), expected)  # noqa: B023
                )
        for agent, name, expected in CLAIMS:
            rows.append(await _measured(on.server, f"claim_item, {name}", lambda: take(agent), expected))  # noqa: B023
    return rows


def main(items: str = "5000") -> None:
    """Loads, measures and prints."""
    with embedded("everysec") as server:
        rows = uvloop.run(_rows(server.url, int(items)))
    columns = ("call", "scripts", "commands", "time of the scripts, ms", "longest, ms")
    table(f"The next item beside {int(items):,} below a held one", columns, rows)
