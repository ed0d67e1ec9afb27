"""MCP on stdin and stdout, for one local agent.

Without a Redis or a fleet, sessions share an embedded store on the data directory. The session that started it owns it
(``owner.lock``) and supervises it, as ``fleet up`` does: it restarts the store when that dies or hangs. The others only
connect. When the owner exits, the store stops with it, and one of the others starts it again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import BinaryIO

import structlog

from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.identity.actors.callers import trusting_callers
from coordinator.identity.actors.resolver import Actors
from coordinator.metrics import tracing
from coordinator.processes.authentication import build_authenticator, stdio_principal
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.stores import given_url, open_for_serving, store_failed
from coordinator.processes.supervision.cluster_supervisor import ClusterSupervisor, embedded_store
from coordinator.processes.supervision.store_supervisor import StoreSupervisor
from coordinator.service import Background, Functions, ServiceGroup
from coordinator.settings import Settings
from coordinator.store import Store, StoreError
from coordinator.store.embedded.server import DataDirBusy, find_running
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services
from coordinator.transport.projects import Projects
from coordinator.transport.rounds.sealing import Seals
from coordinator.transport.stdio.server import serve_stdio

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.2
_STOP_SECONDS = 1.0
"""How long calls in flight may take after a signal: hosts kill a server that has not ended after two seconds."""


class _Serving(Background):
    """Serves the client; when it stops, its input ends.

    Args:
        serve: returns whether the input was read to its end.
    """

    def __init__(self, serve: Callable[[asyncio.Future[None]], Awaitable[bool]]) -> None:
        super().__init__(self._serve, "stdio")
        self._serving = serve
        self._hung_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.read = False
        """Whether all that the client has sent was served."""

    async def _serve(self) -> None:
        self.read = await self._serving(self._hung_up)

    async def stop(self, deadline: float = 0.0) -> None:
        if not self._hung_up.done():
            self._hung_up.set_result(None)
        if self.task is not None:
            await asyncio.wait([self.task], timeout=max(deadline - asyncio.get_running_loop().time(), 0.0))
            # Not waited for: the client may not read its answers, and a thread that writes cannot be cancelled.
            self.task.cancel()


class StdioSession:
    """One client's session.

    Args:
        names: the toolsets that it gets.
        token: the client's; None: it has none.
        agent: whom the toolset worker takes the client for, unless the token says so.
    """

    def __init__(
        self,
        settings: Settings,
        names: tuple[str, ...],
        project: str,
        streams: tuple[BinaryIO, BinaryIO],
        token: str | None,
        agent: str,
    ) -> None:
        self._settings = settings
        self._names = names
        self._project = project
        self._streams = streams
        self._token = token
        self._agent = agent
        self._embedded: StoreSupervisor | ClusterSupervisor | None = None
        """None: it uses a given store."""
        self._owns = False
        """Whether it started the embedded store."""

    async def run(self) -> bool:
        """Serves; returns whether it has served all that the client sent.

        Raises:
            ProcessProblem: it cannot start.
        """
        try:
            url = await self._store_url()
            store = await open_for_serving(self._settings, url)
            try:
                return await self._serve(store, url)
            finally:
                await store.close()
        finally:
            if self._embedded is not None:
                await self._embedded.stop()

    def compose(self, store: Store, url: str) -> ServiceGroup:
        settings = self._settings
        actors, feed = Actors(settings.actor_authentication, store), FeedReader(store)
        authenticator = build_authenticator(settings, store)
        if tracing.active() is not None:
            store.observe = tracing.observing(lambda *_: None)
        toolsets = load_toolsets(Services(settings, store, trusting_callers(actors.resolve), Waits(feed)))
        self._serving = _Serving(
            lambda hung_up: serve_stdio(
                settings,
                toolsets,
                self._names,
                self._project,
                self._streams,
                self._principal,
                Projects(store, settings.projects),
                hung_up,
                Seals(store, settings),
                feed,
                self._agent,
                authenticator.rights,
            )
        )
        self._keeping = Background(partial(self._keep_embedded, store, url), "embedded store")

        async def identify() -> None:
            self._principal = await stdio_principal(authenticator, self._token, self._project)

        # Serving makes all schemas before it first waits. Connections that toolsets begin before time out meanwhile.
        own = (one.service for one in toolsets.values())
        return ServiceGroup(actors, authenticator, feed, Functions(start=identify), self._serving, *own, self._keeping)

    async def _serve(self, store: Store, url: str) -> bool:
        loop = asyncio.get_running_loop()
        stop: asyncio.Future[None] = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: None if stop.done() else stop.set_result(None))
        services = self.compose(store, url)
        try:
            await services.start()
            done, _ = await asyncio.wait(
                filter(None, (self._serving.task, self._keeping.task, stop)), return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                await task
            return self._serving.read
        finally:
            await services.stop(loop.time() + _STOP_SECONDS)

    async def _store_url(self) -> str:
        """The URL of the given Redis, else of a running fleet's, else of an embedded one started here."""
        settings = self._settings
        url = given_url(settings)
        if url:
            return url
        # If it moves, _keep_embedded notices, as for other sessions' stores.
        self._embedded = embedded_store(settings, lambda: None)
        while True:
            running_url = await self._running()
            if running_url is not None:
                return running_url
            try:
                await self._own(self._embedded)
                return self._embedded.url
            except DataDirBusy:
                # Another process is just starting or stopping a server, or its server hangs.
                await asyncio.sleep(_LOOK_SECONDS)
            except StoreError as error:
                raise store_failed(error) from None

    async def _own(self, embedded: StoreSupervisor | ClusterSupervisor) -> None:
        """Starts an embedded store and watches it. Raises StoreError."""
        await embedded.start()
        self._owns = True

    async def _running(self) -> str | None:
        return await asyncio.to_thread(find_running, self._settings.data_dir)

    async def _keep_embedded(self, store: Store, url: str) -> None:
        """Starts and owns an embedded store when the owner of the one in use has exited.

        Raises:
            ProcessProblem: the store has another address now.
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if store.connected or self._embedded is None:
                continue
            if not self._owns:
                try:
                    await self._own(self._embedded)
                except DataDirBusy:
                    pass  # its owner is just starting or stopping it
                except StoreError as error:
                    _log.error("the embedded store does not start", reason=str(error))
                    continue
            if (await self._running() or url) != url:
                raise ProcessProblem("the embedded store has moved to another address; start again")
