"""get_next_item and get_next_status."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items import fields
from coordinator.toolsets.items.contract.base import (
    Ancestors,
    Arguments,
    Complexity,
    IsClaimed,
    ItemId,
    ItemRef,
    Listed,
    ParentId,
    Priority,
    Result,
    Role,
    RoleName,
    Summary,
    Tags,
    Title,
)
from coordinator.toolsets.items.contract.claims import HeldBack, Selector
from coordinator.toolsets.items.contract.dependencies import Blocker

GivenRole = Annotated[
    str | None,
    Meta(description="Default queue.", extra_json_schema={"enum": ["queue", "work", "review", "blocked", None]}),
]
GivenParents = Annotated[
    str | None,
    Meta(
        description="after_children: no items with open children.",
        extra_json_schema={"enum": ["any", "after_children", None]},
    ),
]


class GetNextItem(Selector, kw_only=True):
    """The best items to work on."""

    role: GivenRole = None
    parents: GivenParents = None
    capabilities: Annotated[
        list[str],
        Meta(description="What the agent can do: adds items that require it.", extra_json_schema={"maxItems": 32}),
    ] = []
    agent_id: Annotated[str | None, Meta(description="Adds items assigned to this agent.")] = None
    limit: Annotated[int, Meta(description="The greatest number of items.", ge=1, le=20)] = 1
    include_details: Annotated[bool, Meta(description="Add summary, tags and parentId.")] = False
    include_ancestors: Annotated[bool, Meta(description="Add the ancestors of each item.")] = False
    include_claimed: Annotated[bool, Meta(description="Add claimed items, marked isClaimed.")] = False


class Recommendation(Result, kw_only=True):
    """An item to work on."""

    item_id: ItemId
    title: Title
    role: RoleName
    priority: Priority
    complexity: Complexity
    summary: Summary | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    parent_id: ParentId | UnsetType = UNSET
    is_claimed: IsClaimed | UnsetType = UNSET
    ancestors: Ancestors | UnsetType = UNSET


class GetNextItemResult(Result, kw_only=True):
    """Best first."""

    recommendations: Annotated[list[Recommendation], Meta(description="Best first.")]
    total: Listed
    held_back: Annotated[HeldBack, Meta(description="With none: as in no_match of claim_item.")] | UnsetType = UNSET


class GetNextStatus(Arguments, kw_only=True):
    """What an item's next transition would be."""

    item_id: ItemRef


class ReadyStatus(Result, kw_only=True):
    """The item can take ``trigger``; notes may still be required (get_context)."""

    recommendation: Annotated[str, Meta(description="It can take trigger.", extra_json_schema={"enum": ["Ready"]})]
    current_role: RoleName
    next_role: Annotated[Role, Meta(description="Role that the trigger leads to.")]
    trigger: Annotated[str, Meta(description="What to call advance_item with.", extra_json_schema={"enum": ["start"]})]
    progression_position: Annotated[str, Meta(description="Present phase and number of phases, as in 1/3.")]


class BlockedStatus(Result, kw_only=True):
    """The item cannot move on: dependencies (blockers), its role or its times (suggestion)."""

    recommendation: Annotated[str, Meta(description="It cannot move on.", extra_json_schema={"enum": ["Blocked"]})]
    current_role: RoleName
    blockers: Annotated[list[Blocker], Meta(description="What it waits for; absent in role blocked.")] | UnsetType = (
        UNSET
    )
    not_before: fields.NotBefore | UnsetType = UNSET
    suggestion: (
        Annotated[str, Meta(description="In role blocked: how to leave it; with notBefore and templates: what to do.")]
        | UnsetType
    ) = UNSET


class TerminalStatus(Result, kw_only=True):
    """The item is done or cancelled."""

    recommendation: Annotated[
        str, Meta(description="It is done or cancelled.", extra_json_schema={"enum": ["Terminal"]})
    ]
    current_role: RoleName
    reason: Annotated[str, Meta(description="What can still be done, in a sentence.")]
