"""The fleet's worker is a real RQ worker: stock RQ fills its queue, reads its state and can stand in for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

import workers
from coordinator.metrics import Exposition
from coordinator.steps.handoff import QUEUE, queue_names
from coordinator.store.embedded import EmbeddedServer
from tests.support.fleets import environment, samples
from tests.support.wait import process_alive, wait_until_sync
from tests.workers.conftest import Start

# isort: split
# RQ takes its key prefix when it is imported, so workers comes first.
from rq import Queue, Worker
from rq.command import send_shutdown_command
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry
from rq.serializers import JSONSerializer
from rq.suspension import resume, suspend

NOOP = "workers.steps.noop"


@pytest.fixture
def queue(connection: Redis) -> Queue:
    """The step queue as anybody with RQ makes it."""
    return Queue(QUEUE, connection=connection, serializer=JSONSerializer)


def finished(job: Job) -> bool:
    return bool(job.get_status() in (JobStatus.FINISHED, JobStatus.FAILED))


def counted(tmp_path: Path) -> dict[str, float]:
    """Jobs by outcome, as the worker's metrics have them."""
    found = samples(Exposition(tmp_path / "metrics").text())
    return {outcome: found[f"coordinator_worker_jobs_total{{outcome={outcome}}}"] for outcome in ("ok", "failed")}


def test_a_job_enqueued_with_plain_rq_is_executed(start: Start, queue: Queue, tmp_path: Path) -> None:
    worker = start()
    job = queue.enqueue(NOOP, "default", "run-1", result_ttl=60)
    wait_until_sync(lambda: finished(job), 10, "the job to be executed")
    assert job.get_status() == JobStatus.FINISHED
    assert job.return_value() == ["default", "run-1"]
    (known,) = Worker.all(connection=queue.connection)
    result = job.latest_result()
    assert result is not None
    assert result.worker_name == known.name
    assert f".w-0.{worker.process.pid}." in known.name
    wait_until_sync(lambda: counted(tmp_path) == {"ok": 1, "failed": 0}, 5, "the job to be counted")
    assert worker.end() == 0
    assert Worker.all(connection=queue.connection) == []


def test_nothing_of_a_finished_job_stays(start: Start, queue: Queue) -> None:
    start()
    jobs = [queue.enqueue(NOOP, str(number)) for number in range(20)]
    wait_until_sync(lambda: not any(Job.exists(job.id, queue.connection) for job in jobs), 10, "all jobs to be done")
    left = [key.decode() if isinstance(key, bytes) else key for key in queue.connection.keys("*")]
    assert all(key.startswith((workers.RQ_PREFIX + ":", "fc:{!fleet}:")) for key in left), left
    assert not [key for key in left if ":job:" in key or ":execution" in key or ":results" in key], left
    assert len(StartedJobRegistry(queue=queue)) == len(queue) == 0


def test_a_stock_worker_can_take_the_jobs_too(queue: Queue, server: EmbeddedServer) -> None:
    job = queue.enqueue(NOOP, "a", result_ttl=60)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rq.cli", "worker", "--burst", "--serializer", "json"),
            *("--worker-class", "rq.SimpleWorker", QUEUE),
        ],
        env=environment(RQ_KEY_PREFIX=workers.RQ_PREFIX, RQ_REDIS_URL=server.url),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert job.get_status() == JobStatus.FINISHED
    assert job.return_value() == ["a"]


def test_a_job_may_name_steps_only(start: Start, queue: Queue, tmp_path: Path) -> None:
    worker = start()
    made = tmp_path / "made-by-a-job"
    job = queue.enqueue("os.mkdir", str(made))
    method = queue.enqueue("workers.steps.noop.__call__")
    wait_until_sync(lambda: finished(job) and finished(method), 10, "the jobs to be refused")
    assert not made.exists()
    for refused in (job, method):
        result = refused.latest_result()
        assert result is not None
        assert "is not a step; allowed: workers.steps.noop" in (result.exc_string or "")
    wait_until_sync(lambda: counted(tmp_path) == {"ok": 0, "failed": 2}, 5, "the jobs to be counted")
    assert process_alive(worker.process.pid)


class _Dangerous:
    """Unpickling it makes a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._path),)


def test_pickled_jobs_are_refused_unread(start: Start, connection: Redis, tmp_path: Path) -> None:
    start()
    made = tmp_path / "made-by-unpickling"
    job = Queue(QUEUE, connection=connection).enqueue(NOOP, _Dangerous(made))
    wait_until_sync(lambda: finished(job), 10, "the job to be refused")
    assert job.get_status() == JobStatus.FAILED
    assert not made.exists()


def test_a_worker_outlives_a_restart_of_its_store(start: Start, server: EmbeddedServer, queue: Queue) -> None:
    worker = start()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until_sync(lambda: worker.logged("no answer from Redis, trying again"), 10, "the worker to notice")
    server.start()
    job = queue.enqueue(NOOP, "after", result_ttl=60)
    wait_until_sync(lambda: finished(job), 20, "the job to be executed")
    assert job.get_status() == JobStatus.FINISHED
    (known,) = Worker.all(connection=queue.connection)
    assert known.pid == worker.process.pid
    assert known.queue_names() == queue_names(["default"])


def test_stock_commands_suspend_and_stop_it(start: Start, queue: Queue) -> None:
    worker = start()
    suspend(queue.connection)
    (known,) = Worker.all(connection=queue.connection)
    first = queue.enqueue(NOOP, "first", result_ttl=60)
    # It may have been waiting for a job already when it was suspended, and takes that one yet.
    wait_until_sync(lambda: finished(first) or worker.logged("worker suspended"), 10, "the suspension to be seen")
    wait_until_sync(lambda: worker.logged("worker suspended"), 10, "the suspension to be seen")
    second = queue.enqueue(NOOP, "second", result_ttl=60)
    resume(queue.connection)
    wait_until_sync(lambda: finished(second), 10, "the second job to be executed after the pause")
    send_shutdown_command(queue.connection, known.name)
    assert worker.process.wait(10) == 0
