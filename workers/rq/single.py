"""One step in a stock RQ worker: what ``workers.steps.run`` does there.

It does the engine's work for a single pointer, with the same lease, fence and report. The
step's successors go to the queue. Settings come from environment, file and defaults, as for
all commands. The store is the Redis of the job unless the settings name another.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

import structlog
from rq import get_current_job

from coordinator import __version__
from coordinator.metrics import tracing
from coordinator.service import ServiceGroup
from coordinator.settings import Settings, load_settings
from coordinator.steps.handoff import Handoff
from coordinator.steps.store import Report, StepStore, Taken
from coordinator.store import Store, keys
from coordinator.store.checks.identity import remembered
from coordinator.store.link.clients import address_of
from workers.attempts import StepAttempt
from workers.children.isolated import IsolatedCalls
from workers.engine import Engine
from workers.heartbeat import Heartbeat, StoreClients
from workers.run_kinds import make_run_kinds

_log = structlog.get_logger(__name__)


class _NoPresence:
    """Adds nothing to a heartbeat: the stock worker registers itself with RQ."""

    def beat(self, pipeline: Any, attempts: list[StepAttempt]) -> Callable[[list[Any]], None]:
        return lambda replies: None


class _OneStep(Engine):
    """An engine that executes what it is given and takes nothing from the queues."""

    outcome = "stale"

    def want(self) -> int:
        return 0

    def _ended(self, attempt: StepAttempt, report: Report | None) -> None:
        self.outcome = attempt.outcome
        super()._ended(attempt, report)


async def run_one(project: str, job: str) -> str:
    """Takes the step that a job points to, executes it and reports its outcome. Returns the outcome.

    Raises:
        StoreError, ToolFailure: the store does not answer. The step's lease runs out, and it gets another attempt.
    """
    settings = load_settings({}, os.environ, None).settings
    url = settings.redis_url or _url_of_job()
    _trace(settings)
    store = Store(url, settings.redis_timeout_ms, identity=remembered(settings, url))
    store.observe = tracing.observing(lambda script, seconds, outcome, *_: None)
    try:
        await store.open()
        handoff = Handoff.of(settings, store)
        worker = f"rq.{socket.gethostname()}.{os.getpid()}"
        handoff.identify_worker(worker, [])
        steps = StepStore(store, handoff)
        taken = await steps.begin(project, [job])
        if not taken.steps:
            return "stale"
        return await _execute(settings, store, steps, taken, url, worker)
    finally:
        await store.close()
        tracing.stop()


def _trace(settings: Settings) -> None:
    """Traces the step if the settings say so. If tracing cannot start, the step runs without it."""
    if settings.tracing.endpoint:
        try:
            tracing.start(settings.tracing.endpoint, settings.tracing.sample_ratio, __version__, f"rq-{os.getpid()}")
        except tracing.TracingUnavailable as error:
            _log.warning("steps are not traced", reason=str(error))


async def _execute(settings: Settings, store: Store, steps: StepStore, taken: Taken, url: str, worker: str) -> str:
    outboxes: set[str] = set()
    client = StoreClients(url, store.identity)
    isolated = IsolatedCalls(1)
    kinds = make_run_kinds(settings, store, isolated)
    engine = _OneStep(steps, kinds, 1, outboxes.add, lambda job, queue: None)
    loop = asyncio.get_running_loop()

    def lost(attempt: StepAttempt) -> None:
        loop.call_soon_threadsafe(engine.interrupt, attempt.step.job_id, "lost")

    clients = client.of, client.of(keys.QUEUE)
    heartbeat = Heartbeat(worker, *clients, _NoPresence(), engine.held, lost, store.refuses_all)
    services = ServiceGroup(isolated, *(kind.executor for kind in kinds.values()), heartbeat, engine)
    try:
        await services.start()
        engine.deliver(taken)
        await engine.finish()
    finally:
        await services.stop()
        client.close()
    for project in outboxes:
        await steps.wake_relay(project)
    return engine.outcome


def _url_of_job() -> str:
    """The URL of the Redis that the job came from."""
    job = get_current_job()
    if job is None:
        raise RuntimeError("not called by an RQ worker")
    return address_of(job.connection).url()
