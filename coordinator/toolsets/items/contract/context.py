"""get_context."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items import fields
from coordinator.toolsets.items.contract.attempts import HeldAttempts
from coordinator.toolsets.items.contract.base import (
    Ancestors,
    Arguments,
    ClaimedAt,
    ClaimedBy,
    ClaimExpiresAt,
    Count,
    Depth,
    ExpectedNote,
    GuidancePointer,
    IsoTime,
    ItemId,
    NextOffset,
    NullableTags,
    OriginalClaimedAt,
    Progress,
    Result,
    Role,
    RoleName,
    SkillPointer,
    Tags,
    Title,
    Truncated,
    WantsAncestors,
)
from coordinator.toolsets.items.contract.claims import HeldBack
from coordinator.toolsets.items.contract.dependencies import Blocker
from coordinator.toolsets.items.contract.included import (
    BlockerResults,
    Include,
    IncludedItem,
    IncludedNext,
    IncludedNotes,
    NotesLeft,
    NotesTotal,
    ResultsLeft,
    ResultsTotal,
)
from coordinator.toolsets.items.contract.query import ChildCounts
from coordinator.toolsets.items.contract.resources import Resource
from coordinator.toolsets.items.contract.transitions import ItemTransition, MissingKeys
from coordinator.toolsets.pages import Offset
from coordinator.toolsets.waiting_reads import After, Waited, WaitMs


class GetContext(Arguments, kw_only=True):
    """A snapshot: of one item (itemId), of what happened since a time (since), of agents, or of everything (none)."""

    item_id: Annotated[str | None, Meta(description="This item. Wins over since.")] = None
    since: Annotated[str | None, Meta(description="ISO-8601 time with zone, inclusive.")] = None
    agents: Annotated[
        bool, Meta(description="True: the agents of the last day and what they do; goes with limit and offset only.")
    ] = False
    include_ancestors: WantsAncestors = False
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=200)] | None,
        Meta(description="Without itemId: most entries of each list, default 50."),
    ] = None
    offset: Offset = 0
    include: Annotated[
        Include,
        Meta(
            description="With itemId: adds the item in full, its notes, the results of its "
            "blockers: at most 60,000 characters, of long texts the beginning."
        ),
    ] = []
    wait_for: Annotated[
        str | None,
        Meta(
            description="With itemId: terminal, tree_terminal (all below it), unblocked, changed, note:<key> (filled)."
        ),
    ] = None
    wait_ms: WaitMs = None
    after: After = None


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
    resources: Annotated[list[Resource], Meta(description="What it holds; absent: nothing.")] | UnsetType = UNSET


class WaitedForItem(Waited, kw_only=True):
    """How a wait for an item ended."""

    counts: Annotated[ChildCounts, Meta(description="With tree_terminal: all items below.")] | UnsetType = UNSET


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
    attempts: Annotated[HeldAttempts, Meta(description="Absent: none, and no maxAttempts.")] | UnsetType = UNSET
    resources: fields.Resources | UnsetType = UNSET
    not_before: fields.NotBefore | UnsetType = UNSET
    due_at: fields.DueAt | UnsetType = UNSET
    overdue: fields.Overdue | UnsetType = UNSET
    recurs: fields.ShownRecurs | UnsetType = UNSET
    recurrence_of: fields.RecurrenceOf | UnsetType = UNSET
    usage: fields.UsageOfItem | UnsetType = UNSET
    budget: fields.BudgetOfItem | UnsetType = UNSET
    budget_spent: fields.BudgetSpent | UnsetType = UNSET
    notes: IncludedNotes | UnsetType = UNSET
    notes_total: NotesTotal | UnsetType = UNSET
    notes_left: NotesLeft | UnsetType = UNSET
    results: BlockerResults | UnsetType = UNSET
    results_total: ResultsTotal | UnsetType = UNSET
    results_left: ResultsLeft | UnsetType = UNSET
    next_offset: IncludedNext | UnsetType = UNSET
    waited: Annotated[WaitedForItem, Meta(description="With waitMs.")] | UnsetType = UNSET


class FullContextResult(ItemContextResult, kw_only=True):
    """The same with the item in full."""

    item: Annotated[IncludedItem, Meta(description="The item in full.")]  # type: ignore[assignment]


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


HeldBackItems = Annotated[
    HeldBack,
    Meta(
        description="What an agent without capabilities would be offered but for this, counted as in no_match of "
        "claim_item; absent: nothing."
    ),
]
OverdueItems = Annotated[Count, Meta(description="Open items whose dueAt has passed; absent: none.")]


class SessionResumeResult(Result, kw_only=True):
    """What is going on, and what happened since a time, newest first."""

    mode: Annotated[str, Meta(description="As asked for: since.", extra_json_schema={"enum": ["session-resume"]})]
    since: Annotated[str, Meta(description="As given.")]
    active_items: ActiveItems
    recent_transitions: Annotated[list[RecentTransition], Meta(description="At or after since, newest first.")]
    stalled_items: StalledItems
    held_back: HeldBackItems | UnsetType = UNSET
    overdue: OverdueItems | UnsetType = UNSET
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
    blocked: Annotated[bool, Meta(description="True: it waits, so selectors do not find it.")]
    ancestors: Ancestors | UnsetType = UNSET


class AbandonedItems(Result, kw_only=True):
    """What agents have left in the middle; absent if there is nothing."""

    ready: Annotated[Count, Meta(description="To be taken over by a selector without role.")]
    blocked: Annotated[Count, Meta(description="Waiting for a dependency, a time or their children.")]
    items: Annotated[list[AbandonedItem], Meta(description="Those left first; blocked ones last.")]


class HealthCheckResult(Result, kw_only=True):
    """What is going on, what is stuck, and how many claims there are."""

    mode: Annotated[str, Meta(description="As asked for: neither.", extra_json_schema={"enum": ["health-check"]})]
    active_items: ActiveItems
    blocked_items: Annotated[list[ListedItem], Meta(description="In role blocked; best first.")]
    stalled_items: StalledItems
    abandoned: AbandonedItems | UnsetType = UNSET
    held_back: HeldBackItems | UnsetType = UNSET
    overdue: OverdueItems | UnsetType = UNSET
    claim_summary: ActiveClaims | UnsetType = UNSET
    totals: Totals | UnsetType = UNSET
    next_offset: NextOffset = UNSET
    truncated: Truncated = UNSET
