"""Real workers that are killed, stalled and stopped, and a store that is killed: nothing is lost or duplicated."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinator.steps.times import IDLE_POLL_SECONDS, LEASE_MS
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from tests.support.fleets import scrape
from tests.support.stopped import stopped
from tests.support.wait import process_alive, wait_until
from tests.workers.fleet import Fleet, Flows, assert_recorded_once, chain, echo, fan, sleep

pytestmark = pytest.mark.anyio

CHAOS_FLOWS = int(os.environ.get("CHAOS_FLOWS", "60"))
"""Flows that run while workers are killed; the full size is 500."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    config = folder / "fleet.yaml"
    tools = {"until": "tests.workers.callables:until"}
    config.write_text(json.dumps({"flows": {"demo_tools": True, "tools": tools}}))
    with Fleet(
        folder / "data",
        *("--port", "0", "--frontends", "1", "--workers", "4", "--embedded-fsync", "everysec"),
        *("--drain-seconds", "10", "--config", str(config)),
    ) as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.fixture
async def flows(fleet: Fleet, request: pytest.FixtureRequest) -> AsyncIterator[Flows]:
    """Flows in a project of the test's own, with all workers up."""
    await wait_until(lambda: len(fleet.workers) == 4, what="four workers")
    store = Store(fleet.url, timeout_ms=10_000)
    await store.open()
    yield Flows(store, "t" + str(abs(hash(request.node.name)) % 10**12))
    await store.close()


def too_late(fleet: Fleet) -> float:
    """Attempts that lost their lease: rejected when they were reported, or given up before."""
    counters = scrape(fleet.port)
    return sum(
        value
        for name, value in counters.items()
        if name.startswith("coordinator_step_reports_refused_total") or name == "coordinator_steps_total{outcome=lost}"
    )


def cut_short(fleet: Fleet) -> float:
    """Attempts that were stopped, or given up; retried reports do not count as rejected."""
    counters = scrape(fleet.port)
    return sum(counters[f"coordinator_steps_total{{outcome={outcome}}}"] for outcome in ("failed", "lost"))


async def test_every_join_of_a_hundred_wide_flows_runs_once(flows: Flows) -> None:
    flow = fan(8, echo(), echo())
    made = await asyncio.gather(*(flows.create(flow) for _ in range(100)))
    for record in await flows.ended(made):
        assert_recorded_once(record, list(flow))
    done = await flows.events("step_done")
    assert len(done) == 100 * 10
    assert len({event["s"] for event in done}) == 100 * 10


async def test_an_idle_fleet_begins_steps_at_once(flows: Flows) -> None:
    waits = []
    for _ in range(40):
        (record,) = await flows.ended([await flows.create(chain(echo()))])
        (step,) = record.steps
        assert step.started_at is not None
        assert step.ready_at is not None
        waits.append(step.started_at - step.ready_at)
    # Workers that only polled their queues would take half of that time on average.
    assert statistics.median(waits) < IDLE_POLL_SECONDS * 1000 / 4, waits


