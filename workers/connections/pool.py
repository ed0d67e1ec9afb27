"""The connections of a worker: the configured ones by name, and live sessions with downstream MCP servers.

There is one session with each server; where it keeps states for callers, one for each state that this worker has, and
one to list its tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from coordinator.settings import Settings
from coordinator.settings.sections.connections import Connection
from coordinator.steps.model import StepRun
from coordinator.toolsets.gateway.rules.resolve import all_connections
from workers.connections.outcomes import Outcomes

if TYPE_CHECKING:
    from workers.downstream.server import DownstreamServer
    from workers.states import StateCalls, States


class Connections:
    """The connections of the present settings.

    Args:
        states: the states that this worker has; None: it has none, and gives back steps that need one.
    """

    def __init__(self, settings: Settings, states: States | None = None) -> None:
        self._states = states
        self.on_change: Callable[[str], None] = lambda name: None
        """Called with the name of a server when the tools that are imported from it may have changed."""
        self.outcomes = Outcomes()
        self._stated: Mapping[str, Connection] = {}
        self._watched: Collection[str] = ()
        """The names of servers from which tools are imported."""
        self._servers: dict[str, DownstreamServer] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Applies new settings. Sessions with servers whose settings changed end as soon as their calls have ended."""
        stated = all_connections(settings.gateway, settings.connections)
        watched = {use.connection for use in settings.gateway.proxy.imports} if settings.gateway is not None else set()
        for name in list(self._servers):
            if stated.get(name) != self._stated.get(name) or (name in watched) != (name in self._watched):
                self._close_later(self._servers.pop(name).finish())
        for name, connection in self._stated.items():
            if self._states is not None and connection.state != "none" and stated.get(name) != connection:
                self._close_later(self._states.forget(name))
        self._stated, self._watched = stated, watched
        self.outcomes.configure(stated)

    def get(self, name: str, kind: str) -> Connection | None:
        """The connection with this name and kind; None if there is none now."""
        connection = self._stated.get(name)
        return connection if connection is not None and connection.kind == kind else None

    def server(self, name: str) -> DownstreamServer | None:
        """A downstream MCP server; None if there is none now. It is connected to when it is first called."""
        connection = self.get(name, "mcp")
        if connection is None:
            return None
        server = self._servers.get(name)
        if server is None:
            # Imported here: importing the MCP client takes a second, and many fleets do not need it.
            from workers.downstream.server import DownstreamServer

            callback = (lambda: self.on_change(name)) if name in self._watched else None
            noted = self.outcomes.noting(name)
            server = self._servers[name] = DownstreamServer(name, connection, on_change=callback, on_outcome=noted)
        return server

    def callee(self, name: str, step: StepRun, *, owned: bool = True) -> DownstreamServer | StateCalls | None:
        """The server that a step calls: its own state, where the server keeps one; None if there is none now.

        Args:
            owned: whether it is known for whom the step calls.
        """
        connection = self.get(name, "mcp")
        if connection is None or connection.state == "none":
            return self.server(name)
        from workers.states import StateCalls

        return StateCalls(self._states, name, connection, step, owned, self.outcomes.noting(name))

    def lost(self, name: str) -> None:
        """Notes that a server could not be reached. If tools are imported from it, they are listed again."""
        if name in self._watched:
            self.on_change(name)

    async def close(self) -> None:
        servers, self._servers = list(self._servers.values()), {}
        if self._states is not None:
            await self._states.close()
        await asyncio.gather(*(server.close() for server in servers), *self._closing, return_exceptions=True)

    def _close_later(self, closing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
