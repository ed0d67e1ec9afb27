"""query_dependencies, get_next_status, get_context and get_blocked_items (seed 004)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import ActorEcho, Verification
from coordinator.toolsets.items.contract.base import (
    Ancestor,
    Arguments,
    ExpectedNote,
    ItemRef,
    NoteProgress,
    OptionalItemRef,
    Result,
)
from coordinator.toolsets.items.contract.dependencies import TYPES, Dependency
from coordinator.toolsets.items.contract.work import Blocker

DIRECTIONS = ("incoming", "outgoing", "all")

IncludeAncestors = Annotated[bool, Meta(description="Add the way from the root to each listed item.")]
Truncated = Annotated[bool | UnsetType, Meta(description="True where there is more than one answer can hold.")]


class QueryDependencies(Arguments, kw_only=True):
    """The dependencies of one item."""

    item_id: ItemRef
    direction: Annotated[
        str | None,
        Meta(
            description="incoming: what this item waits for; outgoing: what waits for it; default all.",
            extra_json_schema={"enum": [*DIRECTIONS, None]},
        ),
    ] = None
    type: Annotated[
        str | None, Meta(description="Only edges of this type.", extra_json_schema={"enum": [*TYPES, None]})
    ] = None
    include_item_info: Annotated[bool, Meta(description="Add title, role and priority of both ends.")] = False
    neighbors_only: Annotated[
        bool, Meta(description="False: add the whole graph that the item is in, ordered blocker first.")
    ] = True


class ItemInfo(Result, kw_only=True):
    """An item at one end of an edge."""

    title: str
    role: str
    priority: str


class DependencyView(Dependency, kw_only=True):
    """An edge; effectiveUnblockRole is the threshold in force, absent for RELATES_TO."""

    effective_unblock_role: str | UnsetType = UNSET
    from_item: ItemInfo | UnsetType = UNSET
    to_item: ItemInfo | UnsetType = UNSET


class DependencyCounts(Result, kw_only=True):
    """Edges of the item, whatever the call's filters."""

    incoming: int
    outgoing: int
    relates_to: int


class DependencyGraph(Result, kw_only=True):
    """All items that blocking edges connect with the item, blockers first; depth counts edges."""

    chain: list[str]
    depth: int
    truncated: Truncated = UNSET


class QueryDependenciesResult(Result, kw_only=True):
    """The edges that were asked for."""

    dependencies: list[DependencyView]
    counts: DependencyCounts
    graph: DependencyGraph | UnsetType = UNSET
    truncated: Truncated = UNSET


class GetNextStatus(Arguments, kw_only=True):
    """What an item's next transition would be."""

    item_id: ItemRef


class ReadyStatus(Result, kw_only=True):
    """The item can take ``trigger``; notes may still be required (get_context)."""

    recommendation: Annotated[str, Meta(description="Ready")]
    current_role: str
    next_role: str
    trigger: str
    progression_position: Annotated[str, Meta(description="Present phase and number of phases, as in 1/3.")]


class BlockedStatus(Result, kw_only=True):
    """The item cannot move on: dependencies (blockers), or its role (suggestion)."""

    recommendation: Annotated[str, Meta(description="Blocked")]
    current_role: str
    blockers: list[Blocker] | UnsetType = UNSET
    suggestion: str | UnsetType = UNSET


class TerminalStatus(Result, kw_only=True):
    """The item is done or cancelled."""

    recommendation: Annotated[str, Meta(description="Terminal")]
    current_role: str
    reason: str


class GetContext(Arguments, kw_only=True):
    """A snapshot: of one item (itemId), of what happened since a time (since), or of everything (neither)."""

    item_id: OptionalItemRef = None
    since: Annotated[
        str | None, Meta(description="ISO-8601 time with a zone, inclusive, for example 2026-01-01T12:00:00Z.")
    ] = None
    include_ancestors: IncludeAncestors = False
    limit: Annotated[
        int | None, Meta(description="With since: most transitions listed; taken as 1 to 200, default 50.")
    ] = None


