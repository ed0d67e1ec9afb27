"""get_blocked_items."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.contract.dependencies import EffectiveUnblockRole, UnblockAt
from coordinator.toolsets.items.field_types import base
from coordinator.toolsets.pages import DEFAULT_LIMIT, Limit, Offset


class GetBlockedItems(base.Arguments, kw_only=True):
    parent_id: base.ChildrenOf = None
    include_item_details: Annotated[bool, doc("Add summary and tags.")] = False
    include_ancestors: base.WantsAncestors = False
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0


class BlockedBy(base.Result, kw_only=True):
    """An item that another one depends on; unblockAt only where it was given."""

    item_id: base.ItemId
    title: base.Title
    role: base.RoleName
    unblock_at: UnblockAt | UnsetType = UNSET
    effective_unblock_role: EffectiveUnblockRole
    satisfied: Annotated[bool, doc("Whether it has reached that.")]


class BlockedItem(base.Result, kw_only=True):
    """A blocked item; blockerCount counts the unsatisfied ones of blockedBy."""

    item_id: base.ItemId
    title: base.Title
    role: base.RoleName
    priority: base.Priority
    complexity: base.Complexity
    block_type: Annotated[
        str, doc("explicit: its role is blocked; dependency: it waits for others.", enum=["explicit", "dependency"])
    ]
    blocked_by: Annotated[list[BlockedBy], doc("What it depends on, satisfied or not.")]
    blocked_by_total: Annotated[
        base.Count | UnsetType, doc("How many that are, where more than 20: query_dependencies lists them.")
    ] = UNSET
    blocker_count: Annotated[base.Count, doc("How many of all of these are not satisfied.")]
    summary: base.Summary | UnsetType = UNSET
    tags: base.Tags | UnsetType = UNSET
    ancestors: base.Ancestors | UnsetType = UNSET


class GetBlockedItemsResult(base.Result, kw_only=True):
    """Explicitly blocked items first; then by role queue, work, review, each by priority and age."""

    blocked_items: Annotated[list[BlockedItem], doc("Explicitly blocked ones first.")]
    total: Annotated[base.Count, doc("How many are blocked, up to 500 of a role.")]
    next_offset: base.NextOffset = UNSET
    truncated: base.Truncated = UNSET
