"""The worker's loop: an ``rq`` worker that stops between jobs and outlives its Redis.

RQ's own loop raises its stop request out of the signal handler, wherever the process
stands: between taking a job and starting it, the job is stranded. Here a signal sets a
flag that is looked at between jobs. Jobs run in this process: RQ's fork per job costs
8 ms, leaves orphans when the parent is killed, and has a metrics slot of its own.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable

import redis.exceptions
import structlog
from redis import Redis
from rq import Queue, SimpleWorker
from rq.exceptions import DequeueTimeout
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.suspension import is_suspended
from rq.worker import WorkerStatus

from coordinator.metrics import recorder
from workers.queues import StepJob, step_queue

_log = structlog.get_logger(__name__)

POLL_SECONDS = 1
"""How long one wait for a job takes, and so how long a stop may go unseen by an idle worker."""
WORKER_TTL_SECONDS = 30
"""A killed worker vanishes from RQ's lists this long, and RQ's own minute, after its last sign of life."""
MAX_BACKOFF_SECONDS = 2.0


class StepWorker(SimpleWorker):
    """One worker process on the step queue.

    Args:
        connection: a client of the Redis that holds the queue.
        slot: the process's stable name within its fleet; part of the worker's name.
    """

    log_job_description = False
    log_result_lifespan = False

    def __init__(self, connection: Redis, slot: str) -> None:
        super().__init__(
            [step_queue(connection)],
            # A restarted worker must not be taken for the one that was killed.
            name=f"{socket.gethostname()}.{slot}.{os.getpid()}.{uuid.uuid4().hex[:8]}",
            connection=connection,
            job_class=StepJob,
            serializer=JSONSerializer,
            default_result_ttl=0,
            worker_ttl=WORKER_TTL_SECONDS,
        )
        self._stopping = threading.Event()
        self._registered = False

    @property
    def dequeue_timeout(self) -> int:
        """Seconds that one wait for a job takes; RQ derives its read timeout from it."""
        return POLL_SECONDS

    def stop(self) -> None:
        """Ends ``run`` after the job in hand. Safe to call from a signal handler."""
        self._stopping.set()

    def run(self, on_ready: Callable[[], None]) -> None:
        """Works until ``stop`` is called; while Redis is away it waits for it.

        Args:
            on_ready: called once, when the worker is registered.
        """
        if self._persist(self._begin):
            on_ready()
        _log.info("worker started", worker=self.name, queue=self.queues[0].name)
        while self._persist(self._turn):
            recorder().process()
        self._end()

    def perform_job(self, job: Job, queue: Queue, execution: object) -> bool:
        done: bool = super().perform_job(job, queue, execution)  # type: ignore[arg-type]
        recorder().job("ok" if done else "failed")
        return done

    def _persist(self, act: Callable[[], None]) -> bool:
        """Acts, again and again while Redis is away. False when it is time to stop."""
        backoff = 0.1
        while not self._stopping.is_set():
            try:
                act()
            except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError) as error:
                # What Redis knew of this worker may have expired, or be gone with its data.
                self._registered = False
                _log.warning("no answer from Redis, trying again", error=str(error), seconds=backoff)
                self._stopping.wait(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
            else:
                return not self._stopping.is_set()
        return False

    def _begin(self) -> None:
        self._register()
        self.subscribe()

    def _register(self) -> None:
        # No other worker has the name: what is there is from an attempt whose answer was lost.
        self.connection.delete(self.key)
        self.register_birth()
        self.set_state(WorkerStatus.STARTED)
        self._registered = True

    def _turn(self) -> None:
        """Waits for one job, at most for ``POLL_SECONDS``, and runs it."""
        if not self._registered:
            self._register()
        if self.should_run_maintenance_tasks:
            self.run_maintenance_tasks()
        if is_suspended(self.connection, self):
            if self.get_state() != WorkerStatus.SUSPENDED:
                _log.info("worker suspended", worker=self.name)
                self.set_state(WorkerStatus.SUSPENDED)
            self._stopping.wait(POLL_SECONDS)
            return
        if self.get_state() != WorkerStatus.IDLE:
            self.set_state(WorkerStatus.IDLE)
        try:
            taken = self.queue_class.dequeue_any(
                self.queues,
                POLL_SECONDS,
                connection=self.connection,
                job_class=self.job_class,
                serializer=self.serializer,
                death_penalty_class=self.death_penalty_class,
            )
        except DequeueTimeout:
            return
        if taken is not None:
            job, queue = taken
            began = time.perf_counter()
            job.redis_server_version = self.get_redis_server_version()
            try:
                self.execute_job(job, queue)
            finally:
                self.executions.clear()
            _log.debug("job done", job=job.id, seconds=round(time.perf_counter() - began, 6))

    def _end(self) -> None:
        try:
            self.register_death()
        except redis.exceptions.RedisError as error:
            _log.warning("left without signing off: Redis does not answer", error=str(error))
        if self.pubsub_thread is not None:
            # Not waited for: it hears of it within a minute only, and ends with the process.
            self.pubsub_thread.stop()
        _log.info("worker stopped", worker=self.name)
