"""Does a claim by a selector cost more where each item demands resources?

Loads three servers with the same number of items. On one of them each task demands a resource, one of eight, with room
for all agents; on another one two, each below another resource: one of eight exclusively, and a shared one. On all, 32
callers claim the next item, each for another agent, and release it, in turn, round after round. Prints the server's
time per call (commandstats) and the CPU time of its process, medians of the rounds, and the ratios by round. Then an
agent claims and releases as often over a front-end: the time of ``claim_item`` as it sees it. The first round only
warms up.

    python -m benchmarks resources [ITEMS] [ROUNDS] [CALLS]
    python -m benchmarks resources 1000000 7 2000        # the size of the bound
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import msgspec
import uvloop

from benchmarks.loader import PLAIN, PROJECT, TIMEOUT_MS, Shape, load_now
from benchmarks.server import Cost, Server
from benchmarks.store import TTL_MS, Call, Side, fresh, measured
from benchmarks.support import ToolCalls, console, embedded, front_end, table
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents.presence import Claimant
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.items.store.next import NextStore
from coordinator.toolsets.items.store.transitions import TransitionStore

BOUND = 1.5
SHAPES = {"none": PLAIN, "one resource": Shape(resources=1), "two resources": Shape(resources=2)}
_ROOM = 100_000
_LIMITS = {"gpu": _ROOM, **{f"gpu{mark}{number}": _ROOM for mark in "-/" for number in range(8)}}
_AGENT = {"id": "caller", "kind": "subagent"}


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


def _ask(side: ToolCalls, **asked: Any) -> tuple[float, dict[str, Any]]:
    return side.call("items", "claim_item", actor=_AGENT, requestId=str(uuid4()), **asked)


def _tool_rounds(urls: dict[str, str], rounds: int, calls: int) -> dict[tuple[str, str], list[float]]:
    """Microseconds of a call, medians of each round."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "fleet.yaml").write_bytes(msgspec.yaml.encode({"resources": _LIMITS}))
        sides = {}
        for name, url in urls.items():
            port = stack.enter_context(front_end(url, config=folder / "fleet.yaml")).port
            sides[name] = stack.enter_context(contextlib.closing(ToolCalls(port)))
        for number in range(rounds + 1):
            for name, side in sides.items():
                times = defaultdict(list)
                for _ in range(calls):
                    seconds, result = _ask(side, claims=[{"selector": {}}])
                    times["claim the next"].append(seconds * 1e6)
                    item = result["structuredContent"]["claimResults"][0]["itemId"]
                    times["release"].append(_ask(side, releases=[{"itemId": item}])[0] * 1e6)
                for title, values in times.items() if number else ():
                    found[title, name].append(median(values))
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
        seen = _tool_rounds(urls, int(rounds), int(calls))
    rows = []
    for call in dict.fromkeys(call for call, _ in found):
        for title, pick in (("script", 1), ("CPU of the server", 2), ("tool", None)):
            without, *others = (
                [cost[pick] for cost in found[call, name]] if pick else seen[call, name] for name in SHAPES
            )
            cells = [f"{median(without):.0f}"]
            for wanted in others:
                ratio = median([one / other for one, other in zip(wanted, without, strict=True)])
                cells.append(f"{median(wanted):.0f} = {ratio:.2f}x")
            rows.append((f"{call}, {title}", *cells))
    columns = ("us per call, and ratio by round", *SHAPES)
    table(f"{int(items):,} items, medians of {rounds} rounds", columns, rows)
    console.print(f"at 1,000,000 items, bound: claim the next, tool <= {BOUND}x; goal: script, too\n")
