"""query_dependencies, get_next_status, get_context and get_blocked_items."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import (
    Ancestors,
    Arguments,
    ChildrenOf,
    ClaimedAt,
    ClaimedBy,
    ClaimExpiresAt,
    Complexity,
    Count,
    Depth,
    ExpectedNote,
    GuidancePointer,
    IsoTime,
    ItemId,
    ItemRef,
    NullableTags,
    OriginalClaimedAt,
    Priority,
    Progress,
    Result,
    Role,
    RoleName,
    SkillPointer,
    Summary,
    Tags,
    Title,
    WantsAncestors,
)
from coordinator.toolsets.items.contract.dependencies import TYPES, Blocker, Dependency, ThresholdRole, UnblockAt
from coordinator.toolsets.items.contract.work import ItemTransition, MissingKeys
from coordinator.toolsets.pages import DEFAULT_LIMIT, Limit, Offset

DIRECTIONS = ("incoming", "outgoing", "all")

EffectiveUnblockRole = Annotated[ThresholdRole, Meta(description="The threshold in force.")]
NextOffset = Annotated[int | UnsetType, Meta(description="offset of the next page; absent: this is the last.")]
Truncated = Annotated[bool | UnsetType, Meta(description="True if there is more than one answer can hold.")]


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
    limit: Limit = DEFAULT_LIMIT
    offset: Offset = 0


class ItemInfo(Result, kw_only=True):
    """An item at one end of an edge."""

    title: Title
    role: RoleName
    priority: Priority


class DependencyView(Dependency, kw_only=True):
    """An edge; effectiveUnblockRole is the threshold in force, absent for RELATES_TO."""

    effective_unblock_role: EffectiveUnblockRole | UnsetType = UNSET
    from_item: ItemInfo | UnsetType = UNSET
    to_item: ItemInfo | UnsetType = UNSET


class DependencyCounts(Result, kw_only=True):
    """Edges of the item, whatever the call's filters."""

    incoming: Annotated[Count, Meta(description="That this item waits for or waited for.")]
    outgoing: Annotated[Count, Meta(description="That wait for this item or did.")]
    relates_to: Annotated[Count, Meta(description="RELATES_TO, either way.")]


class DependencyGraph(Result, kw_only=True):
    """All items that blocking edges connect with the item, blockers first; depth counts edges."""

    chain: Annotated[list[str], Meta(description="UUIDs of the items, this one included.")]
    depth: Annotated[Count, Meta(description="Edges of the longest path.")]
    truncated: Truncated = UNSET


class QueryDependenciesResult(Result, kw_only=True):
    """The edges that were asked for."""

    dependencies: Annotated[list[DependencyView], Meta(description="A page of those that pass the filters.")]
    total: Annotated[Count | UnsetType, Meta(description="How many pass the filters; absent: this is all.")] = UNSET
    next_offset: NextOffset = UNSET
    counts: DependencyCounts
    graph: DependencyGraph | UnsetType = UNSET
    truncated: Truncated = UNSET


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
    """The item cannot move on: dependencies (blockers), or its role (suggestion)."""

    recommendation: Annotated[str, Meta(description="It cannot move on.", extra_json_schema={"enum": ["Blocked"]})]
    current_role: RoleName
    blockers: Annotated[list[Blocker], Meta(description="What it waits for; absent in role blocked.")] | UnsetType = (
        UNSET
    )
    suggestion: Annotated[str, Meta(description="In role blocked: how to leave it.")] | UnsetType = UNSET


class TerminalStatus(Result, kw_only=True):
    """The item is done or cancelled."""

    recommendation: Annotated[
        str, Meta(description="It is done or cancelled.", extra_json_schema={"enum": ["Terminal"]})
    ]
    current_role: RoleName
    reason: Annotated[str, Meta(description="What can still be done, in a sentence.")]


class GetContext(Arguments, kw_only=True):
    """A snapshot: of one item (itemId), of what happened since a time (since), or of everything (neither)."""

    item_id: Annotated[str | None, Meta(description="This item; UUID or hex prefix. Wins over since.")] = None
    since: Annotated[
        str | None, Meta(description="ISO-8601 time with a zone, inclusive, for example 2026-01-01T12:00:00Z.")
    ] = None
    include_ancestors: WantsAncestors = False
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=200)] | None,
        Meta(description="Without itemId: most entries of each list, default 50."),
    ] = None
    offset: Offset = 0


class ContextItem(Result, kw_only=True):
    """The item that was asked about."""

    id: ItemId
    title: Title
    role: RoleName
    tags: Tags | UnsetType = UNSET
    depth: Depth
    ancestors: Ancestors | UnsetType = UNSET


class SchemaNote(ExpectedNote, kw_only=True):
    """A note that the item's schema asks for, and whether it has a body."""

    filled: Annotated[bool, Meta(description="Whether its body is not blank.")]