class ContextItem(Result, kw_only=True):
    """The item that was asked about."""

    id: str
    title: str
    role: str
    tags: str | UnsetType = UNSET
    depth: int
    ancestors: list[Ancestor] | UnsetType = UNSET


class SchemaNote(ExpectedNote, kw_only=True):
    """A note that the item's schema asks for, and whether it has a body."""

    filled: bool


class GateStatus(Result, kw_only=True):
    """Whether the notes of the present phase allow a transition; dependencies are not looked at."""

    can_advance: bool
    phase: str
    missing: Annotated[list[str], Meta(description="Keys of required notes that are not filled.")]


class ClaimDetail(Result, kw_only=True):
    """Who holds the item, or held it until the claim expired."""

    claimed_by: str
    claimed_at: str
    claim_expires_at: str
    original_claimed_at: str
    is_expired: bool


class ItemContextResult(Result, kw_only=True):
    """One item: its notes against its schema, its gate, its claim."""

    mode: Annotated[str, Meta(description="item")]
    item: ContextItem
    schema: list[SchemaNote]
    gate_status: GateStatus
    guidance_pointer: str | None
    skill_pointer: str | UnsetType = UNSET
    note_progress: NoteProgress | None
    claim_detail: ClaimDetail | UnsetType = UNSET


class ListedItem(Result, kw_only=True):
    """An item of a list."""

    id: str
    title: str
    role: str
    tags: str | None
    ancestors: list[Ancestor] | UnsetType = UNSET


class StalledItem(Result, kw_only=True):
    """An item in work or review that lacks required notes of its phase."""

    id: str
    title: str
    role: str
    missing_notes: list[str]
    guidance_pointer: str | None
    skill_pointer: str | UnsetType = UNSET
    ancestors: list[Ancestor] | UnsetType = UNSET


class RecentTransition(Result, kw_only=True):
    """A role change."""

    item_id: str
    from_role: str
    to_role: str
    trigger: str
    at: str
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class SessionResumeResult(Result, kw_only=True):
    """What is going on, and what happened since a time, newest first."""

    mode: Annotated[str, Meta(description="session-resume")]
    since: str
    active_items: list[ListedItem]
    recent_transitions: list[RecentTransition]
    stalled_items: list[StalledItem]
    truncated: Truncated = UNSET


class ActiveClaims(Result, kw_only=True):
    """Claims of all items."""

    active: int
    expired: int


class HealthCheckResult(Result, kw_only=True):
    """What is going on, what is stuck, and how many claims there are."""

    mode: Annotated[str, Meta(description="health-check")]
    active_items: list[ListedItem]
    blocked_items: list[ListedItem]
    stalled_items: list[StalledItem]
    claim_summary: ActiveClaims | UnsetType = UNSET
    truncated: Truncated = UNSET


class GetBlockedItems(Arguments, kw_only=True):
    """Everything that is blocked, and by what."""

    parent_id: OptionalItemRef = None
    include_item_details: Annotated[bool, Meta(description="Add summary and tags.")] = False
    include_ancestors: IncludeAncestors = False


class BlockedBy(Result, kw_only=True):
    """An item that another one depends on; unblockAt only where it was given."""

    item_id: str
    title: str
    role: str
    unblock_at: str | UnsetType = UNSET
    effective_unblock_role: str
    satisfied: bool


class BlockedItem(Result, kw_only=True):
    """A blocked item; blockerCount counts the unsatisfied ones of blockedBy."""

    item_id: str
    title: str
    role: str
    priority: str
    complexity: int | None
    block_type: Annotated[str, Meta(description="explicit: its role is blocked; dependency: it waits for others.")]
    blocked_by: list[BlockedBy]
    blocker_count: int
    summary: str | UnsetType = UNSET
    tags: str | UnsetType = UNSET
    ancestors: list[Ancestor] | UnsetType = UNSET


class GetBlockedItemsResult(Result, kw_only=True):
    """Explicitly blocked items first; then by role queue, work, review, each by priority and age."""

    blocked_items: list[BlockedItem]
    total: int
    truncated: Truncated = UNSET
