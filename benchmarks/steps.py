"""How many durable steps does a worker execute, against job queues and an engine on PostgreSQL?

Flows of five no-op steps in sequence and of eight in parallel, executed by real workers, each step
with its lease, fence, recorded result, join and event: steps per second while the middle 80 % of them
complete. In the same run, each on a separate server flushed to disk every second: no-op jobs of stock
RQ (in-process and forking) and BullMQ, steps of DBOS. A queued job is less than a step: it has no
successor and, in BullMQ and RQ, no fence. Rivals that are not installed are skipped
(``benchmarks/rivals/jobs.py`` says how to install them).

Then the cost of a step: round trips by the server's own count, CPU time, the latency of an idle fleet,
the recovery time of a killed worker's step, memory of a finished flow, and the cost of open gates.

    python -m benchmarks steps [FLOWS] [ROUNDS]
    python -m benchmarks steps 4000 3
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.rivals import jobs as rivals
from benchmarks.rivals.postgresql import postgresql
from benchmarks.support import Missing, console, cpu_seconds, embedded, percentile, table, worker
from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.rules import planner, spec
from coordinator.toolsets.flows.store.flows import FlowStore, NewFlow

PROJECT = "default"
NOOP: dict[str, Any] = {"tool": "noop"}
_MOST_SECONDS = 600.0


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
    tools = 'noop: "benchmarks.servers.noop:step", wait: "benchmarks.servers.noop:wait"'
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder, contextlib.ExitStack() as stack:
        config = Path(folder) / "fleet.yaml"
        config.write_text(f"flows: {{tools: {{{tools}}}}}\n")
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


async def until(store: Store, count: int) -> None:
    """Waits until ``count`` flows are completed."""
    while True:
        if await completed(store) >= count:
            return
        await asyncio.sleep(0.002)


async def stats(store: Store) -> dict[str, int]:
    """Calls by command."""
    text = (await store.command("INFO", "commandstats")).decode()
    lines = [line.split(":", 1) for line in text.splitlines() if line.startswith("cmdstat_")]
    return {name.removeprefix("cmdstat_"): int(rest.split("calls=")[1].split(",")[0]) for name, rest in lines}


def on_store(url: str, act: Callable[[Store, FlowStore], Awaitable[Any]]) -> Any:
    """Runs a coroutine over a separate store.

    Raises:
        TimeoutError: it does not end, for example because a worker has died.
    """

    async def run() -> Any:
        store = Store(url, timeout_ms=20_000)
        await store.open()
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                return await act(store, FlowStore(store, Settings()))
        finally:
            await store.close()

    return asyncio.run(run())


def throughput(shape: spec.Flow, processes: int, count: int) -> Run:
    """One run of this product, timed after all flows are created, and from 10 % of them on."""
    with embedded("everysec") as server, workers(server.url, processes) as pids:

        async def act(store: Store, flows: FlowStore) -> Run:
            pid = int((await store.command("INFO", "server")).split(b"process_id:")[1].split(b"\r")[0])
            await create(flows, shape, count)
            first, began = await completed(store), time.perf_counter()
            while first < count * rivals.LOW:
                await asyncio.sleep(0.002)
                first, began = await completed(store), time.perf_counter()
            await store.command("CONFIG", "RESETSTAT")
            before = [cpu_seconds(one) for one in (*pids, pid)]
            await until(store, round(count * rivals.HIGH))
            last, ended = await completed(store), time.perf_counter()
            after = [cpu_seconds(one) for one in (*pids, pid)]
            steps = (last - first) * len(shape)
            # Calls of scripts: apart from these, workers send only a few heartbeats.
            calls = (await stats(store)).get("fcall", 0) / steps
            await until(store, count)
            used = [(late - early) / steps * 1e6 for early, late in zip(before, after, strict=True)]
            return Run(steps / (ended - began), calls, sum(used[:-1]), used[-1])

        run: Run = on_store(server.url, act)
        return run


def rival(name: str, measure: Callable[[], float]) -> float | None:
    """A rival's throughput, or None with the reason printed."""
    try:
        return measure()
    except Missing as reason:
        console.print(f"{name}: left out, {reason}", markup=False)
        return None


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


def latency(times: int = 200) -> list[int]:
    """Milliseconds from ready to started, one flow at a time on an idle worker."""
    with embedded("everysec") as server, workers(server.url, 1):

        async def act(store: Store, flows: FlowStore) -> list[int]:
            waits = []
            for number in range(times):
                (made,) = await create(flows, chain(1), 1)
                await until(store, number + 1)
                found = await flows.get(PROJECT, made)
                step = found.steps[0] if found is not None else None
                if step is None or step.started_at is None or step.ready_at is None:
                    raise RuntimeError("a step has no times")
                waits.append(step.started_at - step.ready_at)
            return waits

        waits: list[int] = on_store(server.url, act)
        return waits


async def _until_attempt(store: Store, key: bytes, attempt: bytes) -> None:
    while True:
        if await store.command("HMGET", key, "f", "s") == [attempt, b"r"]:
            return
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


