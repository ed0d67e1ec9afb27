"""Does a claim by a selector cost more where each item demands resources?

Loads two servers with the same number of items. On one of them each task demands two resources: one of eight
exclusively, with room for all agents, and a shared one. On both, 32 callers claim the next item, each for another
agent, and release it, in turn, round after round. Prints the server's time per call (commandstats) and the CPU time of
its process, medians of the rounds, and the ratio by round. The first round only warms up.

    python -m benchmarks resources [ITEMS] [ROUNDS] [CALLS]
    python -m benchmarks resources 1000000 7 2000        # the size of the bound
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from statistics import median

import msgspec
import uvloop

from benchmarks.loader import PLAIN, PROJECT, TIMEOUT_MS, Shape, load_now
from benchmarks.server import Cost, Server
from benchmarks.store import TTL_MS, Call, Side, fresh, measured
from benchmarks.support import console, embedded, table
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents import Claimant
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.items.store.next import NextStore
from coordinator.toolsets.items.store.transitions import TransitionStore

BOUND = 1.5
SHAPES = {"without": PLAIN, "with resources": Shape(resources=True)}
_LIMITS = {"gpu": 100_000, **{f"gpu/{number}": 100_000 for number in range(8)}}


def _claim_next(side: Side, agent: str, held: dict[str, str]) -> Call:
    async def call() -> None:
        answer = await side.claims.claim_next(PROJECT, fresh(), Claimant(agent), TTL_MS, Selector(), [])
        held[agent] = answer.claims[0].item

    return call


def _release(side: Side, agent: str, item: str) -> Call:
    return lambda: side.claims.claim(PROJECT, fresh(), Claimant(agent), [], [(item, 0, "", "")])


async def _round(side: Side, calls: int) -> dict[str, Cost]:
    held: dict[str, str] = {}
    claimed = await measured(side, [_claim_next(side, f"agent-{n}", held) for n in range(calls)])
    released = await measured(side, [_release(side, *one) for one in held.items()])
    return {"claim the next": claimed, "release": released}


async def _rounds(urls: dict[str, str], items: int, rounds: int, calls: int) -> dict[tuple[str, str], list[Cost]]:
    settings = msgspec.convert({"resources": _LIMITS}, Settings)
    found: dict[tuple[str, str], list[Cost]] = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        sides = {}
        for name, url in urls.items():
            store, server = Store(url, TIMEOUT_MS), Server(url)
            await store.open()
            stack.push_async_callback(store.close)
            stack.callback(server.close)
            parts = store, settings, SchemaSource(schema_config(settings))
            sides[name] = Side(items, server, ClaimStore(*parts), TransitionStore(*parts), NextStore(*parts))
        for number in range(rounds + 1):
            for name, side in sides.items():
                costs = await _round(side, calls)
                for call, cost in costs.items() if number else ():
                    found[call, name].append(cost)
    return found


def main(items: str = "20000", rounds: str = "5", calls: str = "500") -> None:
    """Loads, measures and prints."""
    with contextlib.ExitStack() as stack:
        urls = {}
        for name, shape in SHAPES.items():
            urls[name] = stack.enter_context(embedded("everysec")).url
            made = load_now(urls[name], int(items), shape=shape)
            console.print(f"loaded {made.items:,} items {name} in {made.seconds:.1f} s", style="dim")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(_rounds(urls, int(items), int(rounds), int(calls)))
    rows = []
    for call in dict.fromkeys(call for call, _ in found):
        without, wanted = (found[call, name] for name in SHAPES)
        for title, pick in (("time of the script", 1), ("CPU of the server", 2)):
            ratio = median([one[pick] / other[pick] for one, other in zip(wanted, without, strict=True)])
            costs = (median([cost[pick] for cost in side]) for side in (without, wanted))
            rows.append((f"{call}, {title}", *(f"{cost:.1f}" for cost in costs), f"{ratio:.2f}x"))
    columns = ("us per call", *SHAPES, "ratio, by round")
    table(f"{int(items):,} items, medians of {rounds} rounds", columns, rows)
    console.print(f"bound: claim the next <= {BOUND}x at 1,000,000\n")
