"""How long does it take to move a large project to another shard, and for how long does its old shard answer nobody?

Loads items into a project of a cluster with two shards, without replicas, and moves the project from one to the other
and back (``fleet project move``), round after round. Meanwhile a thread for each shard sends a PING every millisecond:
the longest time to an answer is the stall of that shard. Prints all rounds, and the stall per key of the shard that
gave the project away: the median of the rounds.

    python -m benchmarks move [ITEMS] [ROUNDS]
    python -m benchmarks move 100000 5        # the size of the bound
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Iterator
from statistics import median

import uvloop

import coordinator.toolsets.registry  # noqa: F401 (the functions that the other shard is given)
from benchmarks.loader import PROJECT, TIMEOUT_MS, load_now
from benchmarks.support import Failed, Missed, console, folder, table
from coordinator.projects.moving import move
from coordinator.store import Store
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.link.address import parse

GOAL_US = 15.0
"""The longest stall, per key."""
_EVERY = 0.001


class _Stall(threading.Thread):
    """Measures how long a node takes to answer at worst."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self._node = node
        self.done = threading.Event()
        self.worst = 0.0

    def run(self) -> None:
        with self._node.client() as client:
            client.connection_pool.connection_kwargs["socket_timeout"] = None
            while not self.done.wait(_EVERY):
                began = time.perf_counter()
                client.ping()
                self.worst = max(self.worst, time.perf_counter() - began)


@contextlib.contextmanager
def _stalls(cluster: EmbeddedCluster) -> Iterator[list[_Stall]]:
    threads = [_Stall(node) for node in cluster.nodes]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        for thread in threads:
            thread.done.set()
        for thread in threads:
            thread.join()


async def _rounds(cluster: EmbeddedCluster, rounds: int) -> list[tuple[int, float, float, float]]:
    """Of each move: keys, seconds, the stalls in ms of the shard that gave and of the one that took."""
    store = Store(cluster.url, TIMEOUT_MS)
    await store.open()
    found = []
    try:
        for _ in range(rounds):
            here = store.shard_of(PROJECT)
            with _stalls(cluster) as stalls:
                said = await move(parse(cluster.url), store, PROJECT, 1 - here, lambda said: None)
            match = re.search(r": (\d+) keys moved in ([\d.]+) s", said)
            if match is None:
                raise Failed(f"unexpected: {said}")
            for thread in stalls:
                if not thread.worst:
                    raise Failed("a shard was not measured")
            gave, took = stalls[here].worst * 1000, stalls[1 - here].worst * 1000
            found.append((int(match[1]), float(match[2]), gave, took))
            await _settled(store, here)
    finally:
        await store.close()
    return found


async def _settled(store: Store, before: int) -> None:
    """Waits until this process has seen the move."""
    while store.shard_of(PROJECT) == before:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def main(items: str = "100000", rounds: str = "5") -> None:
    """Loads, moves and prints."""
    with (
        folder() as home,
        EmbeddedCluster(home, 2, fsync="everysec") as cluster,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        made = load_now(cluster.url, int(items))
        console.print(f"loaded {int(items):,} items in {made.seconds:.1f} s", style="dim")
        found = runner.run(_rounds(cluster, int(rounds)))
    rows = [
        [f"{number:,}", f"{seconds:.1f}", f"{gave:.0f}", f"{took:.1f}", f"{gave * 1000 / number:.1f}"]
        for number, seconds, gave, took in found
    ]
    columns = ("keys", "seconds", "old shard: longest answer, ms", "new shard: the same", "us per key")
    table(f"a project of {int(items):,} items moves to the other shard", columns, rows)
    stall = median(gave * 1000 / number for number, _, gave, _ in found)
    console.print(f"stall of the old shard per key, median: {stall:.1f} us (goal: {GOAL_US:.0f})")
    if stall > GOAL_US:
        raise Missed(f"the old shard stalls for {stall:.1f} us per key, over {GOAL_US:.0f}")
