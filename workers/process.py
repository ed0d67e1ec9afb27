"""A worker process from its start to its end: creates the parts of a worker and connects them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from time import monotonic

import redis
import redis.exceptions
import structlog
import uvloop
from redis.backoff import NoBackoff
from redis.retry import Retry

from coordinator.errors import ToolFailure
from coordinator.metrics import tracing
from coordinator.metrics.growth import Growth
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import Background, Functions, Service, ServiceGroup
from coordinator.settings import Settings
from coordinator.steps import queue_place
from coordinator.steps.handoff import Handoff, queue_names
from coordinator.steps.run_kind import Isolated, RunKind
from coordinator.steps.store import StepStore
from coordinator.steps.times import STORE_RETRY_SECONDS
from coordinator.store import AccessRefused, AddressError, Store, StoreError, StoreIdentity, StoreTooOld, keys
from coordinator.store.checks import key_space, permissions
from coordinator.store.checks.identity import remembered
from coordinator.store.fleet.drains import Drains
from coordinator.store.fleet.processes import ProcessStatus, StatusReport
from coordinator.store.link import clients
from coordinator.store.link.address import parse
from coordinator.store.metrics import script_ended
from workers.attempts import StepAttempt
from workers.children.guard import guard
from workers.children.isolated import IsolatedCalls
from workers.engine import Engine
from workers.heartbeat import Heartbeat, StoreClients, heartbeat_client
from workers.listener import Listener
from workers.metrics import STEPS
from workers.rq.relay import Relay
from workers.rq.worker import StepWorker
from workers.states import States
from workers.sweeper import Sweeper

_log = structlog.get_logger(__name__)

MakeRunKinds = Callable[[Settings, Store, Isolated, States], Mapping[str, RunKind]]
"""Makes the kinds of runs whose steps a worker executes, by name. The states of servers are those that it has."""
OnSettings = Callable[[Callable[[Settings], None]], None]
"""Registers a function to be called with new settings."""
Companion = Callable[["WorkerProcess"], Service]
"""Makes what runs along with a worker, such as its metrics endpoint, from before it opens the store."""

_TIDY_SECONDS = 60.0
_ORPHAN_SECONDS = 2.0
"""How long an orphan waits for its steps to end."""
_MARGIN_SECONDS = 1.5
"""A draining worker gives its steps back this long before the supervisor would kill it."""
_CONNECT_SECONDS = 1.0


class WorkerProcess:
    """One worker.

    Args:
        settings: ``redis_url`` names the store.
        slot: the process's stable name within its fleet.
        make_run_kinds: makes what the worker executes.
        on_ready: called once, when the worker begins to take steps.
        orphaned: whether the process that started the worker is gone. Then the worker ends fast.
        on_settings: registers a function that is called in the event loop whenever the settings have changed.
        on_begin: called as soon as the event loop runs.
    """

    def __init__(
        self,
        settings: Settings,
        slot: str,
        make_run_kinds: MakeRunKinds,
        on_ready: Callable[[], None],
        orphaned: Callable[[], bool] = lambda: False,
        on_settings: OnSettings = lambda take: None,
        companion: Companion | None = None,
        on_begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._slot = slot
        self._make_run_kinds = make_run_kinds
        self._on_ready = on_ready
        self._orphaned = orphaned
        self._on_settings = on_settings
        self._companion = companion
        self._on_begin = on_begin
        self._stop = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "plain-jobs")
        self._warn = ThrottledWarnings()
        self.store: Store | None = None
        """The store; None until it answers."""
        self.at_work = False
        """Whether the worker takes steps."""
        self._endless: list[Background] = []
        self._failed: BaseException | None = None

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, then drains.

        Raises:
            StoreError: the store cannot be used, and trying again would not help.
        """
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._run())
        finally:
            guard.close()

    async def _run(self) -> None:
        self._on_begin()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        beside = ServiceGroup(*([self._companion(self)] if self._companion is not None else []))
        try:
            await beside.start()
            async with AsyncExitStack() as stores:
                await self._with_stores(stores)
        finally:
            await beside.stop()

    async def _with_stores(self, stores: AsyncExitStack) -> None:
        settings = self._settings
        store = self.store = await self._open(settings.redis_url, remembered(settings, settings.redis_url))
        if store is None:
            return
        stores.push_async_callback(store.close)
        queue = await self._open(settings.steps.queue_url) if settings.steps.queue_url else store
        if queue is not None and queue is not store:
            stores.push_async_callback(queue.close)
        await key_space.settle(store)
        await permissions.require(store)
        if problem := await store.failover_problem():
            _log.warning("the timeout does not fit the failover", problem=problem)
        if queue is not None:
            with contextlib.suppress(ToolFailure, StoreError):  # only copies of projects ask for it
                await queue_place.note(store, queue)
            services = await self.compose(store, queue)
            if services is not None:
                await self._work(services)

    async def _open(self, url: str, identity: StoreIdentity | None = None) -> Store | None:
        """Opens a store, however long that takes. Returns None if the worker is told to stop meanwhile."""
        while not self._stop.is_set():
            try:
                store = Store(url, self._settings.redis_timeout_ms, identity=identity)
                await store.open()
            except AccessRefused as error:
                if url == self._settings.steps.queue_url:
                    error.setting = "steps.queue_url"
                raise
            except (AddressError, StoreTooOld):
                raise
            except StoreError as error:
                self._warn("start", "no answer from Redis, trying again", error=str(error))
                await self._pause(STORE_RETRY_SECONDS)
            else:
                return store
        return None

    async def compose(self, store: Store, queue: Store) -> ServiceGroup | None:
        """Registers the worker with RQ, and composes its services; None: it is told to stop before RQ's Redis answers.

        Args:
            queue: the Redis of the queues, which may be the store.
        """
        settings, loop = self._settings, asyncio.get_running_loop()
        isolated, states = IsolatedCalls(settings.steps.children), States(store)
        kinds = self._make_run_kinds(settings, store, isolated, states)
        queue_url = settings.steps.queue_url or settings.redis_url
        own = StoreClients(settings.redis_url, store.identity)
        own_queue = own.of(keys.QUEUE) if queue is store else heartbeat_client(queue_url, tag=keys.QUEUE)
        names = queue_names(settings.steps.pools)
        handoff = Handoff.of(settings, store)
        steps = StepStore(store, handoff, queue)
        relay = Relay(steps, store)
        plain: set[asyncio.Task[None]] = set()

        def plain_job(job: str, name: str) -> None:
            task = loop.create_task(self._plain(worker, job, name, engine))
            plain.add(task)
            task.add_done_callback(plain.discard)

        engine = Engine(steps, kinds, settings.steps.slots, relay.tell, plain_job)

        def stop_job(job: str) -> None:
            loop.call_soon_threadsafe(engine.interrupt, job, "stopped")

        def pause(paused: bool) -> None:
            loop.call_soon_threadsafe(engine.pause, "suspended", paused)

        async def drained(scope: str) -> None:
            engine.pause("drained", bool(scope))
            if scope:
                await states.give_up()

        steps_ended = Growth(STEPS, "outcome")

        def describe(status: ProcessStatus) -> None:
            status.stopping, status.paused = self._stop.is_set(), engine.paused
            status.slots, status.running = settings.steps.slots, engine.busy
            rates = steps_ended.per_second()
            status.done_per_minute = round(60 * rates.get("ok", 0.0), 1)
            status.failed_per_minute = round(60 * (rates.get("failed", 0.0) + rates.get("retry", 0.0)), 1)
            status.uses = [use for kind in kinds.values() for use in kind.executor.connections()]

        def lost(attempt: StepAttempt) -> None:
            loop.call_soon_threadsafe(engine.interrupt, attempt.step.job_id, "lost")

        registered = await self._register(queue, queue_url, names, stop_job, pause)
        if registered is None:
            return None
        worker = registered

        def serve(own: bool) -> None:
            handoff.identify_worker(worker.name, [states.queue, *names] if own else names)

        serve(False)
        states.on_served = serve
        heartbeat = Heartbeat(worker.name, own.of, own_queue, worker, engine.held, lost, store.refuses_all)
        # A cancellation may have been missed while the connection was down. A beat finds out at once; otherwise the
        # step would go on until its next renewal.
        worker.on_reconnect = heartbeat.hurry
        sweeper = Sweeper(worker.name, steps, kinds.values(), engine.held_in, engine.lost_reply, relay.tell)
        store.observe = tracing.observing(script_ended)
        self._endless = [
            Background(sweeper.run, "sweeper"),
            Background(states.run, "states"),
            Background(partial(self._tidy, worker), "maintenance"),
            Background(partial(Drains(store).follow, self._slot, drained, StatusReport("worker", describe)), "drains"),
            *([] if handoff.direct else [Background(relay.run, "relay")]),
        ]
        listener = Background(Listener(engine, steps, queue, names, sweeper.note, states.queue).run, "listener")
        about = {"worker": worker.name, "queues": names, "slots": settings.steps.slots}
        services = ServiceGroup(
            Functions(stop=partial(self._sign_off, worker)),
            isolated,
            *(kind.executor for kind in kinds.values()),
            Functions(start=lambda: self._on_settings(services.configure)),
            Functions(stop=partial(self._end_if_stuck, worker, engine)),
            heartbeat,
            *self._endless,
            engine,
            Functions(stop=partial(states.give_up, for_good=True)),
            listener,
            Functions(partial(_log.info, "worker started", **about)),
        )
        self._endless.append(listener)
        return services

    async def _work(self, services: ServiceGroup) -> None:
        try:
            await services.start()
            self.at_work = True
            self._on_ready()
            self._failed = await self._until_told([part.task for part in self._endless if part.task is not None])
            self.at_work = False
        finally:
            allowed = self._settings.drain_seconds
            left = _ORPHAN_SECONDS if self._orphaned() else max(allowed - _MARGIN_SECONDS, allowed / 2)
            await services.stop(asyncio.get_running_loop().time() + left)
        if self._failed is not None:
            raise self._failed

    async def _sign_off(self, worker: StepWorker) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        try:
            await asyncio.to_thread(worker.end)
        except redis.exceptions.RedisError as error:
            _log.warning("ended without unregistering: Redis does not answer", error=str(error))
        _log.info("worker stopped", worker=worker.name)

    async def _end_if_stuck(self, worker: StepWorker, engine: Engine) -> None:
        if engine.stuck or engine.busy:
            # Event loop and interpreter would wait for them forever, so they are not closed in the usual way.
            await self._sign_off(worker)
            _log.warning("some attempts did not end")
            tracing.stop()
            os._exit(1 if self._failed else 0)

    async def _until_told(self, tasks: list[asyncio.Task[None]]) -> BaseException | None:
        """Waits for the signal to stop, or for the end of a task that should never end; returns that task's failure."""
        stopping = asyncio.ensure_future(self._stop.wait())
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in done - {stopping}:
            error = task.exception()
            _log.error("a part of the worker ended", part=task.get_name(), exc_info=error)
            return error or RuntimeError("a part of the worker ended")
        return None

    async def _register(
        self,
        queue: Store,
        queue_url: str,
        names: list[str],
        on_stop: Callable[[str], None],
        on_pause: Callable[[bool], None],
    ) -> StepWorker | None:
        """Registers the worker with RQ. Returns None if it is told to stop before RQ's Redis answers."""
        connection = clients.client(
            parse(queue_url),
            keys.QUEUE,
            socket_connect_timeout=_CONNECT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=queue.identity.guard,
        )
        while not self._stop.is_set():
            try:
                worker = await asyncio.to_thread(StepWorker, connection, self._slot, names, on_stop, on_pause)
                await asyncio.to_thread(worker.begin)
            except redis.exceptions.RedisError as error:
                self._warn("start", "no answer from Redis, trying again", error=str(error))
                await self._pause(STORE_RETRY_SECONDS)
            else:
                return worker
        return None

    async def _plain(self, worker: StepWorker, job: str, queue: str, engine: Engine) -> None:
        """Runs an RQ job that is not a step."""
        began = monotonic()
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, worker.work_on, job, queue)
        except Exception:
            _log.exception("a job could not be run", job=job)
        finally:
            engine.freed()
            _log.debug("job done", job=job, seconds=round(monotonic() - began, 6))

    async def _tidy(self, worker: StepWorker) -> None:
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, worker.trim)
            except redis.exceptions.RedisError:
                pass  # the next time will do
            except Exception:
                # RQ fails on foreign entries in its keys; steps do not depend on its maintenance.
                _log.exception("RQ's registries could not be cleaned up")
            await asyncio.sleep(_TIDY_SECONDS)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass
