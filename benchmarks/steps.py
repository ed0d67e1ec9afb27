"""How many durable steps does a worker execute, against job queues and an engine on PostgreSQL?

Flows of five no-op steps in sequence and of eight in parallel, executed by real workers, each step
with its lease, fence, recorded result, join and event: steps per second while the middle 80 % of them
complete. In the same run, each on a separate server flushed to disk every second: no-op jobs of stock
RQ (in-process and forking) and BullMQ, steps of DBOS. A queued job is less than a step: it has no
successor and, in BullMQ and RQ, no fence. Rivals that are not installed are skipped
(``benchmarks/rivals/jobs.py`` says how to install them).

Then the cost of a step: round trips by the server's own count, CPU time, the latency of an idle fleet,
the recovery time of a killed worker's step, memory of a finished flow, and the cost of open gates.

    python -m benchmarks steps [FLOWS] [ROUNDS] [TIMES] [SECONDS]
    python -m benchmarks steps 4000 3
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

from benchmarks.rivals import jobs as rivals
from benchmarks.rivals.postgresql import postgresql
from benchmarks.support import Failed, console, cpu_us, embedded, middle, optional, percentile, table, worker
from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.rules import planner, spec
from coordinator.toolsets.flows.store.flows import FlowStore, NewFlow
from coordinator.wording import counted

PROJECT = "default"
NOOP: dict[str, Any] = {"tool": "noop"}
_MOST_SECONDS = 600.0
SIMPLE = "RQ SimpleWorker, 1 process"
GOALS = {
    SIMPLE: (8.0, 20.0),
    "RQ Worker (forking), 1 process": (40.0, 100.0),
    "DBOS steps on PostgreSQL, 16 threads": (8.0, 20.0),
    "BullMQ, concurrency 1, 1 process": (0.9, 2.0),
}
_COSTS = {"calls": 2, "worker_us": 0, "server_us": 0}
"""Of a run, with their digits."""


def chain(length: int = 5) -> spec.Flow:
    """A flow of ``length`` steps in sequence."""
    names = ["start", *(f"s{number}" for number in range(1, length))]
    follows: list[dict[str, Any]] = [*({"next": name} for name in names[1:]), {"done": True}]
    return {name: spec.Step(name=name, **NOOP, **after) for name, after in zip(names, follows, strict=True)}


def fan(width: int = 8) -> spec.Flow:
    """A step, ``width`` parallel branches, and the step that joins them."""
    names = [f"b{number}" for number in range(width)]
    return {
        "start": spec.Step(name="start", **NOOP, parallel=tuple(names)),
        **{name: spec.Step(name=name, **NOOP, join="end", fork="start") for name in names},
        "end": spec.Step(name="end", **NOOP, done=True),
    }


SHAPES = {"5-step chains": chain(), "8-way fan-outs": fan()}


class Run(NamedTuple):
    """The results of one run."""

    per_second: float
    calls: float
    """Commands of clients per step, as the server counts them."""
    worker_us: float
    server_us: float
    """CPU time per step."""


@contextlib.contextmanager
def workers(url: str, count: int) -> Iterator[list[int]]:
    """Worker processes with the no-op tool, ready; yields their ids."""
    config = {"flows": {"tools": {"noop": "benchmarks.servers.noop:step", "wait": "benchmarks.servers.noop:wait"}}}
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(worker(url, config)) for _ in range(count)]


async def create(flows: FlowStore, flow: spec.Flow, count: int) -> list[int]:
    """Creates ``count`` flows, 32 at a time."""
    packed, plan, at_once = spec.pack(spec.Spec(flow=flow, given={})), planner.begin(flow), asyncio.Semaphore(32)

    async def one() -> int:
        async with at_once:
            new = NewFlow(name="bench", creator="bench", spec=packed, steps=len(flow), plan=plan)
            return await flows.create(PROJECT, NO_KEY, new)

    return list(await asyncio.gather(*(one() for _ in range(count))))


async def completed(store: Store) -> int:
    """The number of completed flows."""
    count: int = await store.command("ZCARD", keys.flows.key(PROJECT, "c"))
    return count


async def until(store: Store, count: int) -> tuple[int, float]:
    """Waits until ``count`` flows are completed; how many then are, and when that was.

    Raises:
        Failed: a flow has failed.
    """
    while (done := await completed(store)) < count:
        if await store.command("ZCARD", keys.flows.key(PROJECT, "f")):
            raise Failed("a flow has failed")
        await asyncio.sleep(0.002)
    return done, time.perf_counter()


async def scripts(store: Store) -> int:
    """Calls of scripts since the counters were reset."""
    text = (await store.command("INFO", "commandstats")).decode()
    return int(text.partition("cmdstat_fcall:calls=")[2].partition(",")[0] or 0)


def on_store(url: str, act: Callable[[Store, FlowStore], Awaitable[Any]]) -> Any:
    """Runs a coroutine over a separate store.

    Raises:
        Failed: it does not end, for example because a worker has died.
    """

    async def run() -> Any:
        store = Store(url, timeout_ms=20_000)
        await store.open()
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                return await act(store, FlowStore(store, Settings()))
        except TimeoutError:
            raise Failed(f"it has not ended after {_MOST_SECONDS:.0f} s") from None
        finally:
            await store.close()

    return asyncio.run(run())


def throughput(shape: spec.Flow, processes: int, count: int) -> Run:
    """One run of this product, timed after all flows are created, and from 10 % of them on."""
    with embedded("everysec") as server, workers(server.url, processes) as pids:

        async def act(store: Store, flows: FlowStore) -> Run:
            await create(flows, shape, count)
            first, began = await until(store, round(count * rivals.LOW))
            await store.command("CONFIG", "RESETSTAT")
            before = [cpu_us(one) for one in (*pids, server.pid or 0)]
            last, ended = await until(store, round(count * rivals.HIGH))
            after = [cpu_us(one) for one in (*pids, server.pid or 0)]
            steps = max(last - first, 1) * len(shape)
            # Calls of scripts: apart from these, workers send only a few heartbeats.
            calls = await scripts(store) / steps
            await until(store, count)
            used = [(late - early) / steps for early, late in zip(before, after, strict=True)]
            return Run(steps / (ended - began), calls, sum(used[:-1]), used[-1])

        run: Run = on_store(server.url, act)
        return run


def _with_server(measure: Callable[[str], float]) -> Callable[[], float]:
    def run() -> float:
        with embedded("everysec") as server:
            return measure(server.url)

    return run


def _dbos(workflows: int) -> Callable[[], float]:
    def run() -> float:
        with postgresql() as server:
            return rivals.dbos_steps(server, workflows, 16)

    return run


# --- what a step costs ------------------------------------------------------------------------------


async def latency(store: Store, flows: FlowStore, times: int) -> list[int]:
    """Milliseconds from ready to started, one flow at a time on an idle worker."""
    waits = []
    for number in range(times):
        (made,) = await create(flows, chain(1), 1)
        await until(store, number + 1)
        found = await flows.get(PROJECT, made)
        step = found.steps[0] if found is not None else None
        if step is None or step.started_at is None or step.ready_at is None:
            raise Failed("a step has no times")
        waits.append(step.started_at - step.ready_at)
    return waits


async def _until_attempt(store: Store, key: bytes, attempt: bytes) -> None:
    while await store.command("HMGET", key, "f", "s") != [attempt, b"r"]:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def recovery() -> int:
    """Milliseconds from the SIGKILL of a worker to the next attempt of its step."""
    with embedded("everysec") as server, workers(server.url, 2):

        async def act(store: Store, flows: FlowStore) -> int:
            (made,) = await create(flows, {"start": spec.Step(name="start", tool="wait", done=True)}, 1)
            key = keys.step.key(PROJECT, str(made + 1))
            await _until_attempt(store, key, b"1")
            holder = int((await store.command("HGET", key, "w")).decode().rsplit(".", 2)[1])
            seconds, micros = await store.command("TIME")
            os.kill(holder, signal.SIGKILL)
            await _until_attempt(store, key, b"2")
            began = int(await store.command("HGET", key, "b"))
            await flows.cancel(PROJECT, NO_KEY, made, "bench")
            return began - int(seconds) * 1000 - int(micros) // 1000

        found: int = on_store(server.url, act)
        return found


async def memory(store: Store, flows: FlowStore, count: int) -> float:
    """Bytes of a finished flow of five steps, without events."""

    async def used() -> int:
        total = int((await store.command("INFO", "memory")).split(b"used_memory_dataset:")[1].split(b"\r")[0])
        return total - int(await store.command("MEMORY", "USAGE", keys.events.key(PROJECT), "SAMPLES", 0) or 0)

    async def finish(some: int) -> None:
        done = await completed(store)
        await create(flows, chain(), some)
        await until(store, done + some)

    await finish(50)
    before = await used()
    await finish(count)
    await asyncio.sleep(1)
    return (await used() - before) / count


async def gates(store: Store, flows: FlowStore, count: int, seconds: float, *pids: int) -> tuple[float, float]:
    """CPU time per second of processes, without and with ``count`` open gates."""
    gate = {"start": spec.Step(name="start", gate=True, timeout_ms=0, done=True)}

    async def use() -> float:
        before = sum(map(cpu_us, pids))
        await asyncio.sleep(seconds)
        return (sum(map(cpu_us, pids)) - before) / 1e6 / seconds

    await create(flows, gate, 1)  # the project is swept in both cases
    empty = await use()
    await create(flows, gate, count)
    await asyncio.sleep(1)
    return empty, await use()


def _costs(times: int, seconds: float) -> None:
    """Measures what a step costs apart from throughput, and prints."""
    with embedded("everysec") as server, workers(server.url, 1) as (pid,):

        async def act(store: Store, flows: FlowStore) -> None:
            waits = await latency(store, flows, times)
            p50, p99 = percentile(waits, 0.5), percentile(waits, 0.99)
            console.print(f"ready to started, idle: p50 {p50:.0f} ms, p99 {p99:.0f} ms (goal < 50 ms)")
            size, many = await memory(store, flows, 10 * times), 50 * times
            console.print(f"a finished flow of 5 steps: {size:,.0f} bytes (goal <= 1,500)")
            idle, full = await gates(store, flows, many, seconds, pid, server.pid or 0)
            console.print(f"CPU time of an idle worker and its store: {idle:.1%}, with {many:,} open gates {full:.1%}")

        on_store(server.url, act)
    console.print(f"the step of a killed worker runs again after {recovery() / 1000:.1f} s (goal <= 6 s)\n")


def main(flows: str = "1000", rounds: str = "1", times: str = "200", seconds: str = "5") -> None:
    """Measures and prints."""
    count, many = int(flows), int(rounds)
    ours: dict[tuple[str, int], list[Run]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(many):
        for shape, flow in SHAPES.items():
            for processes in (1, 2):
                ours.setdefault((shape, processes), []).append(throughput(flow, processes, count))
        for name, measure in {
            SIMPLE: _with_server(lambda url: rivals.rq_jobs(url, "rq.SimpleWorker", 1, count)),
            "RQ SimpleWorker, 2 processes": _with_server(lambda url: rivals.rq_jobs(url, "rq.SimpleWorker", 2, count)),
            "RQ Worker (forking), 1 process": _with_server(lambda url: rivals.rq_jobs(url, "rq.Worker", 1, count // 4)),
            "BullMQ, concurrency 1, 1 process": _with_server(lambda url: rivals.bullmq_jobs(url, 1, count * 5, 1)),
            "DBOS steps on PostgreSQL, 16 threads": _dbos(max(count // 10, 20)),
        }.items():
            with optional(name):
                theirs.setdefault(name, []).append(measure())
    theirs = {name: rates for name, rates in theirs.items() if rates}
    simple = median(theirs[SIMPLE])
    rows = []
    for (shape, processes), runs in ours.items():
        rate = middle(runs, "per_second")
        name = f"{shape}, {counted(processes, 'worker process', 'worker processes')}"
        costs = [f"{middle(runs, figure):.{digits}f}" for figure, digits in _COSTS.items()]
        rows.append((name, f"{rate:,.0f}", f"{rate / simple:.1f}x", *costs))
    for name, rates in theirs.items():
        rows.append((name, f"{median(rates):,.0f}", f"{median(rates) / simple:.1f}x", "", "", ""))
    table(
        f"Steps and jobs that do nothing, median of {many}",
        ("who", "per second", "of SimpleWorker", "calls/step", "worker CPU us", "server CPU us"),
        rows,
    )
    best = min(middle(runs, "per_second") for (_, processes), runs in ours.items() if processes == 1)
    for name, (first, then) in GOALS.items():
        if name in theirs:
            console.print(f"{best / median(theirs[name]):.1f}x {name} (goal >= {first}x, then {then}x)")
    _costs(int(times), float(seconds))
