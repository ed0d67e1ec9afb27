"""A draining worker finishes its steps, or gives them back; a killed one leaves nothing for long."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from coordinator.steps.handoff import queue_names
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from tests.support.fleets import RunningCommand, environment
from tests.support.wait import wait_until, wait_until_sync
from tests.workers.conftest import Start
from tests.workers.fleet import Fleet, Flows, chain, sleep
from workers.rq.queues import step_queue
from workers.rq.worker import WORKER_TTL_SECONDS

# isort: split
from rq import Worker
from rq.job import JobStatus

SCRIPT = Path(__file__).parent / "slow_step.py"


def test_sigterm_lets_the_running_job_finish(server: EmbeddedServer, connection: Redis, tmp_path: Path) -> None:
    queue = step_queue(connection)
    running, release = tmp_path / "running", tmp_path / "release"
    slow = queue.enqueue("slow", result_ttl=60)
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(running), str(release)],
        env=environment(FLEET_REDIS_URL=server.url),
        stderr=subprocess.PIPE,
    )
    try:
        wait_until_sync(running.exists, what="the job to run")
        process.terminate()
        process.terminate()
        assert slow.get_status() == JobStatus.STARTED
        wait_until_sync(lambda: not connection.exists("fc:{RQ}:bell:fleet-steps"))
        second = queue.enqueue("slow", result_ttl=60)
        release.touch()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.communicate()
    assert slow.get_status() == JobStatus.FINISHED
    assert slow.return_value() == "done"
    assert second.get_status() == JobStatus.QUEUED
    assert queue.job_ids == [second.id]


@pytest.mark.anyio
async def test_a_step_that_outlasts_the_drain_of_a_fleet_is_given_back(
    server: EmbeddedServer, store: Store, tmp_path: Path
) -> None:
    flows = Flows(store)
    with Fleet(
        tmp_path / "data",
        *("--port", "0", "--frontends", "1", "--workers", "1", "--drain-seconds", "4", "--redis-url", server.url),
        FLEET_FLOWS_DEMO_TOOLS="true",
        FLEET_REQUEST_DEADLINE_MS="3000",
        FLEET_REDIS_TIMEOUT_MS="2000",
    ) as fleet:
        fleet.wait_ready()
        flow = await flows.create(chain(sleep(60_000, timeout_ms=60_000)))

        async def running() -> bool:
            return (await flows.step(flow)).status == "running"

        await wait_until(running)
        assert await asyncio.to_thread(fleet.end) == 0
    step = await flows.step(flow)
    assert (step.status, step.attempt) == ("ready", 2)
    assert not fleet.logged("killing what did not end in time")


def test_a_killed_worker_vanishes_and_its_successor_is_told_apart(start: Start, connection: Redis) -> None:
    first = start()
    first.process.kill()
    first.process.wait()
    second = start()
    known = {worker.pid: worker for worker in Worker.all(connection=connection)}
    assert known.keys() == {first.process.pid, second.process.pid}
    dead = known[first.process.pid]
    assert dead.queue_names() == queue_names(["default"])
    assert 0 < connection.ttl(dead.key) <= WORKER_TTL_SECONDS + 60


def test_workers_started_at_once_take_different_slots(
    server: EmbeddedServer, connection: Redis, tmp_path: Path
) -> None:
    directory = str(tmp_path / "data")
    env = {"FLEET_REDIS_URL": server.url, "FLEET_METRICS_DIR": str(tmp_path / "metrics")}
    started = [RunningCommand(tmp_path / str(number), "worker", "--data-dir", directory, **env) for number in range(3)]
    try:
        lines = {command.wait_ready() for command in started}
    finally:
        for command in started:
            command.clean_up()
    assert lines == {f"fleet worker w-{number} ready" for number in range(3)}
