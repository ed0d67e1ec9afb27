"""The tools of the items toolset: each joins the contract, the rules and the store."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from coordinator.prompts import instructions
from coordinator.service import Functions, ServiceGroup
from coordinator.settings import Settings
from coordinator.toolsets.items.contract.examples import EXAMPLES
from coordinator.toolsets.items.live.expiring import Expiring
from coordinator.toolsets.items.live.waiting import Parking
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.blocked import BlockedStore
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.items.store.context import ContextStore
from coordinator.toolsets.items.store.dependencies import DependencyStore
from coordinator.toolsets.items.store.items import ItemStore
from coordinator.toolsets.items.store.next import NextStore
from coordinator.toolsets.items.store.notes import NoteStore
from coordinator.toolsets.items.store.query import QueryStore
from coordinator.toolsets.items.store.transitions import TransitionStore
from coordinator.toolsets.items.store.trees import TreeStore
from coordinator.toolsets.items.store.watched import WatchedItems
from coordinator.toolsets.items.tools import (
    blocked,
    claims,
    context,
    dependencies,
    items,
    notes,
    query,
    transitions,
    trees,
)
from coordinator.toolsets.items.tools import next as next_tools
from coordinator.toolsets.items.tools.documents import documents
from coordinator.toolsets.tool import Services, Toolset
from coordinator.toolsets.waiting.reads import WaitingReads

INSTRUCTIONS = instructions("work")

ORDER = (
    "manage_items",
    "query_items",
    "create_work_tree",
    "complete_tree",
    "manage_notes",
    "query_notes",
    "manage_dependencies",
    "query_dependencies",
    "advance_item",
    "get_next_status",
    "get_context",
    "get_next_item",
    "get_blocked_items",
    "claim_item",
)
"""The tools in the order in which they are listed."""


class ClaimServices(NamedTuple):
    """What one process keeps for all tools that claim items, also for those of the toolset worker."""

    schemas: SchemaSource
    claims: ClaimStore
    parking: Parking
    expiring: Expiring


def claim_services(services: Services) -> ClaimServices:
    """Makes those of one process."""
    source = SchemaSource(schema_config(services.settings))
    claim_store = ClaimStore(services.store, services.settings, source)
    parking, expiring = Parking(services.store, claim_store), Expiring(services.store, claim_store.expire)
    return ClaimServices(source, claim_store, parking, expiring)


def toolset(services: Services, claiming: ClaimServices | None = None) -> Toolset:
    """The items toolset over one process's services; ``claiming``: if another toolset shares them."""
    source, claim_store, parking, expiring = claiming or claim_services(services)
    shared = (services.store, services.settings, source)

    def configure(settings: Settings) -> None:
        source.current = schema_config(settings)

    waiting = WaitingReads(services)

    async def hold(held: bool) -> None:
        waiting.hold(held)
        await parking.hold(held)

    recommending = NextStore(*shared)
    made = (
        *items.tools(ItemStore(*shared), services, expiring),
        *query.tools(QueryStore(*shared)),
        *dependencies.tools(DependencyStore(*shared), services),
        *transitions.tools(TransitionStore(*shared), services),
        *trees.tools(TreeStore(*shared), services, expiring),
        *notes.tools(NoteStore(*shared), services),
        *next_tools.tools(recommending),
        *blocked.tools(BlockedStore(*shared)),
        *context.tools(ContextStore(*shared), WatchedItems(services.store), waiting),
    )
    by_name = {tool.name: dataclasses.replace(tool, handler=source.steady(tool.handler)) for tool in made}
    # Claims do not depend on schemas.
    by_name |= {tool.name: tool for tool in claims.tools(claim_store, parking, services, expiring)}
    return Toolset(
        "items",
        "Work items",
        INSTRUCTIONS,
        tuple(by_name[name] for name in ORDER),
        people=(items.for_people(by_name["manage_items"]),),
        service=ServiceGroup(Functions(configure=configure), parking, expiring, waiting),
        hold=hold,
        examples=EXAMPLES,
        documents=documents(by_name["query_items"]),
        completes={"item": next_tools.completion(recommending)},
    )