class GateStatus(Result, kw_only=True):
    """Whether the item can move forward now."""

    can_advance: Annotated[bool, Meta(description="Neither terminal nor blocked, and no note missing.")]
    phase: RoleName
    missing: MissingKeys
    blockers: Annotated[list[Blocker], Meta(description="What it waits for; absent: nothing.")] | UnsetType = UNSET


class ClaimDetail(Result, kw_only=True):
    """Who holds the item, or held it until the claim expired."""

    claimed_by: ClaimedBy
    claimed_at: ClaimedAt
    claim_expires_at: ClaimExpiresAt
    original_claimed_at: OriginalClaimedAt
    is_expired: Annotated[bool, Meta(description="Whether its time is over: anybody may claim the item.")]


class ItemContextResult(Result, kw_only=True):
    """One item: its notes against its schema, its gate, its claim."""

    mode: Annotated[str, Meta(description="As asked for: itemId.", extra_json_schema={"enum": ["item"]})]
    item: ContextItem
    schema: Annotated[list[SchemaNote], Meta(description="Notes of all phases that its schema asks for.")]
    gate_status: GateStatus
    guidance_pointer: GuidancePointer
    skill_pointer: SkillPointer | UnsetType = UNSET
    note_progress: Progress
    claim_detail: ClaimDetail | UnsetType = UNSET


class ListedItem(Result, kw_only=True):
    """An item of a list."""

    id: ItemId
    title: Title
    role: RoleName
    tags: NullableTags
    ancestors: Ancestors | UnsetType = UNSET


class StalledItem(Result, kw_only=True):
    """An item in work or review that lacks required notes of its phase."""

    id: ItemId
    title: Title
    role: RoleName
    missing_notes: MissingKeys
    guidance_pointer: GuidancePointer
    skill_pointer: SkillPointer | UnsetType = UNSET
    ancestors: Ancestors | UnsetType = UNSET


class RecentTransition(ItemTransition, kw_only=True):
    """A role change of one of the items."""

    item_id: ItemId


ActiveItems = Annotated[list[ListedItem], Meta(description="In work, then in review; best first.")]
StalledItems = Annotated[list[StalledItem], Meta(description="Those of activeItems that lack required notes.")]


class Totals(Result, kw_only=True):
    """Lengths of the whole lists, where an answer has only a page of them."""

    active_items: Annotated[Count, Meta(description="In work or review.")]
    blocked_items: Annotated[Count, Meta(description="In role blocked.")] | UnsetType = UNSET


class SessionResumeResult(Result, kw_only=True):
    """What is going on, and what happened since a time, newest first."""

    mode: Annotated[str, Meta(description="As asked for: since.", extra_json_schema={"enum": ["session-resume"]})]
    since: Annotated[str, Meta(description="As given.")]
    active_items: ActiveItems
    recent_transitions: Annotated[list[RecentTransition], Meta(description="At or after since, newest first.")]
    stalled_items: StalledItems
    totals: Totals | UnsetType = UNSET
    next_offset: NextOffset = UNSET
    truncated: Truncated = UNSET


class ActiveClaims(Result, kw_only=True):
    """Claims of all items."""

    active: Annotated[Count, Meta(description="Held now.")]
    expired: Annotated[Count, Meta(description="Past their time.")]


class AbandonedItem(Result, kw_only=True):
    """An item that an agent has left in the middle."""

    id: ItemId
    title: Title
    role: Annotated[Role, Meta(description="work, or review: its reviewer left it.")]
    since: Annotated[IsoTime, Meta(description="When its claim ended, UTC.")]
    blocked: Annotated[bool, Meta(description="True: it waits for a dependency, so selectors do not find it.")]
    ancestors: Ancestors | UnsetType = UNSET


class AbandonedItems(Result, kw_only=True):
    """What agents have left in the middle; absent if there is nothing."""

    ready: Annotated[Count, Meta(description="To be taken over by a selector without role.")]
    blocked: Annotated[Count, Meta(description="Waiting for a dependency.")]
    items: Annotated[list[AbandonedItem], Meta(description="Those left first; blocked ones last.")]


class HealthCheckResult(Result, kw_only=True):
    """What is going on, what is stuck, and how many claims there are."""

    mode: Annotated[str, Meta(description="As asked for: neither.", extra_json_schema={"enum": ["health-check"]})]
    active_items: ActiveItems
    blocked_items: Annotated[list[ListedItem], Meta(description="In role blocked; best first.")]
    stalled_items: StalledItems
    abandoned: AbandonedItems | UnsetType = UNSET
    claim_summary: ActiveClaims | UnsetType = UNSET
    totals: Totals | UnsetType = UNSET
    next_offset: NextOffset = UNSET
    truncated: Truncated = UNSET


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
