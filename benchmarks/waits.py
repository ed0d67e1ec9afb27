"""What do 1,000 waiting reads cost while nothing happens, and how soon does one that waits for a tree hear of its end?

Part of ``benchmarks.feed``. Each of the calls waits for an item of its own, the dearest case: calls that wait for the
same share its reads. They are bare connections, because what they cost the front-end is measured, and each is to have
one of its own; the client library would share some.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from typing import Any, cast

import msgspec

from benchmarks.support import (
    Failed,
    FrontEnd,
    cpu_us,
    head,
    in_thread,
    memory,
    metrics,
    percentile,
    table,
    until,
    url_of,
)
from coordinator.client import Fleet

_CONNECT_AT_ONCE = 100
_WAIT_MS = 50_000
_CHILDREN = 20
_READS = "coordinator_wait_reads_total"


class _Caller(asyncio.Protocol):
    """A connection that has made one call before, as those of agents have."""

    def __init__(self, requests: tuple[bytes, bytes]) -> None:
        self._first, self._wait = requests
        self._transport: asyncio.Transport | None = None
        self.waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class
        self._transport.write(self._first)

    def data_received(self, data: bytes) -> None:
        self.answered += data.count(b"HTTP/1.1 200")
        if self._transport is not None and not self.waits.done():
            self._transport.write(self._wait)
            self.waits.set_result(None)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _request(item: str, wait_ms: int) -> bytes:
    arguments = {"itemId": item, "waitFor": "terminal", "waitMs": wait_ms}
    params = {"name": "get_context", "arguments": arguments}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return b"%b%d\r\n\r\n%b" % (head("/mcp/items"), len(body), body)


@asynccontextmanager
async def _waiting(port: int, items: list[str]) -> AsyncIterator[list[_Caller]]:
    """A call that waits for each of these items."""
    loop, callers = asyncio.get_running_loop(), list[_Caller]()
    for start in range(0, len(items), _CONNECT_AT_ONCE):
        some = [_Caller((_request(one, 0), _request(one, _WAIT_MS))) for one in items[start:][:_CONNECT_AT_ONCE]]
        for caller in some:
            await loop.create_connection(lambda: caller, "127.0.0.1", port)  # noqa: B023
        callers.extend(some)
        await asyncio.gather(*(one.waits for one in some))
    yield callers
    for one in callers:
        one.abort()


def _metric(port: int, name: str) -> float:
    return sum(value for series, value in metrics(port).items() if series.partition("{")[0] == name)


def _settle(port: int, count: int) -> None:
    until(lambda: _metric(port, "coordinator_reads_waiting") == count, f"{count} calls wait")


def idle(front: FrontEnd, items: list[str], seconds: float) -> None:
    """Measures the calls while nothing happens to what they wait for."""
    before, count = memory(front.pid), len(items)
    with in_thread(_waiting(front.port, items)) as callers:
        _settle(front.port, count)
        size = memory(front.pid) - before
        reads, began, spent = _metric(front.port, _READS), time.monotonic(), cpu_us(front.pid)
        time.sleep(seconds)
        spent, took = cpu_us(front.pid) - spent, time.monotonic() - began
        reads = _metric(front.port, _READS) - reads
        if any(one.answered != 1 for one in callers):
            raise Failed("a call was answered that should wait")
    table(
        f"{count:,} idle waiting reads of as many items, {seconds:.0f} s",
        ("figure", "measured", "goal"),
        (
            ("memory, MB", f"{size / 1024**2:.1f}", "<= 60"),
            ("front-end, share of a core", f"{spent / took / 10_000:.2f} %", "<= 2 %"),
            ("reads per item and 10 s", f"{reads / count / took * 10:.2f}", "about 1"),
        ),
    )


async def ends(front: FrontEnd, rounds: int) -> None:
    """Measures how soon an orchestrator that waits for a tree hears that its last item has ended."""
    delays: list[float] = []
    async with Fleet(url_of(front.port), token="", project="default") as fleet:

        async def create(*items: dict[str, Any]) -> list[str]:
            made = await fleet.call("manage_items", {"operation": "create", "items": items})
            return [one["id"] for one in made["items"]]

        async def heard(root: str) -> float:
            await fleet.tree(root).finished()
            return time.monotonic()

        for number in range(rounds):
            (root,) = await create({"title": f"tree {number}"})
            tasks = await create(*({"title": "task", "parentId": root} for _ in range(_CHILDREN)))
            *most, last = ({"itemId": item, "trigger": "complete"} for item in tasks)
            waiting = asyncio.create_task(heard(root))
            await asyncio.to_thread(_settle, front.port, 1)
            await fleet.call("advance_item", {"transitions": most})
            await asyncio.sleep(0.05 * (number % 7))  # so that reads of the feed and ends are not in step
            await fleet.call("advance_item", {"transitions": [last]})
            committed = time.monotonic()
            delays.append(1000 * (await waiting - committed))
    table(
        f"the end of a tree, {rounds} times",
        ("figure", "measured", "goal"),
        (
            ("commit to answer, median ms", f"{median(delays):.1f}", ""),
            ("commit to answer, p99 ms", f"{percentile(delays, 0.99):.1f}", "< 250"),
        ),
    )
