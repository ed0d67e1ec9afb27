"""get_blocked_items."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import (
    Ancestors,
    Arguments,
    ChildrenOf,
    Complexity,
    Count,
    ItemId,
    NextOffset,
    Priority,
    Result,
    RoleName,
    Summary,
    Tags,
    Title,
    Truncated,
    WantsAncestors,
)
from coordinator.toolsets.items.contract.dependencies import EffectiveUnblockRole, UnblockAt
from coordinator.toolsets.pages import DEFAULT_LIMIT, Limit, Offset


class GetBlockedItems(Arguments, kw_only=True):
    """Everything that is blocked, and by what."""

    parent_id: ChildrenOf = None
    include_item_details: Annotated[bool, Meta(description="Add summary and tags.")] = False
    include_ancestors: WantsAncestors = False
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0


class BlockedBy(Result, kw_only=True):
    """An item that another one depends on; unblockAt only where it was given."""

    item_id: ItemId
    title: Title
    role: RoleName
    unblock_at: UnblockAt | UnsetType = UNSET
    effective_unblock_role: EffectiveUnblockRole
    satisfied: Annotated[bool, Meta(description="Whether it has reached that.")]


class BlockedItem(Result, kw_only=True):
    """A blocked item; blockerCount counts the unsatisfied ones of blockedBy."""

    item_id: ItemId
    title: Title
    role: RoleName
    priority: Priority
    complexity: Complexity
    block_type: Annotated[
        str,
        Meta(
            description="explicit: its role is blocked; dependency: it waits for others.",
            extra_json_schema={"enum": ["explicit", "dependency"]},
        ),
    ]
    blocked_by: Annotated[list[BlockedBy], Meta(description="What it depends on, satisfied or not.")]
    blocked_by_total: Annotated[
        Count | UnsetType, Meta(description="How many that are, where more than 20: query_dependencies lists them.")
    ] = UNSET
    blocker_count: Annotated[Count, Meta(description="How many of all of these are not satisfied.")]
    summary: Summary | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    ancestors: Ancestors | UnsetType = UNSET


class GetBlockedItemsResult(Result, kw_only=True):
    """Explicitly blocked items first; then by role queue, work, review, each by priority and age."""

    blocked_items: Annotated[list[BlockedItem], Meta(description="Explicitly blocked ones first.")]
    total: Annotated[Count, Meta(description="How many are blocked, up to 500 of a role.")]
    next_offset: NextOffset = UNSET
    truncated: Truncated = UNSET
