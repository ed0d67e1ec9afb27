"""Keeps the lists of downstream servers' tools, in one worker for the whole fleet.

All servers are asked at once, so a dead one keeps no other waiting; the tools that it had stay
listed, as unavailable. A list is renewed when its server says that it changed, and on schedule.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from uuid import uuid4

import msgspec
import structlog

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.gateway.rules.catalogue import ImportedTool, ServerTools
from coordinator.toolsets.gateway.rules.task import Event
from coordinator.toolsets.gateway.store.audit import AuditStore
from coordinator.toolsets.gateway.store.servers import ServerStore
from workers.connections import Connections

_log = structlog.get_logger(__name__)

REFRESH_SECONDS = 300.0
RETRY_SECONDS = 15.0
"""When a server is asked again that did not answer."""
TURN_MS = 20_000
LOOK_SECONDS = 5.0
_LIST_SECONDS = 60.0
_OWN_PROJECT = "default"
_WHAT = "servers"
_LONGEST = 4_000


class ServerLists:
    """One worker's part in it.

    Args:
        connections: where the servers are.
    """

    def __init__(self, settings: Settings, store: Store, connections: Connections) -> None:
        self._settings = settings
        self._servers = ServerStore(store)
        self._audit = AuditStore(store, settings)
        self._connections = connections
        self._process = uuid4().hex
        self._due: dict[str, float] = {}
        self._look = asyncio.Event()
        self._known: dict[str, ServerTools] = {}

    def changed(self, name: str) -> None:
        """A server said that its tools are others now."""
        self._due[name] = 0.0
        self._look.set()

    def configure(self, settings: Settings) -> None:
        """Goes by other settings."""
        self._settings = settings
        self._due.clear()
        self._look.set()

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        leads = False
        try:
            while True:
                self._look.clear()
                try:
                    leads = await self._turn(leads)
                except ToolFailure as failure:
                    _log.warning("lists of downstream servers cannot be kept", reason=failure.message)
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._look.wait()
                except TimeoutError:
                    pass  # time to look again
        finally:
            if leads:
                await self._leave()

    async def _turn(self, leads: bool) -> bool:
        """Does what is due, if it is this worker's turn; returns whether it is."""
        wanted = self._wanted()
        if not wanted and not leads:
            return False
        if not await self._servers.turn(_WHAT, self._process, TURN_MS):
            self._due.clear()
            return False
        if not leads:
            # Others may have found out things since.
            self._known = dict(await self._servers.read())
        for gone in self._known.keys() - wanted:
            await self._servers.forget(gone)
            del self._known[gone]
        due = [name for name in wanted if self._due.get(name, 0.0) <= monotonic()]
        await asyncio.gather(*(self._ask(name) for name in due))
        return True

    def _wanted(self) -> set[str]:
        gateway = self._settings.gateway
        return {one.connection for one in gateway.proxy.imports} if gateway is not None else set()

    async def _ask(self, name: str) -> None:
        """Asks one server for its tools, and keeps what it says."""
        self._due[name] = monotonic() + REFRESH_SECONDS
        before = self._known.get(name)
        found, reason = await self._listed(name)
        if found is None:
            self._due[name] = monotonic() + RETRY_SECONDS
            known = ServerTools(before.tools if before is not None else (), False, reason)
        else:
            known = ServerTools(found)
        if known == before:
            return
        self._known[name] = known
        await self._servers.write(name, known)
        if found is not None:
            event = "capability.discovered", {"connection": name, "tools": len(found)}
        else:
            event = "capability.discovery_failed", {"connection": name, "reason": reason}
            _log.warning("a downstream server does not list its tools", connection=name, reason=reason)
        kind, payload = event
        await self._audit.write(_OWN_PROJECT, [Event(kind, msgspec.json.encode(payload).decode())])

    async def _listed(self, name: str) -> tuple[tuple[ImportedTool, ...] | None, str]:
        """The tools of a server, or None and why there are none to be had."""
        server = self._connections.server(name)
        if server is None:
            return None, "there is no such connection"
        from coordinator.steps.downstream import CallRefused, ConnectionFailed

        try:
            async with asyncio.timeout(_LIST_SECONDS):
                tools = await server.tools(fresh=True)
        except TimeoutError:
            return None, "it does not answer in time"
        except (ConnectionFailed, CallRefused) as failed:
            return None, str(failed)
        return tuple(
            ImportedTool(one.name, one.title, one.description[:_LONGEST], dict(one.input_schema))
            for one in sorted(tools, key=lambda tool: tool.name)
        ), ""

    async def _leave(self) -> None:
        """Lets another worker go on at once."""
        try:
            await self._servers.leave(_WHAT, self._process)
        except ToolFailure:
            pass  # the turn lapses by itself