async def test_no_step_is_lost_or_duplicated_while_workers_are_killed(fleet: Fleet, flows: Flows) -> None:
    flow = fan(4, sleep(20), sleep(10))
    seed = random.randrange(10**9)
    print("seed", seed)
    dice = random.Random(seed)
    made: list[int] = []
    for _ in range(CHAOS_FLOWS // 10):
        made += await asyncio.gather(*(flows.create(flow) for _ in range(10)))
        await asyncio.sleep(dice.uniform(0.0, 0.3))
        await wait_until(lambda: fleet.workers, what="a worker")
        fleet.kill(dice.choice(sorted(fleet.workers.values())))
    records = await flows.ended(made, 120)
    done = await flows.events("step_done")
    assert len({event["s"] for event in done}) == len(done), "a step was recorded twice"
    for record in records:
        if record.row.status == "failed":
            # Given up after three workers were killed under it, which can happen to any step.
            (bad,) = [step for step in record.steps if step.status == "failed"]
            assert '"poisoned"' in (bad.result_json or ""), record
            assert bad.attempt >= 4
        else:
            assert_recorded_once(record, list(flow))
    completed = sum(record.row.status == "completed" for record in records)
    assert completed > 0.9 * len(records)


async def test_the_step_of_a_killed_worker_runs_again_when_its_lease_ends(fleet: Fleet, flows: Flows) -> None:
    flow = await flows.create(chain(sleep(60_000, timeout_ms=60_000)))

    async def running(attempt: int) -> int | None:
        step = await flows.step(flow)
        return step.started_at if step.status == "running" and step.attempt == attempt else None

    await wait_until(lambda: running(1))
    holder = fleet.holder(flow + 1, flows.project)
    fleet.kill(holder)
    await wait_until(partial(_gone, holder), what="the worker's end")
    lease_ends = int(await flows.store.command("ZSCORE", keys.step_leases.key(flows.project), flow + 1))
    # By the store's clock; from then on the lease is not renewed.
    assert lease_ends <= await flows.now() + LEASE_MS
    again = await wait_until(lambda: running(2), what="the second attempt")
    assert again is not None
    # Not before the lease ends, or two workers would run it.
    assert lease_ends <= again < lease_ends + 30_000
    assert await flows.flows.cancel(flows.project, NO_KEY, flow, "test") == (True, "cancelled")


async def test_a_cancelled_step_is_stopped(fleet: Fleet, flows: Flows) -> None:
    flow = await flows.create(chain(sleep(60_000, timeout_ms=60_000)))

    async def running() -> bool:
        return (await flows.step(flow)).status == "running"

    await wait_until(running)
    before = cut_short(fleet)
    await flows.flows.cancel(flows.project, NO_KEY, flow, "test")
    # The worker is told at once, or learns it when it renews its lease, or when it reconnects after an outage.
    await wait_until(lambda: cut_short(fleet) > before, what="the stop")
    assert (await flows.step(flow)).status == "cancelled"


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.chaos)])
async def test_a_worker_that_was_stopped_goes_on(fleet: Fleet, flows: Flows, tmp_path: Path, rounds: int) -> None:
    """For longer than its lease. What it then reports of the step that it has lost is refused."""

    def until(name: str) -> dict[str, Any]:
        return {"tool": "until", "args": {"path": str(tmp_path / name)}}

    async def running(flow: int, attempt: int = 1) -> bool:
        step = await flows.step(flow)
        return (step.status, step.attempt) == ("running", attempt)

    slot, worker = next(iter(fleet.workers.items()))

    async def at_work(gate: str, made: list[int]) -> bool:
        """Whether it takes the step of one more flow."""
        made.append(await flows.create(chain(until(gate), echo("after"))))
        await wait_until(partial(running, made[-1]), what="the step to run")
        return fleet.holder(made[-1] + 1, flows.project) == worker

    def refused(before: float) -> bool:
        return too_late(fleet) > before

    for number in range(2 * rounds):
        gate, made = str(number), list[int]()
        await wait_until(partial(at_work, gate, made), what="a step for this worker")
        before, stops = too_late(fleet), number % 2 == 0
        with stopped(worker) if stops else nullcontext():
            if stops:
                await wait_until(partial(running, made[-1], 2), what="an attempt of another worker")
            (tmp_path / gate).touch()
            records = await flows.ended(made)
        for record in records:
            assert_recorded_once(record, ["start", "s1"])
        if stops:
            # It learns that it has lost the step from the answer to its report, or before.
            await wait_until(partial(refused, before), what="the refusal")
            assert (await flows.get(made[-1])).steps == records[-1].steps
    fleet.kill(worker, signal.SIGTERM)
    await wait_until(
        lambda: fleet.logged("process ended", process=f"worker {slot}", reason="it ended with exit code 0")
    )


def _gone(pid: int) -> bool:
    return not process_alive(pid)


async def test_draining_workers_leave_no_step_behind(fleet: Fleet, flows: Flows) -> None:
    flow = fan(8, sleep(100), echo())
    made = await asyncio.gather(*(flows.create(flow) for _ in range(20)))
    for pid in list(fleet.workers.values()):
        fleet.kill(pid, signal.SIGTERM)
        await wait_until(partial(_gone, pid), what="a worker to drain")
    for record in await flows.ended(made):
        assert_recorded_once(record, list(flow))
    assert await flows.events("step_lost") == []


async def test_flows_survive_a_restart_of_their_store(fleet: Fleet, flows: Flows, tmp_path: Path) -> None:
    flow = fan(4, sleep(200), sleep(100))
    made = await asyncio.gather(*(flows.create(flow) for _ in range(20)))
    await wait_until(lambda: flows.events("step_done"))
    pid = fleet.state.store_pid
    assert pid is not None
    fleet.kill(pid)
    await wait_until(lambda: fleet.state.store_pid not in (None, pid), what="the store to be started again")

    async def back() -> bool:
        try:
            return bool(await flows.store.ping() >= 0)
        except Exception:
            return False

    await wait_until(back)
    for record in await flows.ended(made):
        assert_recorded_once(record, list(flow))
