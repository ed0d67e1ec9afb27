"""Keeps the lists of downstream servers' tools, in one worker for the whole fleet.

Several servers are asked at a time, and a dead one does not delay the others for long. Its tools stay listed, but as
unavailable. A list is renewed on schedule, and when its server says that it changed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
import structlog

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.toolsets.gateway.rules.catalogue import ImportedTool, LeftOut, ServerTools
from coordinator.toolsets.gateway.rules.schemas.inputs import MAX_DEPTH, schema_problem, too_deep
from coordinator.toolsets.gateway.rules.schemas.lenient import mended
from coordinator.toolsets.gateway.rules.task import Event
from coordinator.toolsets.gateway.store.audit import OWN_PROJECT, AuditStore
from coordinator.toolsets.gateway.store.servers import ServerStore
from workers.connections.pool import Connections

if TYPE_CHECKING:
    from workers.downstream.server import ListedTool

_log = structlog.get_logger(__name__)

REFRESH_SECONDS = 300.0
RETRY_SECONDS = 5.0
"""The pause before a server that did not answer is asked again."""
REST_SECONDS = 1.0
"""The shortest time between two requests to a server: some report changed tools on every request."""
LEASE_MS = 20_000
"""How long a leader lease lasts after its last renewal."""
LOOK_SECONDS = 5.0
"""How often a worker checks whether it leads, and which lists are due."""
_LIST_SECONDS = 60.0
"""How long a server may take to list its tools."""
MOST_AT_ONCE = max(4, 2 * (os.cpu_count() or 1))
"""How many servers are asked at a time: each may have to be started first, which takes a second of a processor."""
TURN_SECONDS = 2.0
"""After this time the next server is asked, too: one that does not answer delays no other for long."""
_LEASE = "servers"
"""The name of the leader's lease."""
_MAX_DESCRIPTION = 4_000
"""Most characters of a tool's description that are kept."""
_MAX_NAME, _MAX_REASON = 128, 300
"""Most characters of the name of a tool that is left out, and of the reason."""
MOST_LEFT_OUT = 500
"""How many tools that are left out are named for each server; the others are counted."""


class _NotListed(Exception):
    """A server does not list its tools. The text says why."""


