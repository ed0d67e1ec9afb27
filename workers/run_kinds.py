"""The kinds of runs whose steps a worker executes, and the tools that these steps call."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.identity.actors.callers import trusting_callers
from coordinator.identity.actors.resolver import Actors
from coordinator.identity.clock import FleetClock
from coordinator.settings import Settings
from coordinator.steps.handoff import Handoff
from coordinator.steps.names import StepNames, callables
from coordinator.steps.run_kind import Isolated, RunKind
from coordinator.steps.store import StepStore
from coordinator.store import Store
from coordinator.toolsets.flows.run_kind import FlowRunKind
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.gateway.listener import Listener
from coordinator.toolsets.gateway.operations import Operations
from coordinator.toolsets.gateway.run_kind import GatewayRunKind
from coordinator.toolsets.gateway.store.audit import AuditStore
from coordinator.toolsets.gateway.store.instances import InstanceStore
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services
from workers.connections.pool import Connections
from workers.gateway.copies import AuditCopies
from workers.gateway.executor import GatewayExecutor
from workers.gateway.servers import ServerLists
from workers.states import States
from workers.tools.demo import DemoTools
from workers.tools.own import OwnTools
from workers.tools.python import PythonTools
from workers.tools.registry import StepTools
from workers.tools.rights import WorkerRights
from workers.tools.servers import ServerSources
from workers.tools.source import Source


def step_tools(
    settings: Settings, store: Store, isolated: Isolated, connections: Connections | None = None
) -> StepTools:
    """Every tool that steps may call.

    Args:
        isolated: runs those Python callables that are not coroutine functions.
        connections: provides the sessions with downstream servers; None: opens its own sessions.
    """
    actors = Actors(settings.actor_authentication, store)
    toolsets = load_toolsets(Services(settings, store, trusting_callers(actors.resolve)))
    sources: list[Source] = [OwnTools(toolsets, actors), PythonTools(callables(settings), isolated)]
    if settings.flows.demo_tools:
        sources.append(DemoTools(store))
    servers = ServerSources(connections or Connections(settings))
    names = StepNames(settings)
    names.declare({name: [tool.name for tool in toolset.tools] for name, toolset in toolsets.items()})
    return StepTools(settings, sources, servers, WorkerRights(settings, FleetClock(store.time)), names)


def make_run_kinds(
    settings: Settings, store: Store, isolated: Isolated, states: States | None = None
) -> Mapping[str, RunKind]:
    """Makes every kind of run, by name.

    Args:
        states: the states of servers that this worker has; None: it has none, and gives back steps that need one.
    """
    connections = Connections(settings, states)
    tools = step_tools(settings, store, isolated, connections)
    flows = FlowRunKind(FlowStore(store, settings), tools.permits, tools)
    gateway = _gateway(settings, store, connections, tools)
    return {flows.name: flows, gateway.name: gateway}


def _gateway(settings: Settings, store: Store, connections: Connections, tools: StepTools) -> GatewayRunKind:
    instances, audit = InstanceStore(store, settings), AuditStore(store, settings)
    lists = ServerLists(settings, store, connections)
    connections.on_change = lists.changed
    copies = AuditCopies(settings, store, StepStore(store, Handoff.of(settings, store)))
    operations = Operations(store, instances, audit, Listener(store))
    executor = GatewayExecutor(connections, operations, tools.find, (lists, copies))
    return GatewayRunKind(instances, executor, tools.rights)
