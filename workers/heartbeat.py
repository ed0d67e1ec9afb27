"""The heartbeat of a worker: a thread that renews the worker's leases and its entry in RQ.

It has its own connections and never waits for the event loop. So if one step keeps the loop busy,
the other steps do not lose their leases. Each beat is one pipeline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Protocol

import redis
import redis.exceptions
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.metrics import recorder
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.steps.store import RENEW
from coordinator.steps.times import LEASE_MS, RENEW_SECONDS
from coordinator.store import StoreIdentity, clients, keys
from coordinator.store.address import parse
from coordinator.store.replies import lacks_function
from workers.attempts import GRACE_SECONDS, Attempt

_ANSWER_SECONDS = 1.0
"""How long a beat may take. There must be time for a retry, on a new connection, before a lease expires."""
_log = structlog.get_logger(__name__)


def heartbeat_client(url: str, identity: StoreIdentity | None = None) -> redis.Redis:
    """Makes a client for a heartbeat. It does not retry: the next beat does that, and stopping must not take long."""
    return clients.client(
        parse(url),
        socket_timeout=_ANSWER_SECONDS,
        socket_connect_timeout=_ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
        redis_connect_func=identity and identity.guard,
    )


class Presence(Protocol):
    """What each beat reports to RQ. ``StepWorker`` implements it."""

    def beat(self, pipeline: Any, attempts: list[Attempt]) -> Callable[[list[Any]], None]:
        """Adds commands for RQ's Redis to the pipeline. Returns a function that is to be called with their replies."""
        ...


class Heartbeat:
    """Renews leases until it is stopped.

    Args:
        worker: the name that the worker's leases carry.
        store: a client for the store's Redis that nobody else uses.
        queue: such a client for RQ's Redis; the same one if the queues are in the store's Redis.
        held: the running attempts, by any key; read in the thread.
        on_lost: called in the thread with each attempt whose lease this worker has lost.
        refused: whether nothing may be sent to the store now, because it is another one. This connection may have
            stayed while the store was emptied, and a beat would register the worker in it.
    """

    def __init__(
        self,
        worker: str,
        store: redis.Redis,
        queue: redis.Redis,
        presence: Presence,
        held: Mapping[str, Attempt],
        on_lost: Callable[[Attempt], None],
        refused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._worker = worker
        self._store = store
        self._queue = queue
        self._presence = presence
        self._held = held
        self._on_lost = on_lost
        self._refused = refused
        self._stopping = False
        self._warn = ThrottledWarnings()
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._run, name="step-leases", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the beat under way."""
        self._stopping = True
        self._due.set()
        self._thread.join()

    def hurry(self) -> None:
        """Starts the next beat at once, because the worker may not know that it lost steps."""
        self._due.set()

    def _run(self) -> None:
        while True:
            self._due.wait(RENEW_SECONDS)
            self._due.clear()
            if self._stopping:
                return
            try:
                if not self._refused():
                    self._beat()
            except (redis.exceptions.RedisError, OSError) as error:
                self._warn("beat", "no answer from Redis, trying again", error=str(error))
            except Exception:
                _log.exception("leases could not be renewed")
            recorder().process()

    def _beat(self) -> None:
        attempts = list(self._held.values())
        recorder().steps_running(len(attempts))
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
        return client.fcall(RENEW.function, 1, keys.project_prefix(project), self._worker, LEASE_MS, *words)

    def _learn(self, by_project: dict[str, list[Attempt]], replies: list[Any]) -> None:
        """Reads from the replies which attempts are no longer ours, and passes them to ``on_lost``."""
        for (project, group), reply in zip(by_project.items(), replies, strict=True):
            if isinstance(reply, redis.exceptions.ResponseError) and lacks_function(reply):
                # Another server has taken over, which does not have our functions.
                self._store.function_load(RENEW.function_library.text, replace=True)
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
