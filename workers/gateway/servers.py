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
from coordinator.toolsets.gateway.store.audit import OWN_PROJECT, AuditStore
from coordinator.toolsets.gateway.store.servers import ServerStore
from workers.connections import Connections

_log = structlog.get_logger(__name__)

REFRESH_SECONDS = 300.0
RETRY_SECONDS = 5.0
"""When a server is asked again that did not answer."""
REST_SECONDS = 1.0
"""How long a server is let alone that says its tools changed: some say so whenever they are asked."""
LEASE_MS = 20_000
"""How long the lease is a worker's after it last asked for it."""
LOOK_SECONDS = 5.0
"""How often a worker looks whether it leads, and what is due."""
_LIST_SECONDS = 60.0
"""How long a server may take to list its tools."""
_LEASE = "servers"
"""The name of the leader's lease."""
_MAX_DESCRIPTION = 4_000
"""Characters of a tool's description that are kept."""


class ServerLists:
    """Keeps the lists while this worker leads.

    Args:
        connections: where the servers are.
    """

    def __init__(self, settings: Settings, store: Store, connections: Connections) -> None:
        self._settings = settings
        self._servers = ServerStore(store)
        self._audit = AuditStore(store, settings)
        self._connections = connections
        self._process = uuid4().hex
        self._asked: dict[str, float] = {}
        self._hints: set[str] = set()
        self._look = asyncio.Event()
        self._known: dict[str, ServerTools] = {}

    def changed(self, name: str) -> None:
        """A server said that its tools changed, or could not be reached: this worker asks it, leader or not."""
        self._hints.add(name)
        self._look.set()

    def configure(self, settings: Settings) -> None:
        """Goes by other settings."""
        self._settings = settings
        self._asked.clear()
        self._look.set()

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        leads = False
        try:
            while True:
                self._look.clear()
                try:
                    leads = await self._lead(leads)
                except ToolFailure as failure:
                    _log.warning("lists of downstream servers cannot be kept", reason=failure.message)
                if self._hints:
                    await asyncio.sleep(REST_SECONDS)
                    continue
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._look.wait()
                except TimeoutError:
                    pass  # time to look again
        finally:
            if leads:
                await self._servers.release(_LEASE, self._process)

    async def _lead(self, leads: bool) -> bool:
        """Does what is due, if this worker leads, and what it knows to be due; returns whether it leads."""
        wanted = self._wanted()
        self._hints &= wanted
        if wanted or leads:
            leads = await self._servers.acquire(_LEASE, self._process, LEASE_MS)
        hinted = {name for name in self._hints if self._has_rested(name, REST_SECONDS)}
        if not leads and not hinted:
            return leads
        # Other workers may have asked servers meanwhile.
        asked = await self._servers.time()
        self._known = dict(await self._servers.read())
        due = hinted | ({name for name in wanted if self._is_due(name)} if leads else set())
        self._hints -= due
        await asyncio.gather(*(self._ask(name, asked) for name in due))
        for gone in self._known.keys() - wanted if leads else ():
            await self._servers.forget(gone, asked)
        return leads

    def _is_due(self, name: str) -> bool:
        known = self._known.get(name)
        pause = REFRESH_SECONDS if known is None or known.available else RETRY_SECONDS
        return self._has_rested(name, pause)

    def _has_rested(self, name: str, seconds: float) -> bool:
        """Whether a server was not asked for so long."""
        return self._asked.get(name, float("-inf")) + seconds <= monotonic()

    def _wanted(self) -> set[str]:
        gateway = self._settings.gateway
        return {one.connection for one in gateway.proxy.imports} if gateway is not None else set()

    async def _ask(self, name: str, now: int) -> None:
        """Asks one server for its tools, ``now`` in Unix ms, and keeps what it says."""
        self._asked[name] = monotonic()
        before = self._known.get(name)
        found, reason = await self._listed(name)
        if found is None:
            known = ServerTools(before.tools if before is not None else (), False, reason)
        else:
            known = ServerTools(found)
        self._known[name] = known
        try:
            # Also where nothing is new: an answer that is older may be on its way.
            newest = await self._servers.write(name, known, now)
        except ToolFailure:
            self._hints.add(name)  # for the next look, not only when it is due
            raise
        if known == before or not newest:
            return
        if found is not None:
            event = "capability.discovered", {"connection": name, "tools": len(found)}
        else:
            event = "capability.discovery_failed", {"connection": name, "reason": reason}
            _log.warning("a downstream server does not list its tools", connection=name, reason=reason)
        kind, payload = event
        await self._audit.write(OWN_PROJECT, [Event(kind, msgspec.json.encode(payload).decode())])

    async def _listed(self, name: str) -> tuple[tuple[ImportedTool, ...] | None, str]:
        """The tools of a server, or None and the reason why they cannot be listed."""
        server = self._connections.server(name)
        if server is None:
            return None, "there is no such connection"
        from workers.downstream.failures import CallRefused, ConnectionFailed

        try:
            async with asyncio.timeout(_LIST_SECONDS):
                tools = await server.tools()
        except TimeoutError:
            return None, "it does not answer in time"
        except (ConnectionFailed, CallRefused) as failed:
            return None, str(failed)
        return tuple(
            ImportedTool(one.name, one.title, one.description[:_MAX_DESCRIPTION], dict(one.input_schema))
            for one in sorted(tools, key=lambda tool: tool.name)
        ), ""
