"""What do 1,000 listeners of the change feed cost, how late do they hear, and do they slow down claims?

Connects the listeners to one front-end (a core of its own) as event streams of one project, changes items at 10
events/s, and prints the front-end's CPU time per delivery (without that of the changes themselves), its memory per
listener, and the time from commit to listener, by the one clock of this machine. Then it calls ``claim_item`` over 32
connections with and without 1,000 listeners to another tree, in turn, for a second each, and prints the ratio. In
between it measures waiting reads (``benchmarks.waits``). Listeners are bare connections: a thousand clients would take
the cores that deliveries need.

    python -m benchmarks feed [LISTENERS] [SECONDS] [ROUNDS] [TREES]
    python -m benchmarks feed 1000 20 15
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from statistics import median
from typing import cast

from benchmarks.load import CONNECTIONS, Server, measure
from benchmarks.support import (
    Failed,
    FrontEnd,
    add_items,
    console,
    core_kept_free,
    cpu_us,
    embedded,
    front_end,
    in_thread,
    in_turns,
    memory,
    percentile,
    ratio,
    table,
    until,
    url_of,
)
from benchmarks.waits import ends, idle
from coordinator.client import SyncFleet

PER_SECOND = 10
"""Events."""
_CONNECT_AT_ONCE = 100


class _Listener(asyncio.Protocol):
    def __init__(self, all: Listeners, request: bytes) -> None:
        self._all = all
        self._request = request
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast("asyncio.Transport", transport)  # uvloop's is none by class
        self._all.transports.append(made)
        made.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time() * 1000
        if not self.ready.done():
            if b"event: ready" in data:
                self.ready.set_result(None)
            return
        # An event is small, so it comes in one piece: "id: <cursor>-<ms>-<number>\ndata: ...".
        for part in data.split(b"\nid: ")[1:] if not data.startswith(b"id: ") else data.split(b"id: ")[1:]:
            if b'\ndata: {"eventId"' in part[:80]:
                self._all.delays.append(now - int(part.split(b"-", 2)[1]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.lost += 1


class Listeners:
    """Connected streams."""

    def __init__(self) -> None:
        self.transports: list[asyncio.Transport] = []
        self.delays: list[float] = []
        """Of each event and listener, in ms."""
        self.lost = 0

    @contextlib.asynccontextmanager
    async def connected(self, port: int, count: int, query: str = "") -> AsyncIterator[None]:
        """Connects so many; they stay until the block ends."""
        loop, made = asyncio.get_running_loop(), list[_Listener]()
        request = f"GET /feed/default{query} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n".encode()
        for start in range(0, count, _CONNECT_AT_ONCE):
            some = [
                await loop.create_connection(lambda: _Listener(self, request), "127.0.0.1", port)
                for _ in range(start, min(start + _CONNECT_AT_ONCE, count))
            ]
            made += [protocol for _, protocol in some]
            await asyncio.gather(*(protocol.ready for _, protocol in some))
        yield
        if self.lost:
            raise Failed(f"{self.lost} listeners were cut off")
        for transport in self.transports:
            transport.abort()


def _change(port: int, items: list[str], seconds: float) -> int:
    """Makes changes at a steady rate; returns how many."""
    count = int(seconds * PER_SECOND)
    with SyncFleet(url_of(port), token="", project="default") as fleet:
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
            item = {"id": items[number % len(items)], "title": f"title {number}"}
            fleet.call("manage_items", {"operation": "update", "items": [item]})
        time.sleep(max(0.0, began + seconds - time.monotonic()))
    return count


def _deliveries(front: FrontEnd, items: list[str], count: int, seconds: float) -> None:
    idle = cpu_us(front.pid)
    _change(front.port, items, seconds)
    alone = cpu_us(front.pid) - idle  # what the changes cost without listeners
    listeners, before = Listeners(), memory(front.pid)
    with in_thread(listeners.connected(front.port, count)):
        each = (memory(front.pid) - before) / count
        began = cpu_us(front.pid)
        made = _change(front.port, items, seconds)
        spent = cpu_us(front.pid) - began
        until(lambda: len(listeners.delays) >= made * count, f"{made * count} deliveries")
        delays = list(listeners.delays)
    table(
        f"{count:,} listeners, {PER_SECOND} events/s for {seconds:.0f} s",
        ("figure", "measured", "goal"),
        (
            ("front-end CPU per delivery, us", f"{(spent - alone) / len(delays):.1f}", "<= 25"),
            ("memory per listener, KB", f"{each / 1024:.1f}", "<= 15"),
            ("commit to listener, median ms", f"{median(delays):.1f}", ""),
            ("commit to listener, p99 ms", f"{percentile(delays, 0.99):.1f}", "< 100"),
        ),
    )


def _claims(front: FrontEnd, items: list[str], root: str, count: int, rounds: int, seconds: float) -> None:
    server = Server("front-end", front.port, [front.pid])
    rates: dict[bool, list[float]] = {True: [], False: []}
    measure(server, items, seconds)
    for number in range(rounds):
        for listened in in_turns((True, False), number):
            listeners = Listeners().connected(front.port, count if listened else 0, f"?root={root}")
            with in_thread(listeners):
                rates[listened].append(measure(server, items, seconds).per_second)
    console.print(
        f"claims/s with {count:,} listeners to another tree: {median(rates[True]):,.0f}, "
        f"{ratio(rates[True], rates[False]):.3f}x without (goal >= 0.97x), median of {rounds} pairs\n"
    )


def main(listeners: str = "1000", seconds: str = "10", rounds: str = "15", trees: str = "100") -> None:
    """Runs the measurements."""
    count, long = int(listeners), float(seconds)
    with (
        core_kept_free() as give_core,
        embedded("everysec") as store,
        front_end(store.url, log_level="warning") as front,
    ):
        give_core(front.pid)
        *items, root = add_items(front.port, CONNECTIONS + 1)
        _change(front.port, items, min(long, 1))
        _deliveries(front, items, count, long)
        idle(front, add_items(front.port, count), 2 * long)
        asyncio.run(ends(front, int(trees)))
        _claims(front, items, root, count, int(rounds), min(long, 1))
