"""The sources of tools for the downstream servers at the top of the settings, as these are reloaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from coordinator.settings import Settings
from workers.connections.pool import Connections
from workers.tools.source import Source

if TYPE_CHECKING:
    from workers.tools.downstream import ServerTools


class ServerSources:
    """Makes a source for each server. Those of the gateway have none, because its guards protect them.

    Args:
        connections: the servers as they are configured now.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._made: dict[str, ServerTools] = {}

    def __call__(self, settings: Settings) -> Sequence[Source]:
        """The sources under some settings; the same as before for names that stay."""
        names = [name for name, connection in (settings.connections or {}).items() if connection.kind == "mcp"]
        self._made = {name: self._made.get(name) or self._new(name) for name in names}
        return list(self._made.values())

    def _new(self, name: str) -> ServerTools:
        # Imported here: importing the MCP client takes a second, and many fleets do not need it.
        from workers.tools.downstream import ServerTools

        here = self._connections
        return ServerTools(name, partial(here.server, name), partial(here.callee, name))
