"""Interoperation of workers: with stock RQ workers, workers of an earlier release, and queues in another Redis."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import workers
from coordinator.settings import Settings
from coordinator.settings.sections.steps import StepSettings
from coordinator.steps.handoff import QUEUE
from coordinator.steps.queue_place import queues_of
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.idempotency import NO_KEY
from tests.support.fleets import RunningCommand, environment
from tests.support.wait import wait_until, wait_until_sync
from tests.tracing.collector import Collector
from tests.workers import bench
from tests.workers.fleet import Flows, assert_recorded_once, chain, echo, fan, sleep

# isort: split
from rq import Worker
from rq.command import send_stop_job_command
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry
from rq.serializers import JSONSerializer

pytestmark = pytest.mark.anyio
OLD = Path(__file__).parent / "old_worker.py"


@pytest.fixture
async def flows(server: EmbeddedServer, connection: object) -> AsyncIterator[Flows]:
    store = Store(server.url, timeout_ms=5000)
    await store.open()
    yield Flows(store)
    await store.close()


# --- stock RQ -------------------------------------------------------------------------------------


@pytest.mark.parametrize("worker_class", [pytest.param("rq.SimpleWorker", marks=pytest.mark.chaos), "rq.Worker"])
async def test_a_stock_worker_executes_steps(
    server: EmbeddedServer, flows: Flows, tmp_path: Path, worker_class: str
) -> None:
    flow = chain(echo(1), echo([2])) if worker_class == "rq.Worker" else fan(2, echo(), echo([2]))
    made = await flows.create(flow)
    done = await asyncio.to_thread(_work, server, tmp_path, worker_class)
    assert done.returncode == 0, done.stderr
    (record,) = await flows.ended([made], 1)
    assert_recorded_once(record, list(flow))
    assert record.steps[-1].result_json == "[2]"
    left = [key.decode() for key in await flows.store.command("KEYS", "fc:{RQ}:job:*")]
    assert left == []


@pytest.mark.chaos
async def test_a_stock_worker_traces_steps_if_configured(server: EmbeddedServer, flows: Flows, tmp_path: Path) -> None:
    made = await flows.create(chain(echo(1), echo(2)))
    with Collector() as collector:
        done = await asyncio.to_thread(_work, server, tmp_path, "rq.SimpleWorker", FLEET_TRACING_ENDPOINT=collector.url)
        assert done.returncode == 0, done.stderr
        await flows.ended([made], 1)
        steps = [span for span in collector.spans if span.name == "step flows"]
        assert [span.attributes["coordinator.outcome"] for span in steps] == ["ok", "ok"]
        assert all(span.process.startswith("rq-") for span in steps)
        reports = {span.parent for span in collector.spans if span.name == "script report_steps"}
        assert reports == {span.span for span in steps}


@pytest.mark.chaos
async def test_a_stock_worker_ends_a_step_that_was_cancelled(
    server: EmbeddedServer, flows: Flows, tmp_path: Path
) -> None:
    made = await flows.create(chain(sleep(600_000, timeout_ms=600_000)))
    working = asyncio.create_task(asyncio.to_thread(_work, server, tmp_path, "rq.SimpleWorker"))

    async def runs() -> bool:
        return (await flows.step(made)).status == "running"

    await wait_until(runs, what="the step to run")
    assert await flows.flows.cancel("default", NO_KEY, made, "bob") == (True, "cancelled")
    done = await working
    assert done.returncode == 0, done.stderr
    assert (await flows.step(made)).status == "cancelled"


def _work(server: EmbeddedServer, data: Path, worker_class: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a stock RQ worker until its queues are empty; ``data`` is its data directory."""
    command = [sys.executable, "-m", "rq.cli", "worker", "--burst", "--serializer", "json"]
    return subprocess.run(
        [*command, "--worker-class", worker_class, "fleet-steps.high", "fleet-steps", "fleet-steps.low"],
        env=environment(
            RQ_KEY_PREFIX=workers.RQ_PREFIX,
            RQ_REDIS_URL=server.url,
            FLEET_FLOWS_DEMO_TOOLS="true",
            FLEET_DATA_DIR=str(data),
            **more,
        ),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# --- an earlier release ---------------------------------------------------------------------------


@pytest.fixture
def old(server: EmbeddedServer, flows: Flows, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A worker with an older protocol than current steps need."""
    process = subprocess.Popen(
        [sys.executable, str(OLD), "w-8"],
        env=environment(FLEET_REDIS_URL=server.url, FLEET_FLOWS_DEMO_TOOLS="true", FLEET_DATA_DIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


async def test_a_worker_of_an_earlier_release_leaves_newer_steps_alone(
    old: subprocess.Popen[str], start: Any, flows: Flows
) -> None:
    flow = chain(echo())
    made = [await flows.create(flow) for _ in range(3)]

    async def offered() -> bool:
        # The old one has taken each once.
        return all([(await flows.step(flow)).status == "pending" for flow in made])

    await wait_until(offered)
    start(FLEET_FLOWS_DEMO_TOOLS="true")
    more = [await flows.create(flow) for _ in range(5)]
    for record in await flows.ended([*made, *more]):
        assert_recorded_once(record, ["start"])
        assert record.steps[0].attempt == 1
    assert old.poll() is None


# --- a queue in another Redis ---------------------------------------------------------------------


async def _nothing(left: Callable[[], Awaitable[list[str]]]) -> bool:
    return not await left()


async def test_flows_whose_queue_is_in_another_redis(start: Any, flows: Flows, own_server: EmbeddedServer) -> None:
    split = Settings(steps=StepSettings(queue_url=own_server.url))
    flows = Flows(flows.store, settings=split)
    running: list[RunningCommand] = [
        start(FLEET_STEPS_QUEUE_URL=own_server.url, FLEET_FLOWS_DEMO_TOOLS="true") for _ in range(2)
    ]
    flow = fan(8, echo(), echo())
    made = await asyncio.gather(*(flows.create(flow) for _ in range(30)))
    for record in await flows.ended(made):
        assert_recorded_once(record, list(flow))
    assert await flows.store.command("KEYS", "fc:{RQ}:*") == []

    # A killed worker loses none either.
    flow = fan(4, sleep(300), echo())
    made = await asyncio.gather(*(flows.create(flow) for _ in range(4)))
    await wait_until(lambda: flows.events("step_done"))
    running[0].process.kill()
    running[0].process.wait()
    for record in await flows.ended(made):
        assert_recorded_once(record, list(flow))

    other = Store(own_server.url, timeout_ms=5000)
    await other.open()

    async def left() -> list[str]:
        found = [*await other.command("KEYS", "fc:{RQ}:job:*"), *await other.command("KEYS", "fc:{RQ}:queue:*")]
        # The entries of long steps for RQ's tools expire by themselves.
        return [key.decode() for key in found if b"first_seen" not in key and await other.command("TTL", key) < 0]

    try:
        # The pointers of the killed worker are dropped by the sweep.
        await wait_until(lambda: _nothing(left), 100, "no job to be left")
        assert await queues_of(flows.store) == await other.command("GET", "fc:{RQ}:id")
    finally:
        await other.close()
    assert running[1].end() == 0
    wait_until_sync(lambda: running[1].logged("worker stopped"))


async def test_pointers_to_cancelled_steps_delay_nobody(store: Store, own_server: EmbeddedServer, alone: Store) -> None:
    """One slot takes one pointer at a time, and 128 bells are the most that ring."""
    one = bench.Bench(store, 1, Settings(steps=StepSettings(queue_url=own_server.url)), queue=alone)
    cancelled = await one.create(bench.fan(150))
    await one.flows.cancel("default", NO_KEY, cancelled, "bob")
    wanted = await one.create(bench.chain({}))
    while await one.steps.relay("default"):
        pass
    await one.start()
    assert (await one.ended(wanted)).row.status == "completed"
    await one.stop()


# --- what RQ's tools see and do -------------------------------------------------------------------


async def test_rq_shows_a_long_step_and_can_stop_it(start: Any, flows: Flows, connection: Any) -> None:
    worker = start(FLEET_FLOWS_DEMO_TOOLS="true")
    flow = await flows.create(chain(sleep(60_000, timeout_ms=60_000)))
    job_id = f"{flow}-{flow + 1}-1"

    def at() -> list[str | None]:
        return [known.get_current_job_id() for known in Worker.all(connection=connection)]

    await wait_until(lambda: at() == [job_id], what="the job to be shown")
    (known,) = Worker.all(connection=connection)
    job = Job.fetch(job_id, connection=connection, serializer=JSONSerializer)
    assert (job.get_status(), job.worker_name) == (JobStatus.STARTED, known.name)
    assert job.args == ["default", str(flow), str(flow + 1), 1]
    assert StartedJobRegistry(QUEUE, connection=connection).get_job_ids() == [job_id]
    await wait_until(lambda: Worker.all(connection=connection)[0].get_state() == "busy")

    send_stop_job_command(connection, job_id, serializer=JSONSerializer)
    (record,) = await flows.ended([flow])
    assert record.steps[0].result_json == '{"error":"the step was stopped","type":"stopped"}'
    await wait_until(lambda: not Job.exists(job_id, connection), what="the job to be hidden")
    assert len(StartedJobRegistry(QUEUE, connection=connection)) == 0
    assert worker.end() == 0
