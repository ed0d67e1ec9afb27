"""Shared by the tools of this toolset in one process: the current catalogue and the store."""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from coordinator.errors import ToolFailure
from coordinator.service import Service, Tasks
from coordinator.settings import Settings
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.store.idempotency import idempotency_key
from coordinator.toolsets.gateway.listener import Listener
from coordinator.toolsets.gateway.metrics import SERVERS_UNAVAILABLE
from coordinator.toolsets.gateway.operations import Operations
from coordinator.toolsets.gateway.rules.catalogue import Catalogue, Servers
from coordinator.toolsets.gateway.rules.links import Links
from coordinator.toolsets.gateway.rules.task import Event
from coordinator.toolsets.gateway.store.audit import OWN_PROJECT, AuditStore
from coordinator.toolsets.gateway.store.instances import InstanceStore
from coordinator.toolsets.gateway.store.servers import ServerStore
from coordinator.toolsets.tool import Services
from coordinator.toolsets.waiting.reads import WaitingReads

_log = structlog.get_logger(__name__)

REFRESH_SECONDS = 60.0
"""How often a process rereads the tools of downstream servers without a message."""


class Backend(Service):
    """The shared state of the gateway's tools in one process."""

    def __init__(self, services: Services) -> None:
        store, settings = services.store, services.settings
        self.waiting = WaitingReads(services)
        self.links = Links(settings.tool_name_style == "underscore")
        self.servers_changed = asyncio.Event()
        """Set when the tools of downstream servers are to be read again."""
        self.listener = Listener(store, self.servers_changed.set)
        self.instances = InstanceStore(store, settings)
        self.audit = AuditStore(store, settings)
        times = settings.request_deadline_ms, settings.longest_wait_ms
        self.operations = Operations(store, self.instances, self.audit, self.listener, *times)
        self._servers = ServerStore(store)
        self._leases = LeaderLeases(store)
        self._settings = settings
        self._known: Servers = {}
        self.catalogue = Catalogue(settings.gateway, settings.connections)
        """The current catalogue. It is replaced as a whole, never changed."""
        self._started = self._following = False
        self._tasks = Tasks()

    # --- settings ---------------------------------------------------------------------------------

    def configure(self, settings: Settings) -> None:
        """Applies new settings to later calls. Instances keep the definitions they started with."""
        before, self._settings = self._settings, settings
        if (settings.gateway, settings.connections) == (before.gateway, before.connections):
            return
        self._replace(Catalogue(settings.gateway, settings.connections, self._known))
        if self._started and settings.gateway != before.gateway:
            self._begin()
            self._tasks.spawn(self._audit_event("config.reloaded"), "gateway reload")

    async def start(self) -> None:
        """Begins to follow changes of downstream servers, if a gateway is configured."""
        self._started = True
        self._begin()

    def _begin(self) -> None:
        if self._following or self._settings.gateway is None:
            return
        self._following = True
        self.listener.start()
        self._tasks.spawn(self._follow_servers(), "gateway servers")
        self._tasks.spawn(self._audit_event("server.initialized"), "gateway start")

    async def stop(self, deadline: float = 0.0) -> None:
        await self.waiting.stop()
        await self.listener.close()
        await self._tasks.stop()

    def _replace(self, catalogue: Catalogue) -> None:
        if self._started:
            catalogue.prepare()
        self.catalogue = catalogue

    async def _follow_servers(self) -> None:
        while True:
            # Cleared before reading, so that a change published meanwhile leads to another read.
            self.servers_changed.clear()
            try:
                await self._take_servers()
            except ToolFailure as failure:
                _log.warning("tool lists of downstream servers cannot be read", reason=failure.message)
            except Exception:
                # The current catalogue stays, and the next message may bring a usable one.
                _log.exception("tool lists of downstream servers cannot be used")
            try:
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self.servers_changed.wait()
            except TimeoutError:
                pass  # reads again in case a message was missed

    async def _take_servers(self) -> None:
        gateway = self._settings.gateway
        if gateway is None or not (gateway.proxy.imports or "connections" in gateway.discovery.include):
            return
        known = await self._servers.read()
        if known == self._known:
            return
        settings = self._settings
        # In a thread, because it takes a while with thousands of tools.
        made = await asyncio.to_thread(_prepared, settings, known)
        self._known = known
        if settings is self._settings:
            self._replace(made)
        else:
            self._replace(Catalogue(self._settings.gateway, self._settings.connections, known))
        wanted = {use.connection for use in gateway.proxy.imports}
        SERVERS_UNAVAILABLE.set(sum(not known[name].available for name in wanted & known.keys()))

    async def _audit_event(self, event: str) -> None:
        """Records the active definitions in the audit: each process at its start, one process after a reload."""
        gateway = self._settings.gateway
        version = idempotency_key("", "", "gateway", msgspec.to_builtins(gateway)).fingerprint
        facts = {"version": version, "items": len(self.catalogue.items)}
        try:
            if event == "server.initialized":
                facts["process"] = self.listener.process
            elif not await self._leases.acquire(f"reload {version}", self.listener.process, 60_000):
                return
            await self.audit.write(OWN_PROJECT, [Event(event, msgspec.json.encode(facts).decode())])
        except ToolFailure as failure:
            _log.warning("an event is not in the gateway's audit", event_type=event, reason=failure.message)


def _prepared(settings: Settings, servers: Servers) -> Catalogue:
    made = Catalogue(settings.gateway, settings.connections, servers)
    made.prepare()
    return made
