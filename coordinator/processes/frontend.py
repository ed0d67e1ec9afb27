"""One front-end process: from startup to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import time
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uvloop

from coordinator.console import Console
from coordinator.console.acts.actions import Actions
from coordinator.console.app import ROOT, assets
from coordinator.console.reads import Reads
from coordinator.console.signin.oauth import open_client
from coordinator.console.signin.sessions import Sessions
from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.identity.actors.callers import trusting_callers
from coordinator.identity.actors.resolver import Actors
from coordinator.metrics import Exposition, process, recording, start, tracing
from coordinator.metrics.growth import Growth
from coordinator.metrics.hot import publish
from coordinator.overload import Admission, ShardedAdmission
from coordinator.overload.metrics import SHED
from coordinator.processes.authentication import build_authenticator
from coordinator.processes.operators_port import OperatorsPort, QuietServer, server_config
from coordinator.processes.reload import SettingsInForce
from coordinator.processes.stores import open_for_serving
from coordinator.processes.supervision.lifecycle import ORPHAN_SECONDS, Lifecycle
from coordinator.processes.supervision.sockets import BACKLOG, listening
from coordinator.service import Background, Functions, Service, ServiceGroup, Together, end_tasks
from coordinator.settings import Settings
from coordinator.settings.fields import fields_of
from coordinator.steps.handoff import Handoff
from coordinator.steps.queue_depth import QueueDepth
from coordinator.steps.store import StepStore
from coordinator.store import Script, Store
from coordinator.store.checks import permissions
from coordinator.store.fleet.drains import Drains
from coordinator.store.fleet.metrics import FleetMetrics
from coordinator.store.fleet.processes import ProcessStatus, StatusReport
from coordinator.store.metrics import SCRIPT_DURATION, SCRIPT_FAILURES, script_ended
from coordinator.store.outcomes import WITHOUT_REPLY
from coordinator.store.projects.healing import ProjectHealing
from coordinator.store.store import Observe
from coordinator.toolsets.gateway import ApprovalMetrics, Decisions, Listener
from coordinator.toolsets.items import ItemMetrics, TokenStore
from coordinator.toolsets.registry import described_toolsets, load_toolsets
from coordinator.toolsets.schema import describe
from coordinator.toolsets.tool import Services
from coordinator.transport import FrontEnd, http_protocol
from coordinator.transport.http.delegations import Delegations
from coordinator.transport.http.parts import Parts
from coordinator.transport.mcp.task_methods import NAMES as TASK_METHODS
from coordinator.transport.metrics import CONNECTIONS, INFLIGHT, REQUEST_DURATION, REQUESTS
from coordinator.transport.projects import Projects
from coordinator.transport.rounds.sealing import Seals
from coordinator.webhooks import Webhooks

_log = structlog.get_logger(__name__)

GRACE_SECONDS = 0.5
"""How long a draining front-end, already unready, continues to accept connections."""
FRESH_SECONDS = 0.25
"""How long it then waits for the first request on new connections."""
LEAVE_SECONDS = GRACE_SECONDS + FRESH_SECONDS
KEEP_ALIVE_SECONDS = 75
PROBE_SECONDS = 0.25
"""How often a front-end measures itself and, until it is ready, asks whether the store answers."""
HOT_SECONDS = 2.0
"""How often hot items are looked for."""
_HOT_ITEMS = 20
_HOT_LOSERS = 30
"""Failed claims on an item within a minute from which the contention is logged."""
_MARGIN_SECONDS = 1.5
"""A draining front-end abandons its requests so many seconds before its supervisor would kill it."""


def prepare() -> None:
    """Makes in advance what is slow and does not depend on settings: schemas of tools, assets, commands of scripts."""
    for toolset in described_toolsets().values():
        for tool in toolset.tools:
            for identified in (False, True):
                describe(tool, identified=identified, outputs="lean")
    assets()
    permissions.used()
    fields_of(Settings)


def run_frontend(settings: Settings, slot: str, metrics_dir: Path, lifecycle: Lifecycle) -> None:
    """Serves until SIGTERM or SIGINT, then drains.

    Raises:
        ProcessProblem: it cannot start.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, slot, metrics_dir, lifecycle))


