"""What does the gateway add to a step, and is search quick with ten thousand entries?

One front-end and one worker on a separate server. Clients with a connection each make four kinds of
calls in turn in the same run: a plain call that writes (claim_item, a heartbeat), a submit without an
executor, a submit through a no-op executor, and, without HTTP, a flow of one no-op step from its
creation to its recorded end, which is the raw step path below the third. Prints p50 and p99 as the
client sees them, calls per second, and CPU time of both processes. Their calls are bare, so that as little of a client
as possible is in the times.

Then builds the index over a catalogue of 10,000 generated entries and times queries of one to four
terms (whole words, prefixes, typos, single letters), in process.

    python -m benchmarks gateway [CALLS] [QUERIES] [ENTRIES]
    python -m benchmarks gateway 2000 5000
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from benchmarks.steps import NOOP, on_store
from benchmarks.support import Failed, ToolCalls, console, cpu_us, embedded, front_end, milliseconds, table, worker
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.rules import planner, spec
from coordinator.toolsets.flows.store.flows import FlowStore, NewFlow
from coordinator.toolsets.gateway.rules.search import Index, SearchEntry

PROJECT = "default"
GOAL_MS = 20.0
_LOOP: dict[str, Any] = {
    "initialState": "ready",
    "states": {
        "ready": {
            "transitions": {
                "nothing": {"target": "ready"},
                "noop": {"target": "ready", "executor": {"kind": "noop"}},
            }
        }
    },
}
_CONFIG = {
    "flows": {"tools": {"noop": "benchmarks.servers.noop:step"}},
    "gateway": {"version": "1.0.0", "workflows": {"loop": _LOOP}},
}
_ids = itertools.count(1)


class Client:
    """One connection, one workflow instance, one claimed item."""

    def __init__(self, port: int, number: int) -> None:
        self._tools = ToolCalls(port)
        self._actor = {"id": f"bench-{number}", "kind": "subagent"}
        made = self._tools.ask("items", "manage_items", operation="create", items=[{"title": "bench"}])
        self._item = made["items"][0]["id"]
        self.heartbeat()
        self._at = self._tools.ask("gateway", "workflow.start", definitionId="loop", input={})

    def heartbeat(self) -> None:
        """A plain call that writes."""
        claim = {"itemId": self._item, "ttlSeconds": 900}
        self._tools.ask("items", "claim_item", actor=self._actor, requestId=f"{next(_ids):032x}", claims=[claim])

    def submit(self, transition: str) -> None:
        """Takes a transition of its workflow."""
        asked = {"workflowId": self._at["workflowId"], "expectedVersion": self._at["version"]}
        self._at = self._tools.ask("gateway", "workflow.submit", **asked, transition=transition, arguments={})

    def close(self) -> None:
        """Closes the connection."""
        self._tools.close()


CALLS: Mapping[str, Callable[[Client], None]] = {
    "claim_item, a heartbeat": Client.heartbeat,
    "submit, nothing executed": lambda client: client.submit("nothing"),
    "submit, no-op executor": lambda client: client.submit("noop"),
}


class Measured(NamedTuple):
    """The cost of a series of calls."""

    waits: list[float]
    seconds: float
    frontend: float
    worker: float


def measured(act: Callable[[int], list[float]], at_once: int, frontend: int, worker: int) -> Measured:
    """Runs ``act`` in so many threads at once."""
    before = cpu_us(frontend), cpu_us(worker)
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        waits = [wait for waits in pool.map(act, range(at_once)) for wait in waits]
    seconds = time.perf_counter() - began
    return Measured(waits, seconds, cpu_us(frontend) - before[0], cpu_us(worker) - before[1])


def timed(act: Callable[[], None], count: int) -> list[float]:
    """How long each of so many calls takes."""
    waits = []
    for _ in range(count):
        began = time.perf_counter()
        act()
        waits.append(time.perf_counter() - began)
    return waits


async def _ended(store: Store, key: bytes) -> None:
    """Waits for the end of a flow by busy polling; for benchmarks only."""
    while await store.command("HGET", key, "s") != b"c":  # noqa: ASYNC110
        await asyncio.sleep(0.0005)


def raw_steps(url: str, count: int, at_once: int) -> list[float]:
    """How long flows of one step take from their creation to their recorded end."""
    flow = {"start": spec.Step(name="start", **NOOP, done=True)}
    packed, plan = spec.pack(spec.Spec(flow=flow, given={})), planner.begin(flow)

    async def run(store: Store, flows: FlowStore) -> list[float]:
        async def one() -> list[float]:
            waits = []
            for _ in range(count // at_once):
                began = time.perf_counter()
                new = NewFlow(name="bench", creator="bench", spec=packed, steps=1, plan=plan)
                made = await flows.create(PROJECT, NO_KEY, new)
                key = keys.run.key(PROJECT, str(made))
                await _ended(store, key)
                waits.append(time.perf_counter() - began)
            return waits

        return [wait for waits in await asyncio.gather(*(one() for _ in range(at_once))) for wait in waits]

    found: list[float] = on_store(url, run)
    return found


def _row(name: str, found: Measured, base: float) -> list[str]:
    waits = found.waits
    p50, p99 = (milliseconds(waits, share) for share in (0.5, 0.99))
    rate = len(waits) / found.seconds
    cpu = [f"{spent / len(waits):,.0f}" for spent in (found.frontend, found.worker)]
    return [name, f"{p50:.2f}", f"{p99:.2f}", f"{rate:,.0f}", f"{rate / base:.2f}" if base else "1.00", *cpu]


def compare(calls: int) -> None:
    """Compares the four kinds of calls, with one client and with sixteen."""
    with (
        embedded("everysec") as server,
        front_end(server.url, config=_CONFIG) as front,
        worker(server.url, _CONFIG) as pid,
    ):
        for at_once in (1, 16):
            _beside(front.port, server.url, (front.pid, pid), calls, at_once)


def _beside(port: int, url: str, pids: tuple[int, int], calls: int, at_once: int) -> None:
    """Compares the four kinds of calls, with ``at_once`` clients."""
    clients = [Client(port, number) for number in range(at_once)]
    each = max(1, calls // at_once)
    rows: list[list[str]] = []
    base = 0.0
    for name, act in CALLS.items():

        def run(number: int, act: Callable[[Client], None] = act) -> list[float]:
            return timed(lambda: act(clients[number]), each)

        measured(run, at_once, *pids)  # warms up
        found = measured(run, at_once, *pids)
        rows.append(_row(name, found, base))
        base = base or len(found.waits) / found.seconds
    found = measured(lambda _: raw_steps(url, calls, at_once), 1, *pids)
    rows.append(_row("raw step, no HTTP", found, base))
    for client in clients:
        client.close()
    columns = ["call", "p50 ms", "p99 ms", "per second", "of a plain call", "front-end µs", "worker µs"]
    table(f"{at_once} at once", columns, rows)


def made_up(count: int, seed: int = 7) -> list[SearchEntry]:
    """Entries like those of a big catalogue of imported tools."""
    pick = random.Random(seed)
    syllables = ["ac", "ber", "con", "del", "ex", "fra", "gen", "hub", "in", "jo", "kit", "list", "mon", "ner", "op"]
    words = ["".join(pick.choices(syllables, k=pick.randint(1, 4))) for _ in range(6_000)]
    words += ["deploy", "create", "issue", "list", "update", "delete", "search", "repository", "pipeline", "user"]
    usual = words[-10:]

    def some(least: int, most: int) -> list[str]:
        return [pick.choice(usual if pick.random() < 0.2 else words) for _ in range(pick.randint(least, most))]

    return [
        SearchEntry(
            f"{pick.choice(words)}.{pick.choice(usual)}_{number}",
            pick.choice(("capability", "workflow")),
            " ".join(some(2, 5)),
            some(1, 4),
            some(0, 2),
            " ".join(some(8, 25)),
            " ".join(some(3, 15)),
        )
        for number in range(count)
    ]


def search(queries: int, count: int) -> None:
    """How long queries take."""
    entries = made_up(count)
    began = time.perf_counter()
    index = Index(entries)
    built = time.perf_counter() - began
    pick = random.Random(11)
    vocabulary = sorted({word for entry in entries for word in entry.description.split()})

    def term() -> str:
        word = pick.choice(vocabulary)
        kind = pick.random()
        if kind < 0.4:
            return word
        if kind < 0.6:
            return word[:3]
        if kind < 0.9:
            place = pick.randrange(len(word))
            return word[:place] + pick.choice("aeiou") + word[place + 1 :]
        return pick.choice("abcdefghij")

    asked = [" ".join(term() for _ in range(pick.randint(1, 4))) for _ in range(queries)]
    wall, cpu, found = [], [], 0
    for query in asked:
        began, used = time.perf_counter(), time.process_time()
        found += bool(index.search(query))
        cpu.append(time.process_time() - used)
        wall.append(time.perf_counter() - began)
    if not found:
        raise Failed("no query has found anything")
    rows = []
    for name, waits in (("as waited for", wall), ("CPU time", cpu)):
        p50, p99, most = (milliseconds(waits, share) for share in (0.5, 0.99, 0.9999))
        rows.append([name, f"{p50:.2f}", f"{p99:.2f}", f"{most:.2f}"])
    table(
        f"search over {count:,} entries, {queries:,} queries; index built in {built:.1f} s",
        ["", "p50 ms", "p99 ms", "slowest ms"],
        rows,
    )
    p99 = milliseconds(wall, 0.99)
    verdict = "[green]holds[/green]" if p99 < GOAL_MS else "[red]missed[/red] (on a busy machine look at the CPU time)"
    console.print(f"goal: p99 under {GOAL_MS:g} ms: {verdict}")


def main(calls: str = "400", queries: str = "2000", entries: str = "10000") -> None:
    """Runs both parts."""
    compare(int(calls))
    search(int(queries), int(entries))
