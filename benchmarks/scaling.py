"""What does a request cost with two front-end processes on one port, and how do connections spread?

Asks ``fleet serve`` with one and with two front-ends, in turn and round after round, for
``claim_item`` over 32 keep-alive connections, both against one store with AOF fsync always.
Prints requests/s, p99 and the CPU time of all front-end processes per request, and how many
connections each front-end had, as /metrics says by slot in the middle of each run. Each
process binds the port itself and the kernel spreads connections by hash, so shares differ
from run to run: the worst is shown too.

    python -m benchmarks scaling [ROUNDS] [SECONDS]
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import frontend
from benchmarks.support import Load, console, cpu_seconds, embedded, front_end, table, wrk

PROCESSES = (1, 2)
_SCRIPT = Path(__file__).with_name("claim.lua")
_CONNECTIONS = re.compile(r'^coordinator_connections\{slot="([^"]+)"\} (\d+)', re.MULTILINE)


class Fleet(NamedTuple):
    """A running ``fleet serve``."""

    port: int
    pids: list[int]
    """Of its front-ends."""


class Run(NamedTuple):
    """What one run measured."""

    load: Load
    cpu_us: float
    """CPU time of all front-ends per request."""
    shares: list[float]
    """Of the connections, by front-end."""


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def serving(redis_url: str, processes: int) -> Iterator[Fleet]:
    """``fleet serve`` with so many front-ends, ready."""
    with front_end(redis_url, frontends=processes, log_level="warning") as served:
        end = time.monotonic() + 90
        while len(_slots(served.port)) < processes:
            if time.monotonic() > end:
                raise TimeoutError(f"fleet serve with {processes} front-ends is not ready")
            time.sleep(0.05)
        yield Fleet(served.port, _children(served.pid) if processes > 1 else [served.pid])


def _slots(port: int) -> dict[str, int]:
    """Connections by slot; empty while nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            return {slot: int(count) for slot, count in _CONNECTIONS.findall(answer.read().decode())}
    except OSError:
        return {}


def measure(fleet: Fleet, items: list[str], seconds: float) -> Run:
    """One run against one fleet."""
    os.environ["BENCH_ITEMS"] = ",".join(items)
    os.environ["BENCH_ERA"] = "modern"
    os.environ["BENCH_SEED"] = str(random.getrandbits(31))
    before = sum(cpu_seconds(pid) for pid in fleet.pids)
    with ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{fleet.port}/mcp/items"
        running_load = pool.submit(wrk, url, _SCRIPT, frontend.CONNECTIONS, seconds)
        time.sleep(seconds / 2)
        held = _slots(fleet.port).values()
        load = running_load.result()
    cpu = sum(cpu_seconds(pid) for pid in fleet.pids) - before
    return Run(load, cpu / load.requests * 1e6, [count / max(sum(held), 1) for count in held])


def main(rounds: str = "3", seconds: str = "3") -> None:
    """Runs the comparison."""
    runs: dict[int, list[Run]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(embedded())
        items = asyncio.run(frontend.create_items(store.url, frontend.CONNECTIONS))
        fleets = {count: stack.enter_context(serving(store.url, count)) for count in PROCESSES}
        for fleet in fleets.values():
            measure(fleet, items, 1)
        for _ in range(int(rounds)):
            for count, fleet in fleets.items():
                runs[count].append(measure(fleet, items, float(seconds)))
    rows = []
    for count, found in runs.items():
        shares = [share for run in found for share in run.shares]
        rows.append(
            (
                count,
                f"{median([run.load.per_second for run in found]):,.0f}",
                f"{median([run.load.p99_ms for run in found]):.2f}",
                f"{median([run.cpu_us for run in found]):.1f}",
                f"{min(shares):.0%} to {max(shares):.0%}",
                sum(run.load.errors for run in found),
            )
        )
    columns = ("front-ends", "requests/s", "p99 ms", "CPU us/request, all", "connections of each", "errors")
    table(f"claim_item, {frontend.CONNECTIONS} connections on one port, median of {rounds} rounds", columns, rows)
    one, two = (runs[count] for count in PROCESSES)
    ratio = median([b.cpu_us / a.cpu_us for a, b in zip(one, two, strict=True)])
    console.print(f"CPU per request with two: {ratio:.2f}x (goal 0.85 to 1.15); connections of each 25 to 75 %\n")
