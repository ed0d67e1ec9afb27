"""The heartbeat of a worker: a thread that renews the worker's leases and its entry in RQ.

It has its own connections and never waits for the event loop. So if one step keeps the loop busy,
the other steps do not lose their leases. Each beat is one pipeline; in a cluster one for each project, all at once, so
that a shard that does not answer costs no other project its leases.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from time import monotonic
from typing import Any, Protocol

import redis
import redis.exceptions
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.metrics import process
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import Service
from coordinator.steps.store import RENEW
from coordinator.steps.times import LEASE_MS, RENEW_SECONDS
from coordinator.store import StoreIdentity, keys
from coordinator.store.functions import load
from coordinator.store.link import clients
from coordinator.store.link.address import is_cluster, parse
from coordinator.store.link.replies import is_fenced, lacks_function
from workers.attempts import GRACE_SECONDS, StepAttempt
from workers.metrics import STEPS_RUNNING

_ANSWER_SECONDS = 1.0
"""How long a beat may take. There must be time for a retry, on a new connection, before a lease expires."""
_CLIENTS_MOST = 256
_AT_ONCE = 64
"""From how many servers, or for how many projects of a cluster, leases are renewed at a time."""
_log = structlog.get_logger(__name__)


def heartbeat_client(url: str, identity: StoreIdentity | None = None, tag: str = keys.FLEET) -> redis.Redis:
    """Makes a client for a heartbeat. It does not retry: the next beat does that, and stopping must not take long.

    Args:
        tag: the hash tag of the keys that it is for, in a cluster.
    """
    return clients.client(
        parse(url),
        tag,
        socket_timeout=_ANSWER_SECONDS,
        socket_connect_timeout=_ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
        redis_connect_func=identity and identity.guard,
    )


class StoreClients:
    """Clients of a store for a heartbeat: one, or in a cluster one for each project with steps."""

    def __init__(self, url: str, identity: StoreIdentity | None) -> None:
        self._url, self._identity = url, identity
        self._sharded = is_cluster(url)
        self._clients: dict[str, redis.Redis] = {}

    def of(self, project: str) -> redis.Redis:
        tag = project if self._sharded else keys.FLEET
        if tag not in self._clients:
            if len(self._clients) >= _CLIENTS_MOST:
                self.close()
            self._clients[tag] = heartbeat_client(self._url, self._identity, tag)
        return self._clients[tag]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()


class Presence(Protocol):
    """What each beat reports to RQ. ``StepWorker`` implements it."""

    def beat(self, pipeline: Any, attempts: list[StepAttempt]) -> Callable[[list[Any]], None]:
        """Adds commands for RQ's Redis to the pipeline. Returns a function that is to be called with their replies."""
        ...


class Heartbeat(Service):
    """Renews leases until it is stopped.

    Args:
        worker: the name that the worker's leases carry.
        store_of: a client for the keys of a project that nobody else uses.
        queue: such a client for RQ's keys; the same one if the queues are in the store's Redis.
        held: the running attempts, by any key; read in the thread.
        on_lost: called in the thread with each attempt whose lease this worker has lost.
        refused: whether nothing may be sent to the store now, because it is another one. This connection may have
            stayed while the store was emptied, and a beat would register the worker in it.
    """

    def __init__(
        self,
        worker: str,
        store_of: Callable[[str], redis.Redis],
        queue: redis.Redis,
        presence: Presence,
        held: Mapping[str, StepAttempt],
        on_lost: Callable[[StepAttempt], None],
        refused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._worker = worker
        self._store_of = store_of
        self._queue = queue
        self._presence = presence
        self._held = held
        self._on_lost = on_lost
        self._refused = refused
        self._pool = ThreadPoolExecutor(_AT_ONCE, "step-leases")
        """For projects whose leases are not where RQ's keys are."""
        self._stopping = False
        self._warn = ThrottledWarnings()
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._run, name="step-leases", daemon=True)

    async def start(self) -> None:
        self._thread.start()

    async def stop(self, deadline: float = 0.0) -> None:
        """Ends the thread after the beat under way."""
        self._stopping = True
        self._due.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._pool.shutdown()

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
            process.sample()

    def _beat(self) -> None:
        attempts = list(self._held.values())
        STEPS_RUNNING.set(len(attempts))
        late = monotonic() - 2 * GRACE_SECONDS
        due: dict[redis.Redis, dict[str, list[StepAttempt]]] = {}
        for attempt in attempts:
            if not attempt.deadline or attempt.deadline > late:
                project = attempt.step.project
                due.setdefault(self._store_of(project), {}).setdefault(project, []).append(attempt)
        beside = due.pop(self._queue, {})
        renewing = [self._pool.submit(self._renew_all, client, by_project) for client, by_project in due.items()]
        try:
            self._renew_and_report(beside, attempts)
        finally:
            wait(renewing)
        for renewal in renewing:
            renewal.result()

    def _renew_and_report(self, by_project: dict[str, list[StepAttempt]], attempts: list[StepAttempt]) -> None:
        """Reports to RQ, and renews the leases of projects in the same Redis, in one pipeline."""
        pipeline: Any = self._queue.pipeline(transaction=False)
        for project, group in by_project.items():
            self._renew(pipeline, project, group)
        heard = self._presence.beat(pipeline, attempts)
        replies = pipeline.execute(raise_on_error=False)
        count = len(by_project)
        self._learn(self._queue, by_project, replies[:count])
        heard(_checked(replies[count:]))

    def _renew_all(self, client: redis.Redis, by_project: dict[str, list[StepAttempt]]) -> None:
        pipeline: Any = client.pipeline(transaction=False)
        for project, group in by_project.items():
            self._renew(pipeline, project, group)
        self._learn(client, by_project, pipeline.execute(raise_on_error=False))

    def _renew(self, client: Any, project: str, group: list[StepAttempt]) -> Any:
        words = [word for attempt in group for word in (attempt.step.step, attempt.step.attempt)]
        return client.fcall(RENEW.function, 1, keys.project_prefix(project), self._worker, LEASE_MS, *words)

    def _learn(self, client: redis.Redis, by_project: dict[str, list[StepAttempt]], replies: list[Any]) -> None:
        """Reads from the replies which attempts are no longer ours, and passes them to ``on_lost``."""
        for (project, group), reply in zip(by_project.items(), replies, strict=True):
            if isinstance(reply, redis.exceptions.ResponseError) and lacks_function(reply):
                # Another server has taken over, which does not have our functions.
                load(client, RENEW.function_library)
                (reply,) = self._renew(client.pipeline(transaction=False), project, group).execute(raise_on_error=False)
            if isinstance(reply, redis.exceptions.ResponseError) and is_fenced(reply):
                continue  # the project is being copied; if that ends before the leases do, they are renewed
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
