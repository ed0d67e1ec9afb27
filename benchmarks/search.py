"""What does each kind of search cost, at 10,000 items and at 1,000,000, and how long is the store blocked?

Loads a separate server for each size (items with two tags, a type and a short summary) and calls
query_items through its handler, one call at a time, the sizes in turn. Prints p50 and p99 of the
calls, the script runs of each, the server's CPU time per run, and the longest run in the server's
slow log (wall time, so a busy machine affects it). Kinds marked with * scan items, so they grow with
the narrowest filter.

    python -m benchmarks search [SIZES] [CALLS]
    python -m benchmarks search 10000,1000000 100        # the sizes of the goals
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import uvloop

from benchmarks.loader import FAMILY, PROJECT, Shape, item_id, servers
from benchmarks.server import Server, items_on
from benchmarks.support import Failed, console, milliseconds, table
from coordinator.toolsets.items.contract.query import QueryItems
from coordinator.toolsets.items.rules.query import may_take_long
from coordinator.toolsets.tool import Call, Tool

SCANS = 2
"""Calls of searches over more than one feature's children."""
_SLOW_US = 100

Make = Callable[[int], dict[str, Any]]
"""Arguments for a server of a given size."""


def _feature(size: int) -> str:
    """A feature in the middle."""
    return item_id(size // 2 // FAMILY * FAMILY)


KINDS: dict[str, Make] = {
    "everything, newest first": lambda _: {},
    "everything, best first": lambda _: {"sortBy": "priority"},
    "role and priority": lambda _: {"role": "queue", "priority": "high"},
    "a tag": lambda _: {"tags": "area-07"},
    "a type, by complexity": lambda _: {"type": "task", "sortBy": "complexity"},
    "children of a feature": lambda size: {"parentId": _feature(size)},
    "200 with ancestors": lambda _: {"limit": 200, "includeAncestors": True},
    "the middle page": lambda size: {"offset": size // 2},
    "overview of 20 roots": lambda _: {"operation": "overview"},
    "overview with children": lambda _: {"operation": "overview", "includeChildren": True},
    "overview of a feature": lambda size: {"operation": "overview", "itemId": _feature(size)},
    "text among children": lambda size: {"parentId": _feature(size), "query": "login"},
    "claimed": lambda _: {"claimStatus": "claimed"},
    "text in a tag": lambda _: {"tags": "topic-022", "query": "login"},
    "text in everything": lambda _: {"query": "no such text"},
    "everything by title": lambda _: {"sortBy": "title", "sortOrder": "asc"},
    "everything by change": lambda _: {"sortBy": "modifiedAt"},
}
FIND_NOTHING = ("claimed", "text in everything")


class Side(NamedTuple):
    """One server and the tool on it."""

    size: int
    tool: Tool
    server: Server


class Found(NamedTuple):
    """The cost of one kind at one size."""

    p50_ms: float
    p99_ms: float
    runs: float
    cpu_ms: float
    """The server's CPU time per script run."""
    longest_ms: float


async def _measure(side: Side, name: str, calls: int) -> Found:
    make = KINDS[name]
    arguments = msgspec.convert({"operation": "search", **make(side.size)}, QueryItems)
    first = msgspec.to_builtins(await side.tool.handler(Call(PROJECT), arguments))
    if bool(first.get("items", True)) is (name in FIND_NOTHING):
        raise Failed(f"{name} among {side.size:,} items found {first['items'][:1]}")
    side.server.watch_slow(_SLOW_US)
    side.server.begin()
    waits: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        answer = await side.tool.handler(Call(PROJECT), arguments)
        waits.append(time.perf_counter() - began)
        if msgspec.to_builtins(answer) != first:
            raise Failed(f"{name} among {side.size:,} items found {answer}, and before {first}")
    cost, slowest = side.server.cost(), side.server.slowest()
    return Found(
        milliseconds(waits, 0.5),
        milliseconds(waits, 0.99),
        cost.calls / calls,
        cost.cpu_us / 1000,
        slowest.ms if slowest else 0,
    )


async def _all(urls: dict[int, str], calls: int) -> dict[tuple[str, int], Found]:
    found: dict[tuple[str, int], Found] = {}
    async with contextlib.AsyncExitStack() as stack:
        sides: list[Side] = []
        for size, url in urls.items():
            tools, server = await stack.enter_async_context(items_on(url))
            sides.append(Side(size, tools["query_items"], server))
        for name, make in KINDS.items():
            for side in sides:
                few = _looks(make, side.size) and "children" not in name and name != "claimed"
                found[name, side.size] = await _measure(side, name, min(calls, SCANS) if few else calls)
    return found


def _looks(make: Make, size: int) -> bool:
    return may_take_long(msgspec.convert({"operation": "search", **make(size)}, QueryItems))


def main(sizes: str = "1000,20000", calls: str = "50") -> None:
    """Loads, measures and prints."""
    with servers(sizes, Shape(tags=2, typed=True, text_bytes=50)) as urls:
        found = uvloop.run(_all(urls, int(calls)))
    for size in urls:
        rows: list[tuple[str, ...]] = []
        for name, make in KINDS.items():
            one = found[name, size]
            rows.append(
                (
                    name + (" *" if _looks(make, size) else ""),
                    f"{one.p50_ms:,.2f}",
                    f"{one.p99_ms:,.2f}",
                    f"{one.runs:,.0f}",
                    f"{one.cpu_ms:.2f}",
                    f"{one.longest_ms:.1f}" if one.longest_ms else f"under {_SLOW_US / 1000}",
                )
            )
        columns = ("search", "p50 ms", "p99 ms", "script runs", "server CPU ms per run", "longest run ms")
        table(f"Searches among {size:,} items", columns, rows)
    name, size = max(found, key=lambda kind: found[kind].longest_ms)
    console.print(f"longest script run: {found[name, size].longest_ms:.1f} ms, {name} among {size:,} items\n")
