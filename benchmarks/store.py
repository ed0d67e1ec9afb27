"""Does the server's time for the calls of a worker's loop grow with the number of items?

Loads a separate server for each size and runs the same calls on them in turn, round after round, from
32 concurrent callers: claim the next item (a selector without filters), get it, claim by id, renew,
release, start and complete. Every call is the whole script as the front-end calls it, including
idempotency records, events and indexes. Prints the server's time per call (commandstats) and the CPU
time of its process (including protocol and sockets), medians of the rounds, and the growth from the
smallest size to the largest. The first round only warms up.

    python -m benchmarks store [SIZES] [ROUNDS] [CALLS]
    python -m benchmarks store 1000,100000,1000000 7 2000        # the sizes of the goals
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import NamedTuple
from uuid import uuid4

import uvloop

from benchmarks.loader import FAMILY, PROJECT, TIMEOUT_MS, item_id, servers
from benchmarks.server import Cost, Server
from benchmarks.support import console, table
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.items.store.next import NextStore
from coordinator.toolsets.items.store.transitions import TransitionStore

CALLERS = 32
AGENTS = 64
TTL_MS = 900_000
GOALS = {"claim the next": 1.3, "get_next_item, 1": 2.0}
_ANY = Selector()
_FINGERPRINT = "0" * 16

Call = Callable[[], Awaitable[object]]


def fresh() -> IdempotencyKey:
    """The idempotency key of a new request."""
    return IdempotencyKey(uuid4().hex, _FINGERPRINT)


class Side(NamedTuple):
    """One server and how it is called."""

    size: int
    server: Server
    claims: ClaimStore
    transitions: TransitionStore
    recommendations: NextStore


async def in_turn(calls: Sequence[Call]) -> None:
    """Makes the calls, ``CALLERS`` at a time."""
    waiting = iter(calls)

    async def caller() -> None:
        for call in waiting:
            await call()

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


def tasks(side: Side, count: int, pick: random.Random) -> list[str]:
    """Ids of distinct tasks, from the first half of their families so that no feature is ever completed."""
    families = side.size // FAMILY
    wanted = min(count, families * (FAMILY // 2 - 1))
    numbers = set[int]()
    while len(numbers) < wanted:
        numbers.add(pick.randrange(families) * FAMILY + pick.randrange(1, FAMILY // 2))
    return [item_id(number) for number in sorted(numbers)]


def _claim(side: Side, agent: str, item: str) -> Call:
    return lambda: side.claims.claim(PROJECT, fresh(), Claimant(agent), [(item, TTL_MS, 0)], [])


def _release(side: Side, agent: str, item: str) -> Call:
    return lambda: side.claims.claim(PROJECT, fresh(), Claimant(agent), [], [(item, 0, "", "")])


def _advance(side: Side, agent: str, item: str, trigger: str) -> Call:
    return lambda: side.transitions.advance(PROJECT, fresh(), [(item, trigger, agent, "", "", "", 0)])


async def measured(side: Side, calls: Sequence[Call]) -> Cost:
    """The cost of the calls."""
    side.server.begin()
    await in_turn(calls)
    cost = side.server.cost()
    # Each call is one script; occasionally, calls in flight also register the project.
    assert len(calls) <= cost.calls <= len(calls) + CALLERS, f"{cost.calls} script calls for {len(calls)} calls"
    return cost


async def measure(side: Side, calls: int, pick: random.Random) -> dict[str, Cost]:
    """One round on one server; leaves the items as they were."""
    found = dict[str, Cost]()
    agents = [f"agent-{n % AGENTS}" for n in range(calls)]

    def claim_next(agent: str) -> Call:
        return lambda: side.claims.claim_next(PROJECT, fresh(), Claimant(agent), TTL_MS, _ANY, [])

    def look(limit: int) -> Call:
        return lambda: side.recommendations.next(PROJECT, _ANY, limit, False, False)

    # An agent's claim releases its previous one: each call moves two items.
    found["claim the next"] = await measured(side, [claim_next(agent) for agent in agents])
    found["get_next_item, 1"] = await measured(side, [look(1)] * calls)
    found["get_next_item, 10"] = await measured(side, [look(10)] * calls)
    chosen = tasks(side, calls, pick)
    pick.shuffle(chosen)
    found["claim by id"] = await measured(
        side, [_claim(side, agent, item) for agent, item in zip(agents, chosen, strict=False)]
    )
    own = [(f"agent-{n}", item) for n, item in enumerate(chosen)]
    await in_turn([_claim(side, *one) for one in own])
    found["renew"] = await measured(side, [_claim(side, *one) for one in own])
    found["start"] = await measured(side, [_advance(side, *one, "start") for one in own])
    found["complete"] = await measured(side, [_advance(side, *one, "complete") for one in own])
    found["reopen"] = await measured(side, [_advance(side, *one, "reopen") for one in own])
    found["release"] = await measured(side, [_release(side, *one) for one in own])
    return found


async def _rounds(urls: dict[int, str], rounds: int, calls: int) -> dict[tuple[str, int], list[Cost]]:
    settings = Settings()
    stores = {size: Store(url, TIMEOUT_MS) for size, url in urls.items()}
    found: dict[tuple[str, int], list[Cost]] = defaultdict(list)
    sides = []
    for size, store in stores.items():
        await store.open()
        schemas = SchemaSource(schema_config(settings))
        shared = store, settings, schemas
        sides.append(Side(size, Server(urls[size]), ClaimStore(*shared), TransitionStore(*shared), NextStore(*shared)))
    for number in range(rounds + 1):
        for side in sides:
            costs = await measure(side, calls if number else 200, random.Random(number))
            for name, cost in costs.items() if number else ():
                found[name, side.size].append(cost)
    for side in sides:
        side.server.close()
        await stores[side.size].close()
    return found


def main(sizes: str = "1000,20000", rounds: str = "5", calls: str = "500") -> None:
    """Loads, measures and prints."""
    wanted = sorted(int(size) for size in sizes.split(","))
    with (
        servers(wanted) as started,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        urls = {size: server.url for size, server in started.items()}
        found = runner.run(_rounds(urls, int(rounds), int(calls)))
    names = list(dict.fromkeys(name for name, _ in found))

    def us(name: str, size: int, pick: int) -> float:
        return median([cost[pick] for cost in found[name, size]])

    def growth(name: str, pick: int) -> str:
        pairs = zip(found[name, wanted[-1]], found[name, wanted[0]], strict=True)
        return f"{median([large[pick] / small[pick] for large, small in pairs]):.2f}x"

    columns = ["call"]
    columns += [f"{size:,}" for size in wanted]
    for title, pick in (("Time of the script, us per call", 1), ("CPU of the server's process, us per call", 2)):
        rows = [(name, *(f"{us(name, size, pick):.1f}" for size in wanted), growth(name, pick)) for name in names]
        table(f"{title}, medians of {rounds} rounds", (*columns, "growth, by round"), rows)
    console.print("goals: " + ", ".join(f"{name} <= {most}x" for name, most in GOALS.items()) + " at 1,000,000\n")
