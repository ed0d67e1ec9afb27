"""All toolsets of the product. In a module of its own, so that importing one toolset does not import all of them."""

from __future__ import annotations

from coordinator.settings import Settings
from coordinator.steps.names import StepNames
from coordinator.store import Store
from coordinator.toolsets.actor import Actor, Trusted
from coordinator.toolsets.flows.tools import toolset as flows_toolset
from coordinator.toolsets.gateway.tools import toolset as gateway_toolset
from coordinator.toolsets.items.tools import claim_services
from coordinator.toolsets.items.tools import toolset as items_toolset
from coordinator.toolsets.navigator.tools import toolset as navigator_toolset
from coordinator.toolsets.sessions.tools import toolset as sessions_toolset
from coordinator.toolsets.tool import Services, Toolset
from coordinator.toolsets.worker.tools import toolset as worker_toolset


def load_toolsets(services: Services) -> dict[str, Toolset]:
    """Every toolset of the product over one process's services, by name."""
    names, claiming = StepNames(services.settings), claim_services(services)
    toolsets = (
        items_toolset(services, claiming),
        worker_toolset(services, claiming),
        flows_toolset(services, names),
        sessions_toolset(services),
        navigator_toolset(services),
        gateway_toolset(services),
    )
    names.declare({toolset.name: [tool.name for tool in toolset.tools] for toolset in toolsets})
    return {toolset.name: toolset for toolset in toolsets}


def described_toolsets() -> dict[str, Toolset]:
    """Every toolset by name, for names, schemas and examples only: without a store, no tool can be called."""

    async def nobody(actor: Actor) -> Trusted:
        raise NotImplementedError("these toolsets have no store")

    # This store is never opened.
    return load_toolsets(Services(Settings(), Store("redis://localhost"), nobody))
