"""discover, list_workflows and health_check: the tools that need no session."""

from __future__ import annotations

from time import monotonic

from coordinator import NAME, __version__
from coordinator.toolsets.sessions.contract.arguments import NoArguments
from coordinator.toolsets.sessions.contract.results import Health
from coordinator.toolsets.sessions.rules import texts
from coordinator.toolsets.sessions.tools.backend import Backend, in_json, in_text
from coordinator.toolsets.tool import Call, Criticality, Reply, Tool

_DISCOVER = (
    "Entry point: the server's name and version, and the bootstrap procedure for agents. Call it first, then "
    "list_workflows and start_session. Needs no session."
)
_LIST = (
    "List the available workflows with id, title, version and tags, to find the one that fits the user's goal. Needs "
    "no session."
)
_HEALTH = "Whether the server is healthy, its version, the number of workflows and its uptime. Needs no session."


class Catalogue:
    """Handlers of the tools without a session."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def discover(self, call: Call, args: NoArguments) -> Reply:
        """The server's name and version, and the bootstrap procedure."""
        return in_text(texts.discovery(NAME, __version__, self._backend.current))

    async def list_workflows(self, call: Call, args: NoArguments) -> Reply:
        return in_text(texts.listing(self._backend.current))

    async def health_check(self, call: Call, args: NoArguments) -> Reply:
        """Whether the server and its store answer."""
        await self._backend.store.ping()
        health = Health(
            status="healthy",
            server=NAME,
            version=__version__,
            workflows_available=len(texts.listed(self._backend.current)),
            uptime_seconds=int(monotonic() - self._backend.started),
        )
        return in_json(health, None)


def tools(backend: Backend) -> tuple[Tool, ...]:
    handle = Catalogue(backend)
    return (
        Tool("discover", _DISCOVER, NoArguments, (), handle.discover, read_only=True),
        Tool(
            "list_workflows",
            _LIST,
            NoArguments,
            (),
            handle.list_workflows,
            read_only=True,
            criticality=Criticality.SHEDDABLE,
        ),
        Tool("health_check", _HEALTH, NoArguments, (Health,), handle.health_check, read_only=True),
    )