async def _serve(settings: Settings, slot: str, metrics_dir: Path, lifecycle: Lifecycle) -> None:
    lifecycle.begun()
    store = await open_for_serving(settings, settings.redis_url)
    try:
        await FrontEndProcess(settings, slot, metrics_dir, lifecycle, store).run()
    finally:
        await store.close()
    _log.info("front-end stopped")


class FrontEndProcess:
    """Composes the services of a front-end, and runs them."""

    def __init__(self, settings: Settings, slot: str, metrics_dir: Path, lifecycle: Lifecycle, store: Store) -> None:
        self._lifecycle = lifecycle
        self._stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drain_seconds = settings.drain_seconds
        actors, authenticator = Actors(settings.actor_authentication, store), build_authenticator(settings, store)
        feed, seals = FeedReader(store), Seals(store, settings)
        delegations = Delegations(TokenStore(store), seals, authenticator.still)
        shared = Services(settings, store, trusting_callers(actors.resolve), Waits(feed), delegations.make)
        self._toolsets = toolsets = load_toolsets(shared)
        admission: Admission | ShardedAdmission
        self._admission = admission = (
            ShardedAdmission(store.shard_of, settings.overload)
            if store.sharded
            else Admission(settings.overload, time.monotonic)
        )
        store.observe, store.recovered = tracing.observing(_observer(admission)), admission.probe
        projects = Projects(store, settings.projects)
        in_force = SettingsInForce(settings, lifecycle.refused_reload)
        exposition = Exposition(metrics_dir)
        self._app = app = FrontEnd(
            Parts(
                settings,
                store,
                toolsets,
                render_metrics=exposition.text,
                config=in_force.report,
                identity=actors.report,
                authenticator=authenticator,
                process=slot,
                admission=admission,
                hints=projects,
                reader=feed,
                seals=seals,
                delegations=delegations,
            )
        )
        decisions = Decisions.of(store, settings, Listener(store))  # only reads, so that the listener never starts
        reads = Reads(store, toolsets, decisions, admission, settings, exposition.samples)
        actions = Actions(toolsets, app.calls, settings, shared.resolve_actor, store)
        if settings.console.enabled:
            sessions = Sessions(store, seals, authenticator, settings)
            oauth = open_client(settings, os.environ, authenticator, store, seals)
            admin = settings.console.listener == "admin"
            port = settings.port if admin else 0
            console = Console(reads, feed, sessions, app.endpoints, actions, app.welcome, oauth, port)
            app.mount(ROOT, console, admin=admin)
            authenticator.changed = console.recheck
        self._server = server = McpServer(app, settings)
        name = f"{socket.gethostname()}/{slot}"
        status = StatusReport("frontend", partial(_describe, server, app, admission, Growth(SHED, "class")))
        self.services = in_force.services = ServiceGroup(
            actors,
            authenticator,
            projects,
            reads,
            actions,
            Functions(configure=lambda fresh: admission.configure(fresh.overload)),
            Functions(start=partial(lifecycle.on_reload, in_force.take)),
            feed,
            Background(partial(Drains(store).follow, slot, self._take_no_new_work, status), "drains"),
            Together(
                ItemMetrics(store, name, settings),
                FleetMetrics(store, name),
                ApprovalMetrics(store, settings, name),
                ProjectHealing(store, name),
                QueueDepth(store, StepStore(store, Handoff.of(settings, store)), name),
                Webhooks(settings, store, feed, name),
            ),
            Background(partial(watch, server, app, admission, metrics_dir, store.report_shards), "loop-probe"),
            OperatorsPort(app.admin, settings, "admin_port", settings.admin_port),
            app,
            Functions(start=self._settle),
            server,
            *(toolset.service for toolset in toolsets.values()),
            Functions(stop=app.begin_drain),
            Background(lambda: announce(app, lifecycle, server.port), "announcing"),
        )

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then drains."""
        tools = (tool.name for toolset in self._toolsets.values() for tool in toolset.tools)
        start_metrics((*TASK_METHODS, *tools), (script.name for script in Script.registered()))
        await self.services.start()
        await asyncio.wait([self._server.ended, self._stop], return_when=FIRST_COMPLETED)
        left = ORPHAN_SECONDS + LEAVE_SECONDS if self._lifecycle.orphaned else self._drain_seconds - _MARGIN_SECONDS
        await self.services.stop(asyncio.get_running_loop().time() + left)
        await self._server.ended

    async def _take_no_new_work(self, scope: str) -> None:
        self._admission.draining = bool(scope)
        await self._app.take_no_new_work(scope)

    def _settle(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._told)
        # Everything loaded by now stays, so garbage collection can skip it.
        gc.collect()
        gc.freeze()
        # Calls create no reference cycles, so collections find little; and with thousands of connections, one takes as
        # long as answering a hundred calls.
        gc.set_threshold(10_000, 20, 50)

    def _told(self) -> None:
        if not self._stop.done():
            self._stop.set_result(None)
        elif self._lifecycle.orphaned:
            # The supervisor died during the drain, and the kernel sent the signal. Only shorten the drain.
            self._server.hurry(ORPHAN_SECONDS)
        else:
            # A second signal: do not wait.
            self._server.hurry(0)


def start_metrics(tools: Iterable[str], scripts: Iterable[str]) -> None:
    """Starts the metrics of a front-end at 0. From now on, other tools and scripts count as ``other``."""
    names, known = set(tools), set(scripts)
    for by_tool in (REQUESTS, REQUEST_DURATION):
        by_tool.only_allow("tool", names)
    for by_script in (SCRIPT_DURATION, SCRIPT_FAILURES):
        by_script.only_allow("script", known)
    start("frontend")


def _observer(admission: Admission | ShardedAdmission) -> Observe:
    """Reports each call to the store to the metrics and to admission."""
    if isinstance(admission, ShardedAdmission):
        learn_of_shard = admission.store_call

        def observe_shard(script: str, seconds: float, outcome: str, project: str) -> None:
            script_ended(script, seconds, outcome)
            if outcome not in WITHOUT_REPLY:
                learn_of_shard(seconds, outcome != "unavailable", project)

        return observe_shard
    learn = admission.store_call

    def observe(script: str, seconds: float, outcome: str, project: str) -> None:
        script_ended(script, seconds, outcome)
        if outcome not in WITHOUT_REPLY:
            learn(seconds, outcome != "unavailable")

    return observe


class McpServer(QuietServer, Service):
    """The server of the MCP endpoint; it drops no connection when it stops."""

    def __init__(self, app: FrontEnd, settings: Settings) -> None:
        super().__init__(
            server_config(
                app,
                http_protocol(app, settings.max_header_bytes),
                lifespan="off",
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=settings.drain_seconds,
            )
        )
        self.port = settings.port
        self._app, self._host = app, settings.host
        self._sock: socket.socket | None = None
        self._fresh: set[asyncio.Task[Any]] = set()
        loop = asyncio.get_running_loop()
        self._listening: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Completed when it serves no more."""

    async def start(self) -> None:
        """Returns when it listens. Raises ProcessProblem: it cannot."""
        self._sock = listening(self._host, self.port)
        self.port = self._sock.getsockname()[1]
        self.ended = asyncio.create_task(self.serve([self._sock]), name="mcp")
        await asyncio.wait([self.ended, self._listening], return_when=FIRST_COMPLETED)
        if self.ended.done():
            await self.ended

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set_result(None)

    async def stop(self, deadline: float = 0.0) -> None:
        """Serves new connections for a moment, and then ends when the requests in flight are answered."""
        loop = asyncio.get_running_loop()
        if not self._listening.done():
            await end_tasks(self.ended)
        if not self.ended.done():
            self.hurry(seconds := round(max(deadline - loop.time() - LEAVE_SECONDS, 0.5), 2))
            _log.info("draining", in_flight=self._app.in_flight, seconds=seconds)
            await asyncio.wait([self.ended], timeout=GRACE_SECONDS)
            self.leave()
            await self.ended
        if self._sock is not None:
            self._sock.close()

    def hurry(self, seconds: float) -> None:
        """Makes a stop wait only so long for requests in flight; 0: it ends at once."""
        if seconds:
            self.config.timeout_graceful_shutdown = seconds  # type: ignore[assignment] # seconds, which may be fractions
        else:
            self.force_exit = self.should_exit = True

    def leave(self) -> None:
        """Stops listening, and exits when the last request is answered."""
        loop = asyncio.get_running_loop()
        kind: Any = self.config.http_protocol_class
        # Made as uvicorn makes it.
        protocol = partial(kind, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        # When the socket is closed, the kernel resets the connections in its backlog. So accept all of them first.
        # OSError: the backlog is empty; or descriptors have run out, or the socket is closed already.
        with contextlib.suppress(OSError):
            while self._sock is not None:
                connection, _ = self._sock.accept()
                self._fresh.add(loop.create_task(loop.connect_accepted_socket(protocol, connection)))
        for server in self.servers:
            server.close()
        loop.call_later(FRESH_SECONDS, self._end)

    def _end(self) -> None:
        self.should_exit = True


async def announce(app: FrontEnd, lifecycle: Lifecycle, port: int) -> None:
    """Reports that this process is ready, after an internal check: a request to the port may reach another process.

    If the store has failed meanwhile, this waits for it: requests have arrived by now, and exiting would drop them. An
    operator's drain is ignored. Reports nothing if the process is stopped before it is ready.
    """
    while True:
        _, checks = await app.readiness()
        if app.draining:
            return
        if checks["checks"]["redis"]["ok"] and checks["checks"]["scripts"]["ok"]:
            break
        await asyncio.sleep(PROBE_SECONDS)
    lifecycle.ready()
    _log.info("front-end ready", port=port)


def _describe(
    server: McpServer,
    app: FrontEnd,
    admission: Admission | ShardedAdmission,
    shed: Growth,
    status: ProcessStatus,
) -> None:
    """Adds to the status of this process what a front-end reports."""
    status.stopping = app.draining
    status.connections = len(server.server_state.connections)
    status.requests = app.in_flight
    status.in_flight, status.limit = admission.in_flight, admission.most
    status.waiting, status.parked = admission.waiting, admission.parked
    status.breaker = admission.shown()
    status.shed_per_second = {name: round(rate, 1) for name, rate in shed.per_second().items() if rate > 0}


async def watch(
    server: McpServer,
    app: FrontEnd,
    admission: Admission | ShardedAdmission,
    metrics_dir: Path,
    report: Callable[[], None] = lambda: None,
) -> None:
    """Samples the lag of the event loop and the resources of this process, until it is cancelled."""
    loop = asyncio.get_running_loop()
    told, shown = loop.time(), False
    while True:
        due = loop.time() + PROBE_SECONDS
        await asyncio.sleep(PROBE_SECONDS)
        process.loop_lag("frontend", max(0.0, loop.time() - due))
        CONNECTIONS.set(len(server.server_state.connections))
        INFLIGHT.set(app.in_flight)
        admission.report()
        report()
        if due >= told + HOT_SECONDS:
            told = due
            found = recording().hot.top(_HOT_ITEMS)
            if found or shown:
                # The disk may be full, or descriptors exhausted; then the other measurements matter most.
                with contextlib.suppress(OSError):
                    publish(metrics_dir, recording().slot, found)
            if found and found[0].losers >= _HOT_LOSERS:
                _log.info("items are contended", items=[msgspec.to_builtins(hot) for hot in found[:3]])
            shown = bool(found)
        process.sample()
