"""The worker as RQ sees it: registered, with heartbeats, obeying commands, and able to run plain jobs.

The engine executes steps. This module makes the process an ``rq`` worker for RQ's tools. Each heartbeat calls ``beat``.
Jobs made with plain RQ run in one thread, as RQ's ``SimpleWorker`` runs them.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import structlog
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.defaults import RQ_KEY_PREFIX
from rq.exceptions import NoSuchJobError
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.suspension import WORKERS_SUSPENDED
from rq.timeouts import TimerDeathPenalty
from rq.worker import WorkerStatus

from workers.attempts import StepAttempt
from workers.metrics import WORKER_JOBS
from workers.rq.display import Display
from workers.rq.queues import StepJob, step_queue

_log = structlog.get_logger(__name__)

WORKER_TTL_SECONDS = 30
"""A killed worker vanishes from RQ's lists this long after its last heartbeat, plus a minute that RQ adds."""

_RECONNECT_SECONDS = 0.25
"""Between attempts to listen to commands again."""


class _Reconnects:
    """Passes reconnections on to a worker.

    The worker itself cannot be the callback's owner: redis-py compares the owners of callbacks, and RQ's workers
    cannot be compared with other objects.
    """

    def __init__(self, worker: StepWorker) -> None:
        self._worker = worker

    def happened(self, _connection: object) -> None:
        self._worker.on_reconnect()


