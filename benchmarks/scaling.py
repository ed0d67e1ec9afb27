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

import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.load import CONNECTIONS, FIGURES, Run, Server, measure
from benchmarks.support import (
    add_items,
    children,
    console,
    core_kept_free,
    embedded,
    free_port,
    front_end,
    metrics,
    middle,
    name_of,
    ratio,
    running,
    table,
    until,
    until_listening,
)

PROCESSES = (1, 2)
_SLOT = re.compile(r'^coordinator_connections\{slot="[^"]+"\}$')
_WARM_SECONDS = 1.0


class Round(NamedTuple):
    """One run, and the shares of the connections by front-end; none of other servers."""

    run: Run
    shares: list[float]


@contextlib.contextmanager
def fleet(redis_url: str, processes: int) -> Iterator[Server]:
    """``fleet serve`` with ``processes`` front-ends, ready."""
    with front_end(redis_url, frontends=processes, log_level="warning") as served:
        until(lambda: len(_held(served.port)) == processes, f"{processes} front-ends")
        pids = [pid for pid in children(served.pid) if name_of(pid).startswith("fleet fe-")]  # not their template
        yield Server("front-end", served.port, pids or [served.pid])


@contextlib.contextmanager
def bare(redis_url: str, processes: int) -> Iterator[Server]:
    """``processes`` processes of the bare handler, ready."""
    port = free_port()
    program = "benchmarks.servers.__main__", "bare-link", str(port), redis_url
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(running(*program)) for _ in range(processes)]
        until_listening(port, processes)
        yield Server("bare handler", port, [process.pid for process in started], "/mcp")


KINDS = (fleet, bare)


def _held(port: int) -> list[float]:
    """Connections by front-end; none while nothing answers."""
    try:
        return [count for name, count in metrics(port).items() if _SLOT.match(name)]
    except OSError:
        return []


def _round(server: Server, items: list[str], seconds: float) -> Round:
    """One run against one of them."""
    held: list[float] = []

    def look() -> None:
        time.sleep(seconds / 2)
        held.extend(_held(server.port))

    run = measure(server, items, seconds, look if server.name == "front-end" else tuple)
    return Round(run, [count / max(sum(held), 1) for count in held])


def main(rounds: str = "3", seconds: str = "3", fsync: str = "always") -> None:
    """Runs the comparison."""
    with core_kept_free() as give_core:
        _compare("a core for the servers", int(rounds), float(seconds), fsync, give_core)
    _compare("all cores for all", int(rounds), float(seconds), fsync, lambda pid: None)
    console.print("goals for the front-end: both ratios 0.85x to 1.15x, connections of each 25 to 75 %\n")


def _compare(place: str, rounds: int, seconds: float, fsync: str, give_core: Callable[[int], None]) -> None:
    """Runs both kinds with one process and with two, and prints."""
    found: dict[tuple[str, int], list[Round]] = defaultdict(list)
    with embedded(fsync) as store, contextlib.ExitStack() as stack:
        servers = [stack.enter_context(start(store.url, count)) for start in KINDS for count in PROCESSES]
        items = add_items(servers[0].port, CONNECTIONS)
        for server in servers:
            for pid in server.pids:
                give_core(pid)
            measure(server, items, min(seconds, _WARM_SECONDS))
        for _ in range(rounds):
            for server in servers:
                found[server.name, len(server.pids)].append(_round(server, items, seconds))
    runs = {kind: [one.run for one in each] for kind, each in found.items()}
    shares = {kind: [share for one in each for share in one.shares] for kind, each in found.items()}
    table(
        f"claim_item, {CONNECTIONS} connections on one port, {place}, median of {rounds} rounds",
        ("server", "processes", "requests/s", "p99 ms", "CPU us/request, all", "connections of each"),
        [
            (
                *kind, *(f"{middle(each, figure):,.{digits}f}" for figure, digits in FIGURES.items()),
                f"{min(shares[kind]):.0%} to {max(shares[kind]):.0%}" if shares[kind] else "",
            )
            for kind, each in runs.items()
        ],
    )  # fmt: skip
    for name in dict.fromkeys(name for name, _ in runs):
        one, two = (runs[name, count] for count in PROCESSES)
        cost, speed = (ratio(two, one, figure) for figure in ("cpu_us", "per_second"))
        console.print(f"{name}, two processes against one: CPU per request {cost:.2f}x, requests/s {speed:.2f}x")
