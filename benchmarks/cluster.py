"""Does a cluster of several shards do as much more as it has shards, and what does each shard cost a front-end?

Agents over HTTP claim, start and complete items of one project on each shard, as in ``loop``, over one front-end, on
clusters of embedded servers without replicas:

- The store's CPU time per finished item, of all nodes together, with three shards against one, with the same projects
  and agents on both: one project after the other, so that as many servers run at a time on both, and all at once, when
  three servers share the cores and their caches and each of them answers fewer calls at a time. Each round starts new
  clusters; ratios are medians of the rounds' ratios.
- The commands that nodes execute while agents work on a project that is elsewhere (commandstats): claims, starts and
  completions must not take any.
- Finished items per second with one, two and three of three shards busy. Each server process is paused for 17 of 20 ms
  (``throttle``), so that the servers are the limit and not the two cores that they share with front-end and agents.
- A front-end's memory and connections with one, three and eight shards, after work on each of them.

    python -m benchmarks cluster [ROUNDS] [ITEMS] [SECONDS] [SHARDS]
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import uvloop

from benchmarks.loop import TAG, HandWritten
from benchmarks.support import (
    Failed,
    FrontEnd,
    Missed,
    add_items,
    console,
    cpu_us,
    folder,
    front_end,
    in_turns,
    memory,
    middle,
    ratio,
    running,
    table,
)
from benchmarks.throttle import PERIOD_MS, RUN_MS
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.link.slot_map import SLOTS, slot_of

SHARDS = 3
AGENTS = 16
"""For each project."""
BUSY_AGENTS = 48
"""The same where servers are paused: more than they answer each time that they run."""
COSTS_MOST = 1.10
FOREIGN_MOST = 0.1
"""Commands per item. A call that needed another shard would run at least one there for each item."""
SCALES_WITHIN = 0.20
_OWN = ("info", "config|resetstat", "client|setinfo", "auth", "hello")
"""Commands of the measuring client itself."""


class Side(NamedTuple):
    """A cluster, and a front-end on it."""

    cluster: EmbeddedCluster
    front: FrontEnd

    @property
    def store_us(self) -> float:
        """CPU time of all nodes so far."""
        return sum(cpu_us(node.pid or 0) for node in self.cluster.nodes)


@contextlib.contextmanager
def _side(shards: int) -> Iterator[Side]:
    with (
        folder() as home,
        EmbeddedCluster(home, shards, fsync="everysec") as cluster,
        front_end(cluster.url, redis_timeout_ms=1500) as front,
    ):
        yield Side(cluster, front)


def project_on(shard: int, shards: int) -> str:
    """The name of a project whose keys are on a shard of so many."""
    names = map("team-{}".format, itertools.count())
    return next(name for name in names if slot_of(name) * shards // SLOTS == shard)


async def _work(port: int, projects: Sequence[str], agents: int, until: float) -> int:
    """Has so many agents of each project finish items; returns how many they have finished."""

    async def agent(project: str, number: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        done = await HandWritten(f"agent-{number}", reader, writer, project=project).work(until)
        writer.close()
        return done

    return sum(await asyncio.gather(*(agent(project, number) for project in projects for number in range(agents))))


class Cost(NamedTuple):
    """CPU time per finished item, in us."""

    store: float
    front_end: float


def _finish(side: Side, projects: Sequence[str], items: int, at_once: bool = False) -> Cost:
    """What items cost while agents finish so many of each project, one project after the other or all at once."""
    for project in projects:
        add_items(side.front.port, items, project=project, tags=TAG)
    before = side.store_us, cpu_us(side.front.pid)
    turns = [projects] if at_once else [[project] for project in projects]
    done = sum(uvloop.run(_work(side.front.port, turn, AGENTS, math.inf)) for turn in turns)
    if done != items * len(projects):
        raise Failed(f"{done} of {items * len(projects)} items were completed")
    return Cost((side.store_us - before[0]) / done, (cpu_us(side.front.pid) - before[1]) / done)


def _costs(rounds: int, items: int) -> str:
    """Compares the CPU time per item; returns what is wrong."""
    projects = [project_on(shard, SHARDS) for shard in range(SHARDS)]
    found: dict[tuple[bool, int], list[Cost]] = {(way, shards): [] for way in (False, True) for shards in (1, SHARDS)}
    for number in range(rounds):
        with contextlib.ExitStack() as stack:
            sides = {shards: stack.enter_context(_side(shards)) for shards in (1, SHARDS)}
            for side in sides.values():
                _finish(side, projects, items // 4)  # warms up
            for way in (False, True):
                for shards, side in in_turns(sides.items(), number + 1):
                    found[way, shards].append(_finish(side, projects, items, way))
    rows: list[tuple[object, ...]] = []
    growth = 0.0
    for way, title in ((True, "all at once"), (False, "one after the other")):
        one, many = found[way, 1], found[way, SHARDS]
        growth = ratio(many, one, "store")
        for shards, costs in ((1, one), (SHARDS, many)):
            store, front = (f"{middle(costs, figure):.0f}" for figure in Cost._fields)
            rows.append((f"{title}, {shards} shards", store, "" if shards == 1 else f"{growth:.2f}x", front))
    title = f"{SHARDS} projects of {items:,} items, {AGENTS} agents each, median of {rounds} rounds"
    table(title, ("projects", "store CPU us/item", "ratio, by round", "front-end CPU us/item"), rows)
    console.print(f"goal: one after the other, the store's within {COSTS_MOST:.2f}x\n")
    return f"an item costs {growth:.2f}x with {SHARDS} shards" if growth > COSTS_MOST else ""


def _commands(node: Node) -> Counter[str]:
    """What a node has executed since its counters were reset, commands inside scripts included."""
    with node.client() as client:
        stats = client.info("commandstats")
    return Counter(
        {name.removeprefix("cmdstat_"): int(one["calls"]) for name, one in stats.items() if name[8:] not in _OWN}
    )


def _executed(side: Side) -> list[Counter[str]]:
    found = [_commands(node) for node in side.cluster.nodes]
    for node in side.cluster.nodes:
        with node.client() as client:
            client.config_resetstat()
    return found


def _foreign(side: Side, items: int) -> str:
    """Counts commands on shards that do not have the project; returns what is wrong."""
    rows, wrong = [], ""
    projects = [project_on(shard, SHARDS) for shard in range(SHARDS)]
    _finish(side, projects, min(items, 100))
    for shard, project in enumerate(projects):
        add_items(side.front.port, items, project=project, tags=TAG)
        _executed(side)
        began = time.monotonic()
        uvloop.run(_work(side.front.port, [project], AGENTS, math.inf))
        took = time.monotonic() - began
        busy = _executed(side)
        time.sleep(took)
        idle = _executed(side)
        for node in range(SHARDS):
            each = busy[node].total() / items
            rows.append((shard, node, f"{busy[node]['fcall'] / items:.2f}", f"{each:.2f}", idle[node].total()))
            if node != shard and each > FOREIGN_MOST:
                wrong = f"work on shard {shard} runs {each:.2f} commands per item on shard {node}"
    columns = ("work on shard", "commands on shard", "scripts per item", "commands per item", "all, when idle as long")
    table(f"{AGENTS} agents finish {items:,} items of one project", columns, rows)
    console.print("goal: none on other shards; what remains there are tasks of the fleet, by the clock\n")
    return wrong


@contextlib.contextmanager
def _throttled(nodes: Sequence[Node]) -> Iterator[None]:
    pids = [node.pid or 0 for node in nodes]
    try:
        with running("benchmarks.throttle", *map(str, pids), ready=b"ready"):
            yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _scale(side: Side, rounds: int, seconds: float) -> str:
    """Compares one, two and three busy shards; returns what is wrong."""
    projects = [project_on(shard, SHARDS) for shard in range(SHARDS)]
    rates: dict[int, list[float]] = {busy: [] for busy in range(1, SHARDS + 1)}
    costs: dict[int, list[float]] = {busy: [] for busy in rates}
    enough = int(3 * 1000 / PERIOD_MS * RUN_MS * seconds)
    for number in range(rounds):
        for busy in in_turns(rates, number + 1):
            for project in projects[:busy]:
                add_items(side.front.port, enough, project=project, tags=TAG)
            with _throttled(side.cluster.nodes):
                before = side.store_us
                work = _work(side.front.port, projects[:busy], BUSY_AGENTS, time.monotonic() + seconds)
                done = max(uvloop.run(work), 1)
                rates[busy].append(done / seconds)
                costs[busy].append((side.store_us - before) / done)
            uvloop.run(_work(side.front.port, projects[:busy], BUSY_AGENTS, math.inf))
    ratios = {busy: ratio(found, rates[1]) for busy, found in rates.items()}
    rows = [
        (busy, f"{median(found):,.0f}", f"{ratios[busy]:.2f}x", f"{median(costs[busy]):.0f}")
        for busy, found in rates.items()
    ]
    columns = ("busy shards", "items/s", "ratio, by round", "store CPU us/item")
    table(f"Each server runs {RUN_MS:.0f} of {PERIOD_MS:.0f} ms, median of {rounds} rounds", columns, rows)
    console.print(f"goal: 1 : 2 : 3 within {SCALES_WITHIN:.0%}\n")
    off = [busy for busy, more in ratios.items() if abs(more / busy - 1) > SCALES_WITHIN]
    return f"{off} busy shards do not do as much more" if off else ""


def _sizes(items: int, sizes: Sequence[int]) -> None:
    rows: list[tuple[object, ...]] = []
    first: tuple[int, int] | None = None
    for shards in sizes:
        with _side(shards) as side:
            projects = [project_on(shard, shards) for shard in range(shards)]
            _finish(side, projects, items // shards)
            connections = 0
            for node in side.cluster.nodes:
                with node.client() as client:
                    connections += int(client.info("clients")["connected_clients"]) - 1
            size = memory(side.front.pid)
        first = first or (shards, size)
        more = f"{(size - first[1]) / 2**10 / (shards - first[0]):,.0f}" if shards > first[0] else ""
        rows.append((shards, f"{size / 2**20:.1f}", more, connections))
    table("A front-end", ("shards", "memory MB", "KB for each further shard", "connections to the store"), rows)
    console.print("")


def main(rounds: str = "5", items: str = "500", seconds: str = "5", sizes: str = "1,3,8") -> None:
    """Measures and prints all.

    Raises:
        Missed: a goal was missed.
    """
    found = [_costs(int(rounds), int(items))]
    with _side(SHARDS) as side:
        found += [_foreign(side, int(items)), _scale(side, int(rounds), float(seconds))]
    _sizes(int(items), [int(size) for size in sizes.split(",")])
    if wrong := "; ".join(filter(None, found)):
        raise Missed(wrong)
