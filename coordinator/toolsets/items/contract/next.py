"""get_next_item and get_next_status."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.items import fields
from coordinator.toolsets.items.contract.claims import HeldBack, Selector
from coordinator.toolsets.items.contract.dependencies import Blocker
from coordinator.toolsets.items.field_types import base

GivenRole = Annotated[str | None, doc("Default queue.", enum=["queue", "work", "review", "blocked", None])]
GivenParents = Annotated[
    str | None, doc("after_children: no items with open children.", enum=["any", "after_children", None])
]


class GetNextItem(Selector, kw_only=True):
    """The best items to work on."""

    role: GivenRole = None
    parents: GivenParents = None
    capabilities: Annotated[
        list[str], doc("What the agent can do: adds items that require it.", published={"maxItems": 32})
    ] = []
    agent_id: Annotated[str | None, doc("Adds items assigned to this agent.")] = None
    limit: Annotated[int, doc("The greatest number of items.", ge=1, le=20)] = 1
    include_details: Annotated[bool, doc("Add summary, tags and parentId.")] = False
    include_ancestors: Annotated[bool, doc("Add the ancestors of each item.")] = False
    include_claimed: Annotated[bool, doc("Add claimed items, marked isClaimed.")] = False


class Recommendation(base.Result, kw_only=True):
    """An item to work on."""

    item_id: base.ItemId
    title: base.Title
    role: base.RoleName
    priority: base.Priority
    complexity: base.Complexity
    summary: base.Summary | UnsetType = UNSET
    tags: base.Tags | UnsetType = UNSET
    parent_id: base.ParentId | UnsetType = UNSET
    is_claimed: base.IsClaimed | UnsetType = UNSET
    ancestors: base.Ancestors | UnsetType = UNSET


class GetNextItemResult(base.Result, kw_only=True):
    """Best first."""

    recommendations: Annotated[list[Recommendation], doc("Best first.")]
    total: base.Listed
    held_back: Annotated[HeldBack, doc("With none: as in no_match of claim_item.")] | UnsetType = UNSET


class GetNextStatus(base.Arguments, kw_only=True):
    """What an item's next transition would be."""

    item_id: base.ItemRef


class ReadyStatus(base.Result, kw_only=True):
    """The item can take ``trigger``; notes may still be required (get_context)."""

    recommendation: Annotated[str, doc("It can take trigger.", enum=["Ready"])]
    current_role: base.RoleName
    next_role: Annotated[base.Role, doc("Role that the trigger leads to.")]
    trigger: Annotated[str, doc("What to call advance_item with.", enum=["start"])]
    progression_position: Annotated[str, doc("Present phase and number of phases, as in 1/3.")]


class BlockedStatus(base.Result, kw_only=True):
    """The item cannot move on: dependencies (blockers), its role or its times (suggestion)."""

    recommendation: Annotated[str, doc("It cannot move on.", enum=["Blocked"])]
    current_role: base.RoleName
    blockers: Annotated[list[Blocker], doc("What it waits for; absent in role blocked.")] | UnsetType = UNSET
    not_before: fields.NotBefore | UnsetType = UNSET
    suggestion: (
        Annotated[str, doc("In role blocked: how to leave it; with notBefore and templates: what to do.")] | UnsetType
    ) = UNSET


class TerminalStatus(base.Result, kw_only=True):
    """The item is done or cancelled."""

    recommendation: Annotated[str, doc("It is done or cancelled.", enum=["Terminal"])]
    current_role: base.RoleName
    reason: Annotated[str, doc("What can still be done, in a sentence.")]
