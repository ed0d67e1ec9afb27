"""MCP on stdin and stdout, for one local agent.

Without a Redis or a fleet, sessions share an embedded store on the data directory. The session that started it owns it
(``owner.lock``) and supervises it, as ``fleet up`` does: it restarts the store when that dies or hangs. The others only
connect. When the owner exits, the store stops with it, and one of the others starts it again.
"""

from __future__ import annotations

import asyncio
import signal
from typing import BinaryIO

import structlog

from coordinator.feed import FeedReader
from coordinator.feed.waits import Waits
from coordinator.identity.actors.callers import trusting_callers
from coordinator.identity.actors.resolver import Actors
from coordinator.identity.callers.rights import Rights
from coordinator.metrics import tracing
from coordinator.processes.authentication import running_authenticator, stdio_principal
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.stores import given_url, open_for_serving, store_failed
from coordinator.processes.supervision.cluster_supervisor import ClusterSupervisor, embedded_store
from coordinator.processes.supervision.store_supervisor import StoreSupervisor
from coordinator.settings import Settings
from coordinator.store import Store, StoreError
from coordinator.store.embedded.server import DataDirBusy, find_running
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services, Toolset
from coordinator.transport.projects import Projects
from coordinator.transport.rounds.sealing import Seals
from coordinator.transport.stdio.server import Principal, serve_stdio

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.2
_STOP_SECONDS = 1.0
"""How long calls in flight may take after a signal: hosts kill a server that has not ended after two seconds."""


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

    async def _serve(self, store: Store, url: str) -> bool:
        actors, feed = Actors(self._settings.actor_authentication, store), FeedReader(store)
        await actors.start()
        try:
            async with running_authenticator(self._settings, store) as authenticator:
                principal = await stdio_principal(authenticator, self._token, self._project)
                if tracing.active() is not None:
                    store.observe = tracing.observing(lambda *_: None)
                services = Services(self._settings, store, trusting_callers(actors.resolve), Waits(feed))
                toolsets = load_toolsets(services)
                return await self._speak(toolsets, store, url, principal, feed, authenticator.rights)
        finally:
            await feed.aclose()
            await actors.aclose()

    async def _speak(
        self,
        toolsets: dict[str, Toolset],
        store: Store,
        url: str,
        principal: Principal,
        feed: FeedReader,
        rights: Rights,
    ) -> bool:
        hung_up = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve_stdio(
                self._settings,
                toolsets,
                self._names,
                self._project,
                self._streams,
                principal,
                Projects(store, self._settings.projects),
                hung_up,
                Seals(store, self._settings),
                feed,
                self._agent,
                rights,
            )
        )
        # Serving makes all schemas before it first waits. Connections that begin before time out meanwhile.
        await asyncio.sleep(0)
        for toolset in toolsets.values():
            toolset.start()
        keeping = asyncio.create_task(self._keep_embedded(store, url))
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        stopping = asyncio.create_task(told.wait())
        try:
            done, _ = await asyncio.wait((serving, keeping, stopping), return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, keeping):
                if task in done:
                    await task
            if serving not in done:
                if not hung_up.done():
                    hung_up.set_result(None)
                await asyncio.wait((serving,), timeout=_STOP_SECONDS)
                return False
            return serving.result()
        finally:
            keeping.cancel()
            stopping.cancel()

    async def _store_url(self) -> str:
        """The URL of the given Redis, else of a running fleet's, else of an embedded one started here."""
        settings = self._settings
        url = given_url(settings)
        if url:
            return url
        # If it moves, _keep_embedded notices, as for other sessions' stores.
        self._embedded = embedded_store(settings, lambda: None)
        while True:
            found = await self._running()
            if found is not None:
                return found
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
