"""The heartbeat of a worker: a thread that renews the worker's leases, and what RQ knows of the worker.

It has connections of its own and never waits for the event loop, so that a step which keeps
the loop busy does not lose the others their leases. Each beat is one pipeline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

import redis
import redis.exceptions
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.metrics import recorder
from coordinator.steps.store import RENEW
from coordinator.steps.times import LEASE_MS, RENEW_SECONDS
from coordinator.store import keys
from coordinator.store.address import parse
from coordinator.store.replies import lacks_function
from workers.attempts import GRACE_SECONDS, Attempt

_ANSWER_SECONDS = 1.0
"""How long a beat may take: it has to be tried again, on a new connection, within a lease."""
_log = structlog.get_logger(__name__)


def heartbeat_client(url: str) -> redis.Redis:
    """A client for a heartbeat. It does not retry: the next beat does, and to stop must not take long."""
    return redis.Redis(
        **parse(url).client_options(),
        socket_timeout=_ANSWER_SECONDS,
        socket_connect_timeout=_ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


class Presence(Protocol):
    """What the heartbeat does for RQ beside the leases; ``StepWorker`` is one."""

    def beat(self, pipeline: Any, attempts: list[Attempt]) -> Callable[[list[Any]], None]:
        """Adds commands to a beat's pipeline for the queue's Redis; what it returns gets their replies."""
        ...


class Heartbeat:
    """Renews leases until it is stopped.

    Args:
        store: a client of its own on the store's Redis.
        queue: one on the queue's; the same, if that is where the queues are.
        held: the attempts in hand; called in the thread.
        on_lost: called in the thread with an attempt that is no longer this worker's.
    """

    def __init__(
        self,
        store: redis.Redis,
        queue: redis.Redis,
        presence: Presence,
        held: Callable[[], list[Attempt]],
        on_lost: Callable[[Attempt], None],
    ) -> None:
        self._store = store
        self._queue = queue
        self._presence = presence
        self._held = held
        self._on_lost = on_lost
        self._stopping = False
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._run, name="step-leases", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, after the beat under way."""
        self._stopping = True
        self._due.set()
        self._thread.join()

    def hurry(self) -> None:
        """Has the next beat begin at once: the worker may have missed that steps were taken from it."""
        self._due.set()

    def _run(self) -> None:
        failed = False
        while True:
            self._due.wait(RENEW_SECONDS)
            self._due.clear()
            if self._stopping:
                return
            try:
                self._beat()
            except (redis.exceptions.RedisError, OSError) as error:
                if not failed:
                    _log.warning("no answer from Redis, trying again", error=str(error))
                failed = True
            except Exception:
                _log.exception("leases could not be renewed")
            else:
                failed = False
            recorder().process()

    def _beat(self) -> None:
        attempts = self._held()
        recorder().steps_in_hand(len(attempts))
        by_project: dict[str, list[Attempt]] = {}
        late = monotonic() - 2 * GRACE_SECONDS
        for attempt in attempts:
            if not attempt.deadline or attempt.deadline > late:
                by_project.setdefault(attempt.step.project, []).append(attempt)
        pipeline: Any = self._store.pipeline(transaction=False)
        for project, group in by_project.items():
            self._renew(pipeline, project, group)
        count = len(by_project)
        if self._queue is self._store:
            heard = self._presence.beat(pipeline, attempts)
            replies = pipeline.execute(raise_on_error=False)
            self._learn(by_project, replies[:count])
            heard(_checked(replies[count:]))
        else:
            self._learn(by_project, pipeline.execute(raise_on_error=False) if count else [])
            beat: Any = self._queue.pipeline(transaction=False)
            heard = self._presence.beat(beat, attempts)
            heard(_checked(beat.execute(raise_on_error=False)))

    def _renew(self, client: Any, project: str, group: list[Attempt]) -> Any:
        words = [word for attempt in group for word in (attempt.step.step, attempt.step.attempt)]
        return client.fcall(RENEW.function, 1, keys.project_prefix(project), LEASE_MS, *words)

    def _learn(self, by_project: dict[str, list[Attempt]], replies: list[Any]) -> None:
        """Tells which attempts are no longer ours."""
        for (project, group), reply in zip(by_project.items(), replies, strict=True):
            if isinstance(reply, redis.exceptions.ResponseError) and lacks_function(reply):
                # The server is a new one.
                self._store.function_load(RENEW.text, replace=True)
                reply = self._renew(self._store, project, group)
            (lost,) = _checked([reply])
            gone = {step.decode() if isinstance(step, bytes) else str(step) for step in lost}
            for attempt in group:
                if attempt.step.step in gone:
                    self._on_lost(attempt)


def _checked(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
