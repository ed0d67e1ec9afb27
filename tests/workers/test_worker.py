"""The fleet's worker is a real RQ worker: stock RQ fills its queue, reads its state and can stand in for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import workers
from coordinator.metrics import Exposition
from coordinator.steps.handoff import QUEUE, queue_names
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.link.address import parse
from tests.support.fleets import RunningCommand, environment, samples
from tests.support.servers import kill
from tests.support.wait import process_alive, wait_until_sync
from tests.workers.conftest import Start

# isort: split
# RQ takes its key prefix when it is imported, so workers comes first.
from rq import Callback, Queue, Webhook, Worker
from rq.command import send_shutdown_command
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry
from rq.serializers import JSONSerializer
from rq.suspension import resume, suspend

NOOP = "workers.steps.noop"


class Alone:
    """A worker that tests share, on a server of its own, so that no other worker takes its jobs."""

    def __init__(self, directory: Path) -> None:
        self.server = EmbeddedServer(directory / "store", fsync="everysec")
        self.metrics = directory / "metrics"
        self.connection: Redis = Redis(**parse(self.server.start()).client_options(), retry=Retry(NoBackoff(), 0))
        self.command = RunningCommand(
            directory / "output",
            *("worker", "--data-dir", str(directory / "data")),
            FLEET_REDIS_URL=self.server.start(),
            FLEET_METRICS_DIR=str(self.metrics),
        )
        self.queue = Queue(QUEUE, connection=self.connection, serializer=JSONSerializer)
        """The step queue, opened with plain RQ."""

    def counted(self) -> dict[str, float]:
        """Jobs by outcome, as the worker's metrics have them."""
        found = samples(Exposition(self.metrics).text())
        return {outcome: found[f"coordinator_worker_jobs_total{{outcome={outcome}}}"] for outcome in ("ok", "failed")}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    alone = Alone(tmp_path_factory.mktemp("alone"))
    try:
        alone.command.wait_ready()
        yield alone
    finally:
        alone.command.clean_up()
        alone.connection.close()
        alone.server.stop()


def finished(job: Job) -> bool:
    return bool(job.get_status() in (JobStatus.FINISHED, JobStatus.FAILED))


def test_a_job_enqueued_with_plain_rq_is_executed(alone: Alone) -> None:
    before = alone.counted()["ok"]
    job = alone.queue.enqueue(NOOP, "default", "run-1", result_ttl=60)
    wait_until_sync(lambda: finished(job), what="the job to be executed")
    assert job.get_status() == JobStatus.FINISHED
    assert job.return_value() == ["default", "run-1"]
    wait_until_sync(lambda: Worker.all(connection=alone.connection), what="the worker to be known")
    (known,) = Worker.all(connection=alone.connection)
    result = job.latest_result()
    assert result is not None
    assert result.worker_name == known.name
    assert f".w-0.{alone.command.process.pid}." in known.name
    wait_until_sync(lambda: alone.counted()["ok"] == before + 1, what="the job to be counted")


def test_a_finished_job_leaves_nothing(alone: Alone) -> None:
    jobs = [alone.queue.enqueue(NOOP, str(number)) for number in range(20)]
    wait_until_sync(lambda: not any(Job.exists(job.id, alone.connection) for job in jobs), what="all jobs to be done")
    left = [key.decode() for key in alone.connection.scan_iter("*")]
    assert all(key.startswith((workers.RQ_PREFIX + ":", "fc:{!fleet}:")) for key in left), left
    # RQ's maintenance keeps a note about a job in transit for a day.
    lasting = [key for key in left if not (":first_seen:" in key and alone.connection.ttl(key) > 0)]
    assert not [key for key in lasting for job in jobs if job.id in key], left
    assert len(StartedJobRegistry(queue=alone.queue)) == len(alone.queue) == 0


def test_a_stock_worker_can_take_plain_jobs_too(connection: Redis, server: EmbeddedServer) -> None:
    job = Queue(QUEUE, connection=connection, serializer=JSONSerializer).enqueue(NOOP, "a", result_ttl=60)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rq.cli", "worker", "--burst", "--serializer", "json"),
            *("--worker-class", "rq.SimpleWorker", QUEUE),
        ],
        env=environment(RQ_KEY_PREFIX=workers.RQ_PREFIX, RQ_REDIS_URL=server.url),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert job.get_status() == JobStatus.FINISHED
    assert job.return_value() == ["a"]