class StepWorker(SimpleWorker):
    """One worker process, to RQ.

    Args:
        connection: a client of the Redis that holds the queues, for threads.
        slot: the process's stable name within its fleet; part of the worker's name.
        queues: names of the queues that it serves.
        on_stop: called with the id of a job that is to be stopped, by RQ's tools or because its flow was cancelled.
        on_pause: called with True when the workers are suspended, with False when they are resumed.
    """

    log_job_description = False
    log_result_lifespan = False
    # Plain jobs run in a thread, which no signal interrupts.
    death_penalty_class = TimerDeathPenalty

    def __init__(
        self,
        connection: Redis,
        slot: str,
        queues: Sequence[str],
        on_stop: Callable[[str], None],
        on_pause: Callable[[bool], None],
    ) -> None:
        super().__init__(
            [step_queue(connection, name) for name in queues],
            # A restarted worker must not be taken for the one that was killed.
            name=f"{socket.gethostname()}.{slot}.{os.getpid()}.{uuid.uuid4().hex[:8]}",
            connection=connection,
            job_class=StepJob,
            serializer=JSONSerializer,
            default_result_ttl=0,
            worker_ttl=WORKER_TTL_SECONDS,
        )
        self._on_stop = on_stop
        self._on_pause = on_pause
        self._paused = False
        self.on_reconnect: Callable[[], None] = lambda: None
        """Called in RQ's thread when the connection for commands is back; commands sent meanwhile are lost."""
        self._reconnects = _Reconnects(self)
        # The middle queue is that of the first pool's normal priority. Steps of all queues are shown there.
        self._display = Display(self.name, self.queues[len(self.queues) // 2])

    @property
    def dequeue_timeout(self) -> int:
        """RQ derives its read timeout from this."""
        return 1

    def begin(self) -> None:
        """Registers the worker, listens to commands, and checks whether workers are suspended."""
        self._register()
        self.subscribe()
        with self.connection.pipeline() as pipeline:
            for queue in self.queues:
                pipeline.sadd(Queue.redis_queues_keys, queue.key)
            pipeline.exists(WORKERS_SUSPENDED)
            self._heard([0, pipeline.execute()[-1]])

    def end(self) -> None:
        self._display.clear()
        self.register_death()
        if self.pubsub_thread is not None:
            # Not waited for: it may take a minute to notice, and ends with the process anyway.
            self.pubsub_thread.stop()

    def _register(self) -> None:
        # No other worker has this name. An existing entry comes from an earlier attempt whose answer was lost.
        self.connection.delete(self.key)
        self.register_birth()
        self.set_state(WorkerStatus.STARTED)

    # --- heartbeats, in a thread of their own ------------------------------------------------------

    def beat(self, pipeline: Any, attempts: list[StepAttempt]) -> Callable[[list[Any]], None]:
        """Adds RQ's heartbeat and the worker's state to a pipeline, and asks whether workers are suspended."""
        self.heartbeat(pipeline=pipeline)
        state = WorkerStatus.SUSPENDED if self._paused else WorkerStatus.BUSY if attempts else WorkerStatus.IDLE
        self.set_state(state, pipeline=pipeline)
        self._display.update(pipeline, attempts)
        pipeline.exists(WORKERS_SUSPENDED)
        return self._heard

    def _heard(self, replies: list[Any]) -> None:
        if replies[0]:
            # The heartbeat created a new entry: Redis has lost its data, or RQ took this worker for dead.
            self._register()
        suspended = bool(replies[-1])
        if suspended != self._paused:
            self._paused = suspended
            _log.info("worker suspended" if suspended else "worker resumed", worker=self.name)
            self._on_pause(suspended)

    # --- commands, in RQ's thread -----------------------------------------------------------------

    def subscribe(self) -> None:
        """Listens to commands, from now on and again whenever the connection was lost."""
        super().subscribe()
        if self.pubsub is not None and self.pubsub.connection is not None:
            # Called after redis-py's own callback, which subscribes again.
            self.pubsub.connection.register_connect_callback(self._reconnects.happened)

    def _pubsub_exception_handler(self, exc: Exception, pubsub: object, pubsub_thread: object) -> None:
        self.pause_listening(exc)

    def pause_listening(self, exc: Exception) -> None:
        """Retries soon. RQ's own handler waits two seconds, and gives up if Redis does not answer in time."""
        if not isinstance(exc, (RedisError, OSError)):
            raise exc
        _log.debug("commands cannot be received, trying again", error=str(exc))
        time.sleep(_RECONNECT_SECONDS)

    def handle_payload(self, message: Any) -> None:
        """Obeys ``shutdown`` and ``stop-job``. RQ's ``kill-horse`` has no meaning here: there is no work horse."""
        try:
            payload = msgspec.json.decode(message["data"], type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if payload.get("command") == "shutdown":
            os.kill(os.getpid(), signal.SIGINT)
        elif payload.get("command") == "stop-job":
            self._on_stop(str(payload.get("job_id")))

    # --- plain jobs, in a thread ------------------------------------------------------------------

    def work_on(self, job_id: str, queue_name: str) -> None:
        """Runs a plain job that lies in its queue's intermediate list."""
        queue = next(queue for queue in self.queues if queue.name == queue_name)
        try:
            job = self.job_class.fetch(job_id, connection=self.connection, serializer=self.serializer)
        except NoSuchJobError:
            self.connection.lrem(queue.intermediate_queue_key, 1, job_id)
            return
        job.redis_server_version = self.get_redis_server_version()
        execution = self.prepare_execution(job)
        try:
            self.connection.lrem(queue.intermediate_queue_key, 1, job_id)
            self.perform_job(job, queue, execution)
        finally:
            self.executions.clear()

    def perform_job(self, job: Job, queue: Queue, execution: object) -> bool:
        done: bool = super().perform_job(job, queue, execution)  # type: ignore[arg-type]
        WORKER_JOBS.labels("ok" if done else "failed").inc()
        return done

    def trim(self) -> None:
        """RQ's maintenance: forgets dead workers, trims registries."""
        if self.should_run_maintenance_tasks:
            self.run_maintenance_tasks()
        for queue in self.queues:
            # RQ never trims this registry: jobs that its tools cancelled would stay forever.
            registry = queue.canceled_job_registry
            for job_id in registry.get_job_ids(0, 99, cleanup=False):
                self.connection.zrem(registry.key, job_id)
                self.connection.delete(f"{RQ_KEY_PREFIX}:job:{job_id}")
