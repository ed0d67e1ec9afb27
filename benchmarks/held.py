"""What does it cost to find the next item when nearly all ready ones are below an item that somebody holds?

Loads one claimed feature with ready tasks, all of higher priority than the one task outside it, and
asks for the next item with each kind of filter. Prints how many script runs and commands a call takes,
the server's time for them (commandstats), and the longest run. The first call of a kind may take a
little longer, because it records what it learns about held items.

    python -m benchmarks held [ITEMS]
    python -m benchmarks held 100000
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import uvloop

from benchmarks.loader import PROJECT, TIMEOUT_MS, item_id
from benchmarks.server import Server
from benchmarks.store import TTL_MS, fresh
from benchmarks.support import embedded, table
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.contract.specs import ItemSpec
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.items import new_item
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.items.store.items import ItemStore
from coordinator.toolsets.items.store.next import NextStore

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
_SLOW_US = 200


def _task(number: int) -> ItemSpec:
    return ItemSpec(title=f"task {number}", priority="high", complexity=1 + number % 3, tags="rare")


async def _load(store: Store, items: int) -> tuple[ClaimStore, NextStore]:
    settings = Settings()
    schemas = SchemaSource(schema_config(settings))
    made, claims = ItemStore(store, settings, schemas), ClaimStore(store, settings, schemas)
    await made.create(PROJECT, NO_KEY, [new_item(ItemSpec(title="feature", role="work"), item_id(0), "")])
    for start in range(2, items, 100):
        numbers = range(start, min(start + 100, items))
        await made.create(PROJECT, NO_KEY, [new_item(_task(number), item_id(number), item_id(0)) for number in numbers])
    beside = ItemSpec(title="beside", priority="low", complexity=3, tags="rare")
    await made.create(PROJECT, NO_KEY, [new_item(beside, item_id(1), "")])
    await claims.claim(PROJECT, fresh(), Claimant("holder"), [(item_id(0), TTL_MS, 0)], [])
    return claims, NextStore(store, settings, schemas)


async def _measured(server: Server, name: str, call: Callable[[], Awaitable[object]]) -> tuple[str, ...]:
    server.begin()
    server.watch_slow(_SLOW_US)
    await call()
    stats: dict[str, Any] = server.client.info("commandstats")
    slowest, scripts = server.slowest(), stats["cmdstat_fcall"]
    commands = sum(int(one["calls"]) for one in stats.values())
    longest = f"{slowest.ms:.1f}" if slowest else f"under {_SLOW_US / 1000}"
    return name, str(scripts["calls"]), f"{commands:,}", f"{int(scripts['usec']) / 1000:.2f}", longest


async def _rows(url: str, items: int) -> list[tuple[str, ...]]:
    store, server = Store(url, TIMEOUT_MS), Server(url)
    await store.open()
    try:
        claims, recommendations = await _load(store, items)
        rows = []
        for name, selector in SELECTORS.items():
            for again in ("", ", again"):
                look = partial(recommendations.next, PROJECT, selector, 1, False, False)
                rows.append(await _measured(server, f"get_next_item, {name}{again}", look))
        for agent, name in {"a": "an agent", "b": "one too many", "holder": "who holds the feature"}.items():
            claim = partial(claims.claim_next, PROJECT, fresh(), Claimant(agent), TTL_MS, Selector(), [])
            rows.append(await _measured(server, f"claim_item, {name}", claim))
        return rows
    finally:
        server.close()
        await store.close()


def main(items: str = "5000") -> None:
    """Loads, measures and prints."""
    with embedded("everysec") as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows = runner.run(_rows(server.url, int(items)))
    columns = ("call", "scripts", "commands", "time of the scripts, ms", "longest, ms")
    table(f"The next item beside {int(items):,} below a held one", columns, rows)
