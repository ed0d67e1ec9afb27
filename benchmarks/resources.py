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

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from statistics import median
from typing import Any
from uuid import uuid4

import msgspec
import uvloop

from benchmarks.loader import PATIENT, PLAIN, Shape, load_now
from benchmarks.server import Cost
from benchmarks.store import Side, claim_next, measured, release, side
from benchmarks.support import ToolCalls, console, embedded, front_end, middle, ratio, table

BOUND = 1.5
SHAPES = {"none": PLAIN, "one resource": Shape(resources=1), "two resources": Shape(resources=2)}
_ROOM = 100_000
_LIMITS = {"gpu": _ROOM, **{f"gpu{mark}{number}": _ROOM for mark in "-/" for number in range(8)}}
_AGENT = {"id": "caller", "kind": "subagent"}
_NEXT: dict[str, list[dict[str, Any]]] = {"claims": [{"selector": {}}]}


async def _round(one: Side, calls: int) -> dict[str, Cost]:
    held: dict[str, str] = {}
    claimed = await measured(one, [claim_next(one, f"agent-{n}", held) for n in range(calls)])
    released = await measured(one, [release(one, *each) for each in held.items()])
    return {"claim the next": claimed, "release": released}


async def _rounds(urls: Mapping[str, str], rounds: int, calls: int) -> dict[tuple[str, str], list[Cost]]:
    settings = msgspec.structs.replace(PATIENT, resources=msgspec.convert(_LIMITS, dict[str, int]))
    found: dict[tuple[str, str], list[Cost]] = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        sides = {name: await stack.enter_async_context(side(url, settings)) for name, url in urls.items()}
        for number in range(rounds + 1):
            for name, one in sides.items():
                costs = await _round(one, calls)
                for call, cost in costs.items() if number else ():
                    found[call, name].append(cost)
    return found


def _tool_rounds(urls: Mapping[str, str], rounds: int, calls: int) -> dict[tuple[str, str], list[float]]:
    """Microseconds of a call, medians of each round."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, url in urls.items():
            port = stack.enter_context(front_end(url, config={"resources": _LIMITS})).port
            sides[name] = stack.enter_context(contextlib.closing(ToolCalls(port)))
        for number in range(rounds + 1):
            for name, tools in sides.items():
                times = defaultdict(list)
                given = _NEXT
                for turn in range(2 * calls):
                    signed = {"actor": _AGENT, "requestId": str(uuid4())}
                    seconds, result = tools.call("items", "claim_item", **signed, **given)
                    times["release" if turn % 2 else "claim the next"].append(seconds * 1e6)
                    claimed = result["structuredContent"]["claimResults"]
                    given = {"releases": [{"itemId": one["itemId"]} for one in claimed]} if claimed else _NEXT
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
        found = uvloop.run(_rounds(urls, int(rounds), int(calls)))
        seen = _tool_rounds(urls, int(rounds), int(calls))
    rows = []
    figures = (("script", "script_us", found), ("CPU of the server", "cpu_us", found), ("tool", "real", seen))
    for call in dict.fromkeys(call for call, _ in found):
        for title, figure, by in figures:
            without, *others = ([*by[call, name]] for name in SHAPES)
            cells = [f"{middle(one, figure):.0f} = {ratio(one, without, figure):.2f}x" for one in others]
            rows.append((f"{call}, {title}", f"{middle(without, figure):.0f}", *cells))
    columns = ("us per call, and ratio by round", *SHAPES)
    table(f"{int(items):,} items, medians of {rounds} rounds", columns, rows)
    console.print(f"at 1,000,000 items, bound: claim the next, tool <= {BOUND}x; goal: script, too\n")