def test_a_job_may_name_steps_only(alone: Alone, tmp_path: Path) -> None:
    before = alone.counted()["failed"]
    made = tmp_path / "made-by-a-job"
    job = alone.queue.enqueue("os.mkdir", str(made))
    method = alone.queue.enqueue("workers.steps.noop.__call__")
    wait_until_sync(lambda: finished(job) and finished(method), what="the jobs to be refused")
    assert not made.exists()
    for refused in (job, method):
        result = refused.latest_result()
        assert result is not None
        assert "is not a step; allowed: workers.steps.noop, workers.steps.run" in (result.exc_string or "")
    wait_until_sync(lambda: alone.counted()["failed"] >= before + 2, what="the jobs to be counted")
    assert process_alive(alone.command.process.pid)


def test_callbacks_and_webhooks_of_a_job_are_ignored(alone: Alone, tmp_path: Path) -> None:
    made = tmp_path / "made-by-a-callback"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        hooks = [Webhook(url, status, timeout=1) for status in (JobStatus.FINISHED.value, JobStatus.FAILED.value)]
        after = Callback(f"{__name__}.plant")
        good = alone.queue.enqueue(NOOP, str(made), on_success=after, webhooks=hooks, result_ttl=60)
        bad = alone.queue.enqueue("os.rmdir", str(made), on_failure=after, webhooks=hooks)
        # Plain jobs are executed one after the other.
        last = alone.queue.enqueue(NOOP, result_ttl=60)
        wait_until_sync(lambda: finished(last), what="the jobs to be executed")
        assert (good.get_status(), bad.get_status()) == (JobStatus.FINISHED, JobStatus.FAILED)
        assert not made.exists()
        with pytest.raises(BlockingIOError):
            listening.accept()


def plant(job: Job, *_: object) -> None:
    """A callback that shows that it was called."""
    os.mkdir(str(job.args[0]))


class _Dangerous:
    """Unpickling it makes a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._path),)


def test_pickled_jobs_are_rejected_unread(alone: Alone, tmp_path: Path) -> None:
    made = tmp_path / "made-by-unpickling"
    job = Queue(QUEUE, connection=alone.connection).enqueue(NOOP, _Dangerous(made))
    wait_until_sync(lambda: finished(job), what="the job to be refused")
    assert job.get_status() == JobStatus.FAILED
    assert not made.exists()


def test_a_worker_survives_a_restart_of_its_store(alone: Alone) -> None:
    kill(alone.server)
    wait_until_sync(lambda: alone.command.logged("no answer from Redis, trying again"), what="the worker to notice")
    alone.server.start()
    job = alone.queue.enqueue(NOOP, "after", result_ttl=60)
    wait_until_sync(lambda: finished(job), what="the job to be executed")
    assert job.get_status() == JobStatus.FINISHED
    wait_until_sync(lambda: Worker.all(connection=alone.connection), what="the worker to be known again")
    (known,) = Worker.all(connection=alone.connection)
    assert known.pid == alone.command.process.pid
    assert known.queue_names() == queue_names(["default"])


def test_a_worker_serves_although_rq_cannot_read_its_registries(start: Start, connection: Redis) -> None:
    queue = Queue(QUEUE, connection=connection, serializer=JSONSerializer)
    connection.zadd(queue.started_job_registry.key, {b"\xff:\xff": 1})
    worker = start()
    worker.wait_logged("RQ's registries could not be cleaned up")
    job = queue.enqueue(NOOP, result_ttl=60)
    wait_until_sync(lambda: finished(job), what="the job to be executed")
    assert process_alive(worker.process.pid)


def test_stock_commands_suspend_and_stop_it(start: Start, connection: Redis) -> None:
    queue = Queue(QUEUE, connection=connection, serializer=JSONSerializer)
    suspend(connection)
    worker = start()
    (known,) = Worker.all(connection=connection)
    job = queue.enqueue(NOOP, "a", result_ttl=60)
    wait_until_sync(lambda: worker.logged("worker suspended"), what="the suspension to be seen")
    wait_until_sync(lambda: Worker.all(connection=connection)[0].get_state() == "suspended", what="its state")
    assert job.get_status() == JobStatus.QUEUED
    resume(connection)
    wait_until_sync(lambda: finished(job), what="the job to be executed after the pause")
    send_shutdown_command(connection, known.name)
    assert worker.process.wait(60) == 0
    assert Worker.all(connection=connection) == []
