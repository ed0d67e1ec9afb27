"""What does one call to the store cost this process in CPU time, over the shared link and over redis-py's pool?

Runs the same script with the same arguments on the same server with 32 concurrent
callers: ``Store.run`` with the decoded reply, the bare link with the packed reply, and
``redis.asyncio.Redis.fcall`` on its connection pool. The sides take turns, round after
round, on one event loop; the figures are medians of a process's own CPU time (the server is
another process). Also with one caller, where nothing can be batched.

    python -m benchmarks link [ROUNDS] [CALLS] [uvloop|asyncio]
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import uvloop

from benchmarks.support import Failed, embedded, middle, milliseconds, table
from coordinator.store import Library, Script, Store
from coordinator.store.scripts import pack_key

CALLERS = 32
PROJECT = "bench"
ARGUMENTS = ("01234567-89ab-cdef-0123-456789abcdef", "agent-17", "f" * 36, 900_000, 42)
TOUCH = Script(Library("benchmarks"), "touch", tuple[str, str, int, int, int])
RUN, LINK, POOL = "Store.run, decoded", "the link alone", "redis-py's pool"

REPLY = ["f" * 36, "agent-17", 900_000, 42]
"""Of the script, without the count of calls."""
Call = Callable[[], Awaitable[Any]]


class Round(NamedTuple):
    """The result of one side in one round."""

    cpu_us: float
    """CPU time of this process per call, in microseconds."""
    per_second: float
    p99_ms: float


async def _round(name: str, call: Call, callers: int, calls: int) -> Round:
    """``callers`` that each make their share of ``calls``; every sixteenth is timed and its reply checked."""
    waits: list[float] = []
    each = max(1, calls // callers)

    async def caller() -> None:
        for turn in range(each):
            if turn % 16:
                await call()
                continue
            asked = time.perf_counter()
            reply = await call()
            waits.append(time.perf_counter() - asked)
            found = msgspec.msgpack.decode(reply) if isinstance(reply, bytes) else list(reply)
            if [*found[:2], *found[3:]] != REPLY:
                raise Failed(f"{name} was answered {found}")

    cpu, clock = time.process_time(), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    made = each * callers
    return Round(cpu / made * 1e6, made / clock, milliseconds(waits, 0.99))


async def _measure(url: str, rounds: int, calls: int) -> dict[tuple[str, int], list[Round]]:
    store = Store(url, timeout_ms=5000)
    await store.open()
    key, prefix = pack_key(PROJECT), b"fc:{%s}:" % PROJECT.encode()
    submit, fcall = store.link(PROJECT).submit, store.client.fcall
    sides: dict[str, Call] = {
        RUN: lambda: store.run(TOUCH, PROJECT, *ARGUMENTS),
        LINK: lambda: submit(TOUCH.pack(key, ARGUMENTS)),
        POOL: lambda: fcall(TOUCH.function, 1, prefix, *ARGUMENTS),
    }
    found: dict[tuple[str, int], list[Round]] = defaultdict(list)
    for name, call in sides.items():
        await _round(name, call, CALLERS, 20 * CALLERS)  # warms up
    for _ in range(rounds):
        for callers, share in ((CALLERS, calls), (1, calls // 10)):
            for name, call in sides.items():
                found[name, callers].append(await _round(name, call, callers, share))
    await store.close()
    return found


def main(rounds: str = "7", calls: str = "32000", loop: str = "uvloop") -> None:
    """Prints the table and the ratio."""
    run = uvloop.run if loop == "uvloop" else asyncio.run
    with embedded("everysec") as server:
        found = run(_measure(server.url, int(rounds), int(calls)))
    rows = []
    for (name, callers), made in found.items():
        cpu, rate, p99 = (middle(made, figure) for figure in Round._fields)
        less = middle(found[POOL, callers], "cpu_us") / cpu
        rows.append((name, callers, f"{cpu:.2f}", f"{rate:,.0f}", f"{p99:.2f}", f"{less:.1f}x"))
    table(
        f"One call to the store, medians of {rounds} rounds on {loop}",
        ("side", "callers", "CPU us/call", "calls/s", "p99 ms", "less CPU than redis-py"),
        rows,
    )
