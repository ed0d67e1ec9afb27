"""discover, list_workflows and health_check: the tools that need no session."""

from __future__ import annotations

from time import monotonic

from coordinator import __version__
from coordinator.toolsets.sessions.contract.arguments import NoArguments
from coordinator.toolsets.sessions.contract.results import Health
from coordinator.toolsets.sessions.rules import texts
from coordinator.toolsets.sessions.tools.desk import SERVER, Desk, in_json, in_text
from coordinator.toolsets.tool import Call, Reply, Tool

_DISCOVER = (
    "Entry point: who this server is, and the procedure by which an agent begins. Call it first; then list_workflows "
    "and start_session. Needs no session."
)
_LIST = (
    "The workflows on offer, each with id, title, version and tags, to match a user's goal to one of them. Needs no "
    "session."
)
_HEALTH = "Whether the server is healthy, its version, how many workflows there are and how long it is up."


def tools(desk: Desk) -> tuple[Tool, ...]:
    """discover, list_workflows, health_check."""

    async def discover(_call: Call, _args: NoArguments) -> Reply:
        return in_text(texts.discovery(SERVER, __version__, desk.current))

    async def list_workflows(_call: Call, _args: NoArguments) -> Reply:
        return in_text(texts.listing(desk.current))

    async def health_check(_call: Call, _args: NoArguments) -> Reply:
        await desk.store.ping()
        health = Health(
            status="healthy",
            server=SERVER,
            version=__version__,
            workflows_available=len(texts.listed(desk.current)),
            uptime_seconds=int(monotonic() - desk.started),
        )
        return in_json(health, None)

    return (
        Tool("discover", _DISCOVER, NoArguments, (), discover, read_only=True),
        Tool("list_workflows", _LIST, NoArguments, (), list_workflows, read_only=True),
        Tool("health_check", _HEALTH, NoArguments, (Health,), health_check, read_only=True),
    )
