"""Do the tools stay as fast at 1,000,000 items as at 10,000, and how long is the store ever blocked?

Loads a separate server for each size (items with two tags and a type) and calls all 14 tools through
their handlers, one call at a time, the sizes in turn, round after round. Prints p50 and p99 of the
calls and their growth, and the longest script runs in the server's slow log (from 0.2 ms on): the
longest of each round, and of these the median and the longest. It is wall time, so a briefly busy
machine affects only the longest, a slow script both. Calls that scan every item are marked with *:
these may grow with the items, and each round has one.

    python -m benchmarks tools_at_scale [SIZES] [ROUNDS] [CALLS]
    python -m benchmarks tools_at_scale 10000,1000000 5 100        # the sizes of the goals
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from statistics import median
from typing import Any, NamedTuple

import msgspec
import uvloop

from benchmarks.calls import CASES, Case, World
from benchmarks.loader import PROJECT, Shape, servers
from benchmarks.server import Server, Slow, items_on
from benchmarks.support import Failed, accepted, console, milliseconds, table
from coordinator.errors import ToolFailure
from coordinator.toolsets.tool import Call, Tool

GOAL, GOAL_MS = 2.0, 5.0
_SLOW_US = 200


class Side(NamedTuple):
    """One server, its items and its tools."""

    size: int
    world: World
    tools: dict[str, Tool]
    server: Server


class Found:
    """The results of one case at one size."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.longest: list[Slow] = []
        """The longest script of each round, if the slow log has one."""

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        return milliseconds(self.waits, share)

    @property
    def usual(self) -> float:
        """The median of the rounds' longest scripts, in milliseconds."""
        return median([slow.ms for slow in self.longest]) if self.longest else 0.0

    @property
    def worst(self) -> Slow:
        """The longest script of all rounds."""
        return max(self.longest, key=lambda slow: slow.ms, default=Slow("", 0.0))


async def _calls(side: Side, case: Case, count: int, found: Found) -> None:
    tool = side.tools[case.tool]
    side.server.watch_slow(_SLOW_US)
    for _ in range(count):
        given = msgspec.convert(case.make(side.world), tool.arguments)
        began = time.perf_counter()
        result = await tool.handler(Call(PROJECT), given)
        found.waits.append(time.perf_counter() - began)
        answer = msgspec.to_builtins(result)
        accepted(case.name, answer)
        side.world.learn(case, answer)
    slowest = side.server.slowest()
    if slowest is not None:
        found.longest.append(slowest)


async def _rounds(urls: dict[int, str], rounds: int, calls: int) -> dict[tuple[Case, int], Found]:
    found: dict[tuple[Case, int], Found] = defaultdict(Found)
    async with contextlib.AsyncExitStack() as stack:
        sides: list[Side] = []
        for size, url in urls.items():
            tools, server = await stack.enter_async_context(items_on(url))
            sides.append(Side(size, World(size, 1), tools, server))
        for number in range(rounds + 1):
            for case in CASES:
                for side in sides:
                    # The first round warms up.
                    into = found[case, side.size] if number else Found()
                    try:
                        await _calls(side, case, min(number, 1) if case.scans else calls, into)
                    except ToolFailure as failure:
                        raise Failed(f"{case.name} at {side.size}: {failure.message}") from None
    return found


def main(sizes: str = "10000,20000", rounds: str = "3", calls: str = "30") -> None:
    """Loads, measures and prints."""
    with servers(sizes, Shape(tags=2, typed=True)) as urls:
        found = uvloop.run(_rounds(urls, int(rounds), int(calls)))
    small, large = min(urls), max(urls)
    rows: list[tuple[Any, ...]] = []
    for case in CASES:
        few, many = found[case, small], found[case, large]
        row: list[str] = [case.name + (" *" if case.scans else "")]
        row += [f"{one.percentile(share):.2f}" for one in (few, many) for share in (0.5, 0.99)]
        row += [f"{many.percentile(share) / few.percentile(share):.2f}x" for share in (0.5, 0.99)]
        told = f"{many.usual:.1f}, {many.worst.ms:.1f} {many.worst.script}" if many.longest else "short"
        rows.append((*row, told))
    columns = ("call", f"p50 {small:,}", "p99", f"p50 {large:,}", "p99", "p50 grows", "p99 grows", "scripts of rounds")
    table(
        f"The tools at {small:,} and {large:,} items, ms; {rounds} rounds of {calls} calls",
        columns,
        rows,
    )
    plain = [found[case, large].percentile(0.5) / found[case, small].percentile(0.5)
             for case in CASES if not case.scans]  # fmt: skip
    usual = max(found.values(), key=lambda one: one.usual)
    worst = max((one.worst for one in found.values()), key=lambda slow: slow.ms)
    console.print(
        f"p50 of calls that do not look at every item: {median(plain):.2f}x in the middle, {max(plain):.2f}x at most "
        f"(goal <= {GOAL}x); longest script of a round {usual.usual:.1f} ms in the middle ({usual.worst.script}), "
        f"{worst.ms:.1f} ms at most ({worst.script}) (goal <= {GOAL_MS} ms)\n"
    )
