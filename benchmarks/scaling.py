"""What does a request cost with two front-end processes on one port, and how are connections balanced?

Calls ``claim_item`` on ``fleet serve`` with one and with two front-ends, in turn, round after round,
over 32 keep-alive connections, both against one store with AOF fsync always. Prints requests/s, p99
and the CPU time of all front-end processes per request, and how many connections each front-end had,
by /metrics in the middle of each run. Each process binds the port itself and the kernel balances
connections by hash, so shares differ from run to run: the worst is shown too.

The processes, one or two, have their own core as in ``frontend``, store and load share the others;
then the same with all cores for all, where the load interrupts a process at nearly every answer. Two
processes on one core also evict each other's CPU caches: the bare handler on the same link
(``servers/bare.py``) shows how much of the difference that is.

    python -m benchmarks scaling [ROUNDS] [SECONDS] [FSYNC]
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import frontend
from benchmarks.support import (
    Load,
    console,
    core_kept_free,
    cpu_seconds,
    embedded,
    free_port,
    front_end,
    python,
    running,
    table,
    wrk,
)

PROCESSES = (1, 2)
_SCRIPT = Path(__file__).with_name("claim.lua")
_LISTEN = "0A"  # of /proc/net/tcp
_CONNECTIONS = re.compile(r'^coordinator_connections\{slot="([^"]+)"\} (\d+)', re.MULTILINE)


class Serving(NamedTuple):
    """Processes that serve on one port."""

    port: int
    pids: list[int]
    path: str
    """The path of the endpoint."""
    slots: bool
    """Whether /metrics counts connections by slot."""


class Run(NamedTuple):
    """The results of one run."""

    load: Load
    cpu_us: float
    """CPU time of all front-ends per request."""
    shares: list[float]
    """The shares of the connections, by front-end; empty if not counted."""


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def fleet(redis_url: str, processes: int) -> Iterator[Serving]:
    """``fleet serve`` with ``processes`` front-ends, ready."""
    with front_end(redis_url, frontends=processes, log_level="warning") as served:
        _until(lambda: len(_slots(served.port)) == processes, "fleet serve")
        pids = _children(served.pid) if processes > 1 else [served.pid]
        yield Serving(served.port, pids, "/mcp/items", slots=True)


@contextlib.contextmanager
def bare(redis_url: str, processes: int) -> Iterator[Serving]:
    """``processes`` processes of the bare handler, ready."""
    port = free_port()
    command = python("-m", "benchmarks.servers", "bare-link", str(port), redis_url)
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(running(*command)) for _ in range(processes)]
        _until(lambda: _listening(port) == processes, "the bare handler")
        yield Serving(port, [process.pid for process in started], "/mcp", slots=False)


KINDS = {"front-end": fleet, "bare handler": bare}


def _until(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 90
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} is not ready")
        time.sleep(0.05)


def _listening(port: int) -> int:
    """How many sockets listen on a port."""
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(row[1].endswith(f":{port:04X}") and row[3] == _LISTEN for row in rows)


def _slots(port: int) -> dict[str, int]:
    """Connections by slot; empty while nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            return {slot: int(count) for slot, count in _CONNECTIONS.findall(answer.read().decode())}
    except OSError:
        return {}


def measure(served: Serving, items: list[str], seconds: float) -> Run:
    """One run against one of them."""
    os.environ["BENCH_ITEMS"] = ",".join(items)
    os.environ["BENCH_ERA"] = "modern"
    os.environ["BENCH_SEED"] = str(random.getrandbits(31))
    before = sum(cpu_seconds(pid) for pid in served.pids)
    with ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{served.port}{served.path}"
        running_load = pool.submit(wrk, url, _SCRIPT, frontend.CONNECTIONS, seconds)
        time.sleep(seconds / 2)
        held = _slots(served.port).values() if served.slots else ()
        load = running_load.result()
    cpu = sum(cpu_seconds(pid) for pid in served.pids) - before
    return Run(load, cpu / load.requests * 1e6, [count / max(sum(held), 1) for count in held])


def main(rounds: str = "3", seconds: str = "3", fsync: str = "always") -> None:
    """Runs the comparison."""
    with core_kept_free() as give_core:
        _compare("a core for the servers", int(rounds), float(seconds), fsync, give_core)
    _compare("all cores for all", int(rounds), float(seconds), fsync, lambda pid: None)
    console.print("goals for the front-end: both ratios 0.85x to 1.15x, connections of each 25 to 75 %\n")


def _compare(place: str, rounds: int, seconds: float, fsync: str, give_core: Callable[[int], None]) -> None:
    """Runs both kinds with one process and with two, and prints."""
    runs: dict[tuple[str, int], list[Run]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(embedded(fsync))
        items = asyncio.run(frontend.create_items(store.url, frontend.CONNECTIONS))
        kinds = {(name, count): start for name, start in KINDS.items() for count in PROCESSES}
        started = {kind: stack.enter_context(start(store.url, kind[1])) for kind, start in kinds.items()}
        for served in started.values():
            for pid in served.pids:
                give_core(pid)
            measure(served, items, 1)
        for _ in range(rounds):
            for kind, served in started.items():
                runs[kind].append(measure(served, items, seconds))
    columns = ("server", "processes", "requests/s", "p99 ms", "CPU us/request, all", "connections of each", "errors")
    rows = [(*map(str, kind), *_row(found)) for kind, found in runs.items()]
    title = f"claim_item, {frontend.CONNECTIONS} connections on one port, {place}, median of {rounds} rounds"
    table(title, columns, rows)
    for name in KINDS:
        one, two = (runs[name, count] for count in PROCESSES)
        cost = median([b.cpu_us / a.cpu_us for a, b in zip(one, two, strict=True)])
        speed = median([b.load.per_second / a.load.per_second for a, b in zip(one, two, strict=True)])
        console.print(f"{name}, two processes against one: CPU per request {cost:.2f}x, requests/s {speed:.2f}x")


def _row(found: list[Run]) -> tuple[str, ...]:
    shares = [share for run in found for share in run.shares]
    return (
        f"{median([run.load.per_second for run in found]):,.0f}",
        f"{median([run.load.p99_ms for run in found]):.2f}",
        f"{median([run.cpu_us for run in found]):.1f}",
        f"{min(shares):.0%} to {max(shares):.0%}" if shares else "",
        str(sum(run.load.errors for run in found)),
    )