def memory(count: int = 2000) -> float:
    """Bytes of a finished flow of five steps, without events."""
    with embedded("everysec") as server, workers(server.url, 1):

        async def used(store: Store) -> int:
            total = int((await store.command("INFO", "memory")).split(b"used_memory_dataset:")[1].split(b"\r")[0])
            return total - int(await store.command("MEMORY", "USAGE", keys.events.key(PROJECT), "SAMPLES", 0) or 0)

        async def act(store: Store, flows: FlowStore) -> float:
            await create(flows, chain(), 50)
            await until(store, 50)
            before = await used(store)
            await create(flows, chain(), count)
            await until(store, count + 50)
            await asyncio.sleep(1)
            return (await used(store) - before) / count

        each: float = on_store(server.url, act)
        return each


def gates(count: int = 10_000, seconds: float = 5.0) -> tuple[float, float]:
    """CPU time per second of server and worker, without and with ``count`` open gates."""
    with embedded("everysec") as server, workers(server.url, 1) as (pid,):

        async def act(store: Store, flows: FlowStore) -> tuple[float, float]:
            own = int((await store.command("INFO", "server")).split(b"process_id:")[1].split(b"\r")[0])

            async def use() -> float:
                before = cpu_seconds(own) + cpu_seconds(pid)
                await asyncio.sleep(seconds)
                return (cpu_seconds(own) + cpu_seconds(pid) - before) / seconds

            # The project is swept in both cases.
            await create(flows, {"start": spec.Step(name="start", gate=True, timeout_ms=0, done=True)}, 1)
            empty = await use()
            await create(flows, {"start": spec.Step(name="start", gate=True, timeout_ms=0, done=True)}, count)
            await asyncio.sleep(1)
            return empty, await use()

        found: tuple[float, float] = on_store(server.url, act)
        return found


def main(flows: str = "1000", rounds: str = "1") -> None:
    """Measures and prints."""
    count, many = int(flows), int(rounds)
    ours: dict[tuple[str, int], list[Run]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(many):
        for shape, flow in SHAPES.items():
            for processes in (1, 2):
                ours.setdefault((shape, processes), []).append(throughput(flow, processes, count))
        for name, measure in {
            "RQ SimpleWorker, 1 process": _with_server(lambda url: rivals.rq_jobs(url, "rq.SimpleWorker", 1, count)),
            "RQ SimpleWorker, 2 processes": _with_server(lambda url: rivals.rq_jobs(url, "rq.SimpleWorker", 2, count)),
            "RQ Worker (forking), 1 process": _with_server(lambda url: rivals.rq_jobs(url, "rq.Worker", 1, count // 4)),
            "BullMQ, concurrency 1, 1 process": _with_server(lambda url: rivals.bullmq_jobs(url, 1, count * 5, 1)),
            "DBOS steps on PostgreSQL, 16 threads": _dbos(max(count // 10, 20)),
        }.items():
            rate = rival(name, measure)
            if rate is not None:
                theirs.setdefault(name, []).append(rate)
    simple = median(theirs["RQ SimpleWorker, 1 process"])
    rows = []
    for (shape, processes), runs in ours.items():
        rate = median([run.per_second for run in runs])
        name = f"{shape}, {processes} worker process{'es' if processes > 1 else ''}"
        costs = [f"{median([run[at] for run in runs]):.{digits}f}" for at, digits in ((1, 2), (2, 0), (3, 0))]
        rows.append((name, f"{rate:,.0f}", f"{rate / simple:.1f}x", *costs))
    for name, rates in theirs.items():
        rows.append((name, f"{median(rates):,.0f}", f"{median(rates) / simple:.1f}x", "", "", ""))
    table(
        f"Steps and jobs that do nothing, median of {many}",
        ("who", "per second", "of SimpleWorker", "calls/step", "worker CPU us", "server CPU us"),
        rows,
    )
    best = min(median([run.per_second for run in runs]) for (_, processes), runs in ours.items() if processes == 1)
    goals = {
        "RQ SimpleWorker, 1 process": (8.0, 20.0),
        "RQ Worker (forking), 1 process": (40.0, 100.0),
        "DBOS steps on PostgreSQL, 16 threads": (8.0, 20.0),
        "BullMQ, concurrency 1, 1 process": (0.9, 2.0),
    }
    for name, (first, then) in goals.items():
        if name in theirs:
            console.print(f"{best / median(theirs[name]):.1f}x {name} (goal >= {first}x, then {then}x)")
    waits = latency()
    p50, p99 = percentile(waits, 0.5), percentile(waits, 0.99)
    console.print(f"ready to started, idle: p50 {p50:.0f} ms, p99 {p99:.0f} ms (goal < 50 ms)")
    console.print(f"the step of a killed worker runs again after {recovery() / 1000:.1f} s (goal <= 6 s)")
    console.print(f"a finished flow of 5 steps: {memory():,.0f} bytes (goal <= 1,500)")
    empty, full = gates()
    console.print(f"CPU time of an idle worker and its store: {empty:.1%}, with 10,000 open gates {full:.1%}\n")