class ServerLists:
    """Keeps the lists while this worker leads.

    Args:
        connections: the sessions with the servers.
    """

    def __init__(self, settings: Settings, store: Store, connections: Connections) -> None:
        self._settings = settings
        self._servers = ServerStore(store)
        self._leases = LeaderLeases(store)
        self._audit = AuditStore(store, settings)
        self._connections = connections
        self._process = uuid4().hex
        self._leads = False
        self._asked: dict[str, float] = {}
        """When each server was last asked, by ``monotonic``."""
        self._hints: set[str] = set()
        """Servers whose lists may have changed."""
        self._look = asyncio.Event()
        self._known: dict[str, ServerTools] = {}

    def changed(self, name: str) -> None:
        """Notes that a server's tools changed, or that it could not be reached. This worker asks it, leader or not."""
        self._hints.add(name)
        self._look.set()

    def configure(self, settings: Settings) -> None:
        self._settings = settings
        self._asked.clear()
        self._look.set()

    async def run(self) -> None:
        try:
            while True:
                self._look.clear()
                try:
                    await self._lead()
                except ToolFailure as failure:
                    _log.warning("lists of downstream servers cannot be kept", reason=failure.message)
                if self._hints:
                    await asyncio.sleep(REST_SECONDS)
                    continue
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._look.wait()
                except TimeoutError:
                    pass  # nothing changed, but a list may be due
        finally:
            if self._leads:
                await self._leases.release(_LEASE, self._process)

    async def _lead(self) -> None:
        """Asks the servers that are due: after a hint in any case, on schedule only if this worker leads."""
        wanted = self._wanted()
        self._hints &= wanted
        if wanted or self._leads:
            self._leads = await self._leases.acquire(_LEASE, self._process, LEASE_MS)
        hinted = {name for name in self._hints if self._has_rested(name, REST_SECONDS)}
        if not self._leads and not hinted:
            return
        # Read again, because other workers may have asked servers meanwhile.
        time = await self._servers.time()
        self._known = dict(await self._servers.read())
        due = hinted | ({name for name in wanted if self._is_due(name)} if self._leads else set())
        self._hints -= due
        turns = asyncio.Semaphore(MOST_AT_ONCE)
        await asyncio.gather(*(self._ask_in_turn(turns, name, time) for name in due))
        for gone in self._known.keys() - wanted if self._leads else ():
            await self._servers.forget(gone, time)

    def _is_due(self, name: str) -> bool:
        known = self._known.get(name)
        pause = REFRESH_SECONDS if known is None or known.available else RETRY_SECONDS
        return self._has_rested(name, pause)

    def _has_rested(self, name: str, seconds: float) -> bool:
        """Whether the last request to a server is at least ``seconds`` old."""
        return self._asked.get(name, float("-inf")) + seconds <= monotonic()

    def _wanted(self) -> set[str]:
        gateway = self._settings.gateway
        return {entry.connection for entry in gateway.proxy.imports} if gateway is not None else set()

    async def _ask_in_turn(self, turns: asyncio.Semaphore, name: str, now: int) -> None:
        async with turns:
            asking = asyncio.create_task(self._ask(name, now), name=f"list {name}")
            try:
                await asyncio.wait([asking], timeout=TURN_SECONDS)
            except asyncio.CancelledError:
                asking.cancel()
                raise
        await asking

    async def _ask(self, name: str, now: int) -> None:
        """Asks one server for its tools, and keeps the answer.

        Args:
            now: Unix ms. An answer does not replace one that was asked for later.
        """
        self._asked[name] = monotonic()
        before = self._known.get(name)
        payload: dict[str, Any] = {"connection": name}
        try:
            listed = await self._listed(name)
        except _NotListed as failed:
            last = before or ServerTools()
            known = msgspec.structs.replace(last, available=False, reason=str(failed))
            event, payload["reason"] = "capability.discovery_failed", str(failed)
        else:
            known = listed
            event, payload["tools"] = "capability.discovered", len(listed.tools)
            if listed.left_out:
                payload["leftOut"] = len(listed.left_out) + listed.more_left_out
        self._known[name] = known
        try:
            # Written even if nothing changed, because an older answer may be on its way to the store.
            newest = await self._servers.write(name, known, now)
        except ToolFailure:
            self._hints.add(name)  # so that it is asked again soon, not only when it is due
            raise
        if known == before or not newest:
            return
        if not known.available:
            _log.warning("a downstream server does not list its tools", **payload)
        await self._audit.write(OWN_PROJECT, [Event(event, msgspec.json.encode(payload).decode())])

    async def _listed(self, name: str) -> ServerTools:
        """The tools of a server.

        Raises:
            _NotListed: the server does not list them.
        """
        server = self._connections.server(name)
        if server is None:
            raise _NotListed("there is no such connection")
        from workers.downstream.failures import CallRefused, ConnectionFailed

        try:
            async with asyncio.timeout(_LIST_SECONDS):
                tools = await server.tools()
        except TimeoutError:
            self._connections.outcomes.noting(name)("it does not answer in time")
            raise _NotListed("it does not answer in time") from None
        except (ConnectionFailed, CallRefused) as failed:
            raise _NotListed(str(failed)) from None
        # In a thread, because it takes a while with thousands of tools.
        return await asyncio.to_thread(_usable, sorted(tools, key=lambda tool: tool.name))


def _usable(tools: Sequence[ListedTool]) -> ServerTools:
    """The tools that can be offered, and why the others cannot."""
    usable: list[ImportedTool] = []
    left_out: list[LeftOut] = []
    for tool in tools:
        schema, problem = _usable_schema(msgspec.json.encode(tool.input_schema))
        if problem := tool.problem or problem:
            left_out.append(LeftOut(tool.name[:_MAX_NAME], problem[:_MAX_REASON]))
        else:
            usable.append(ImportedTool(tool.name, tool.title, tool.description[:_MAX_DESCRIPTION], schema))
    return ServerTools(tuple(usable), True, "", tuple(left_out[:MOST_LEFT_OUT]), len(left_out[MOST_LEFT_OUT:]))


@lru_cache(maxsize=20_000)
def _usable_schema(encoded: bytes) -> tuple[dict[str, Any], str]:
    """The schema of a tool's input, mended if it is invalid; and what is wrong with it, empty if nothing is."""
    schema = msgspec.json.decode(encoded)
    if too_deep(schema):
        return schema, f"inputSchema is nested more than {MAX_DEPTH} deep"
    if schema_problem(schema):
        schema = mended(schema)
    problem = schema_problem(schema)
    return schema, f"inputSchema {problem}" if problem else ""
