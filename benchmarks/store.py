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
import contextlib
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

import uvloop

from benchmarks.loader import FAMILY, PATIENT, PROJECT, TIMEOUT_MS, item_id, servers
from benchmarks.server import Cost, Server
from benchmarks.support import Failed, console, middle, ratio, table
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.items.store.items import ItemStore
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

    server: Server
    items: ItemStore
    claims: ClaimStore
    transitions: TransitionStore
    recommendations: NextStore


@contextlib.asynccontextmanager
async def side(url: str, settings: Settings = PATIENT) -> AsyncIterator[Side]:
    """The stores of the items on a server, over a separate link."""
    store, server = Store(url, TIMEOUT_MS), Server(url)
    await store.open()
    parts = store, settings, SchemaSource(schema_config(settings))
    try:
        yield Side(server, ItemStore(*parts), ClaimStore(*parts), TransitionStore(*parts), NextStore(*parts))
    finally:
        server.close()
        await store.close()


async def in_turn(calls: Sequence[Call]) -> None:
    """Makes the calls, ``CALLERS`` at a time."""
    waiting = iter(calls)

    async def caller() -> None:
        for call in waiting:
            await call()

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


def tasks(size: int, count: int, pick: random.Random) -> list[str]:
    """Ids of distinct tasks, from the first half of their families so that no feature is ever completed."""
    families = size // FAMILY
    wanted = min(count, families * (FAMILY // 2 - 1))
    numbers = set[int]()
    while len(numbers) < wanted:
        numbers.add(pick.randrange(families) * FAMILY + pick.randrange(1, FAMILY // 2))
    return [item_id(number) for number in sorted(numbers)]


def claim(side: Side, agent: str, item: str) -> Call:
    """A claim by id."""

    async def call() -> None:
        one = (await side.claims.claim(PROJECT, fresh(), Claimant(agent), [(item, TTL_MS, 0)], [])).claims[0]
        if one.outcome not in ("success", "held"):
            raise Failed(f"a claim: {one}")

    return call


def claim_next(side: Side, agent: str, held: dict[str, str] | None = None) -> Call:
    """A claim of any item, which is noted as that of the agent."""

    async def call() -> None:
        one = (await side.claims.claim_next(PROJECT, fresh(), Claimant(agent), TTL_MS, _ANY, [])).claims[0]
        if one.outcome != "success":
            raise Failed(f"a claim of the next item: {one}")
        if held is not None:
            held[agent] = one.item

    return call


def release(side: Side, agent: str, item: str) -> Call:
    """A release."""

    async def call() -> None:
        one = (await side.claims.claim(PROJECT, fresh(), Claimant(agent), [], [(item, 0, "", "")])).releases[0]
        if one.outcome != "success":
            raise Failed(f"a release: {one}")

    return call


def _advance(side: Side, agent: str, item: str, trigger: str) -> Call:
    async def call() -> None:
        (one,) = await side.transitions.advance(PROJECT, fresh(), [(item, trigger, agent, "", "", "", 0)])
        if one.reason:
            raise Failed(f"{trigger} was refused: {one}")

    return call


def _look(side: Side, limit: int) -> Call:
    async def call() -> None:
        found = await side.recommendations.next(PROJECT, _ANY, limit, False, False)
        if len(found) != limit:
            raise Failed(f"{len(found)} of {limit} items were recommended")

    return call


async def measured(side: Side, calls: Sequence[Call]) -> Cost:
    """The cost of the calls."""
    side.server.begin()
    await in_turn(calls)
    cost = side.server.cost()
    # Each call is one script; occasionally, calls in flight also register the project.
    if not len(calls) <= cost.calls <= len(calls) + CALLERS:
        raise Failed(f"{cost.calls} script calls for {len(calls)} calls")
    return cost


async def measure(side: Side, size: int, calls: int, pick: random.Random) -> dict[str, Cost]:
    """One round on one server with so many items; leaves the items as they were."""
    found = dict[str, Cost]()
    agents = [f"agent-{n % AGENTS}" for n in range(calls)]
    # An agent's claim releases its previous one: each call moves two items.
    held = dict[str, str]()
    found["claim the next"] = await measured(side, [claim_next(side, agent, held) for agent in agents])
    found["get_next_item, 1"] = await measured(side, [_look(side, 1)] * calls)
    found["get_next_item, 10"] = await measured(side, [_look(side, 10)] * calls)
    chosen = [item for item in tasks(size, calls + len(held), pick) if item not in held.values()]
    pick.shuffle(chosen)
    del chosen[calls:]
    found["claim by id"] = await measured(side, [claim(side, *one) for one in zip(agents, chosen, strict=False)])
    own = [(f"agent-{n}", item) for n, item in enumerate(chosen)]
    await in_turn([claim(side, *one) for one in own])
    found["renew"] = await measured(side, [claim(side, *one) for one in own])
    for trigger in ("start", "complete", "reopen"):
        found[trigger] = await measured(side, [_advance(side, *one, trigger) for one in own])
    found["release"] = await measured(side, [release(side, *one) for one in own])
    return found


async def _rounds(urls: Mapping[int, str], rounds: int, calls: int) -> dict[tuple[str, int], list[Cost]]:
    found: dict[tuple[str, int], list[Cost]] = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        sides = {size: await stack.enter_async_context(side(url)) for size, url in urls.items()}
        for number in range(rounds + 1):
            for size, one in sides.items():
                costs = await measure(one, size, calls if number else min(calls, 200), random.Random(number))
                for name, cost in costs.items() if number else ():
                    found[name, size].append(cost)
    return found


def main(sizes: str = "1000,20000", rounds: str = "5", calls: str = "500") -> None:
    """Loads, measures and prints."""
    with servers(sizes) as urls:
        found = uvloop.run(_rounds(urls, int(rounds), int(calls)))
    small, large = min(urls), max(urls)
    columns = ("call", *(f"{size:,}" for size in urls), "growth, by round")
    for title, figure in (("Time of the script", "script_us"), ("CPU of the server's process", "cpu_us")):
        rows = [
            (
                name, *(f"{middle(found[name, size], figure):.1f}" for size in urls),
                f"{ratio(found[name, large], found[name, small], figure):.2f}x",
            )
            for name in dict.fromkeys(name for name, _ in found)
        ]  # fmt: skip
        table(f"{title}, us per call, medians of {rounds} rounds", columns, rows)
    console.print("goals: " + ", ".join(f"{name} <= {most}x" for name, most in GOALS.items()) + " at 1,000,000\n")
