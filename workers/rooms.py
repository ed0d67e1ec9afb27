"""The rooms whose steps a worker executes, and what they call."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.identity.actors import Actors
from coordinator.identity.callers import trusting_callers
from coordinator.settings import Settings
from coordinator.steps.names import callables
from coordinator.steps.room import Isolated, StepRoom
from coordinator.store import Store
from coordinator.toolsets import load_toolsets
from coordinator.toolsets.flows.room import FlowRoom
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.tool import Services
from workers.tools.demo import DemoTools
from workers.tools.own import OwnTools
from workers.tools.python import PythonTools
from workers.tools.registry import StepTools
from workers.tools.rights import Rights
from workers.tools.source import Source


def step_tools(settings: Settings, store: Store, isolated: Isolated) -> StepTools:
    """Every tool that steps may call.

    Args:
        isolated: runs Python callables that are no coroutine functions.
    """
    actors = Actors(settings.actor_authentication, store)
    toolsets = load_toolsets(Services(settings, store, trusting_callers(actors.resolve)))
    sources: list[Source] = [OwnTools(toolsets, actors), PythonTools(callables(settings), isolated)]
    if settings.flows.demo_tools:
        sources.append(DemoTools(store))
    servers = {name: one for name, one in (settings.connections or {}).items() if one.kind == "mcp"}
    if servers:
        # Imported here: the MCP client takes a second, and many a fleet does without.
        from workers.tools.downstream import ServerTools

        sources += [ServerTools(name, connection) for name, connection in servers.items()]
    return StepTools(sources, Rights(settings))


def make_rooms(settings: Settings, store: Store, isolated: Isolated) -> Mapping[str, StepRoom]:
    """Every room, by name."""
    tools = step_tools(settings, store, isolated)
    flows = FlowRoom(FlowStore(store, settings), tools.permits, tools)
    return {flows.name: flows}
