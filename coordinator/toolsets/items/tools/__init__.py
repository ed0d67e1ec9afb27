"""The tools of the items toolset: each joins the contract, the rules and the store."""

from __future__ import annotations

from coordinator.toolsets.items.store import ItemStore
from coordinator.toolsets.items.tools import claim, crud, dependencies, workflow
from coordinator.toolsets.tool import Services, Toolset

INSTRUCTIONS = (
    "Work items shared by a fleet of agents. Worker loop: get_next_item, claim_item (keep the fenceToken), "
    "advance_item with trigger start, do the work, advance_item with trigger complete, claim_item with a release. "
    "Claims expire after ttlSeconds; repeat claim_item at half of it to keep one. Give every mutating call a fresh "
    "UUID as requestId and repeat the call with the same one if the answer was lost."
)


def toolset(services: Services) -> Toolset:
    """The items toolset over one process's services."""
    items = ItemStore(services.store, services.settings)
    return Toolset(
        "items",
        "Work items",
        INSTRUCTIONS,
        (
            *crud.tools(items, services),
            *dependencies.tools(items, services),
            *workflow.tools(items, services),
            *claim.tools(items, services),
        ),
    )
