"""get_context."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.items import fields
from coordinator.toolsets.items.contract import included
from coordinator.toolsets.items.contract.attempts import HeldAttempts
from coordinator.toolsets.items.contract.claims import HeldBack
from coordinator.toolsets.items.contract.dependencies import Blocker
from coordinator.toolsets.items.contract.query import ChildCounts
from coordinator.toolsets.items.contract.transitions import ItemTransition, MissingKeys
from coordinator.toolsets.items.field_types import base
from coordinator.toolsets.items.field_types.resources import Resource
from coordinator.toolsets.pages import Offset
from coordinator.toolsets.waiting.reads import After, Waited, WaitMs


class GetContext(base.Arguments, kw_only=True):
    """A snapshot: of one item (itemId), of what happened since a time (since), of agents, or of everything (none)."""

    item_id: Annotated[str | None, doc("This item. Wins over since.")] = None
    since: Annotated[str | None, doc("ISO-8601 time with zone, inclusive.")] = None
    agents: Annotated[
        bool, doc("True: the agents of the last day and what they do; goes with limit and offset only.")
    ] = False
    include_ancestors: base.WantsAncestors = False
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=200)] | None, doc("Without itemId: most entries of each list, default 50.")
    ] = None
    offset: Offset = 0
    include: Annotated[
        included.Include,
        doc(
            "With itemId: adds the item in full, its notes, the results of its "
            "blockers: at most 60,000 characters, of long texts the beginning."
        ),
    ] = []
    wait_for: Annotated[
        str | None, doc("With itemId: terminal, tree_terminal (all below it), unblocked, changed, note:<key> (filled).")
    ] = None
    wait_ms: WaitMs = None
    after: After = None


class ContextItem(base.Result, kw_only=True):
    """The item that was asked about."""

    id: base.ItemId
    title: base.Title
    role: base.RoleName
    tags: base.Tags | UnsetType = UNSET
    depth: base.Depth
    ancestors: base.Ancestors | UnsetType = UNSET


class SchemaNote(base.ExpectedNote, kw_only=True):
    """A note that the item's schema asks for, and whether it has a body."""

    filled: Annotated[bool, doc("Whether its body is not blank.")]


class GateStatus(base.Result, kw_only=True):
    """Whether the item can move forward now."""

    can_advance: Annotated[bool, doc("Neither terminal nor blocked, and no note missing.")]
    phase: base.RoleName
    missing: MissingKeys
    blockers: Annotated[list[Blocker], doc("What it waits for; absent: nothing.")] | UnsetType = UNSET


class ClaimDetail(base.Result, kw_only=True):
    """Who holds the item, or held it until the claim expired."""

    claimed_by: base.ClaimedBy
    claimed_at: base.ClaimedAt
    claim_expires_at: base.ClaimExpiresAt
    original_claimed_at: base.OriginalClaimedAt
    is_expired: Annotated[bool, doc("Whether its time is over: anybody may claim the item.")]
    resources: Annotated[list[Resource], doc("What it holds; absent: nothing.")] | UnsetType = UNSET


class WaitedForItem(Waited, kw_only=True):
    """How a wait for an item ended."""

    counts: Annotated[ChildCounts, doc("With tree_terminal: all items below.")] | UnsetType = UNSET


class ItemContextResult(base.Result, kw_only=True):
    """One item: its notes against its schema, its gate, its claim."""

    mode: Annotated[str, doc("As asked for: itemId.", enum=["item"])]
    item: ContextItem
    schema: Annotated[list[SchemaNote], doc("Notes of all phases that its schema asks for.")]
    gate_status: GateStatus
    guidance_pointer: base.GuidancePointer
    skill_pointer: base.SkillPointer | UnsetType = UNSET
    note_progress: base.Progress
    claim_detail: ClaimDetail | UnsetType = UNSET
    attempts: Annotated[HeldAttempts, doc("Absent: none, and no maxAttempts.")] | UnsetType = UNSET
    resources: fields.Resources | UnsetType = UNSET
    not_before: fields.NotBefore | UnsetType = UNSET
    due_at: fields.DueAt | UnsetType = UNSET
    overdue: fields.Overdue | UnsetType = UNSET
    recurs: fields.ShownRecurs | UnsetType = UNSET
    recurrence_of: fields.RecurrenceOf | UnsetType = UNSET
    usage: fields.UsageOfItem | UnsetType = UNSET
    budget: fields.BudgetOfItem | UnsetType = UNSET
    budget_spent: fields.BudgetSpent | UnsetType = UNSET
    notes: included.IncludedNotes | UnsetType = UNSET
    notes_total: included.NotesTotal | UnsetType = UNSET
    notes_left: included.NotesLeft | UnsetType = UNSET
    results: included.BlockerResults | UnsetType = UNSET
    results_total: included.ResultsTotal | UnsetType = UNSET
    results_left: included.ResultsLeft | UnsetType = UNSET
    next_offset: included.IncludedNext | UnsetType = UNSET
    waited: Annotated[WaitedForItem, doc("With waitMs.")] | UnsetType = UNSET


class FullContextResult(ItemContextResult, kw_only=True):
    """The same with the item in full."""

    item: Annotated[included.IncludedItem, doc("The item in full.")]  # type: ignore[assignment]


class ListedItem(base.Result, kw_only=True):
    """An item of a list."""

    id: base.ItemId
    title: base.Title
    role: base.RoleName
    tags: base.NullableTags
    ancestors: base.Ancestors | UnsetType = UNSET


class StalledItem(base.Result, kw_only=True):
    """An item in work or review that lacks required notes of its phase."""

    id: base.ItemId
    title: base.Title
    role: base.RoleName
    missing_notes: MissingKeys
    guidance_pointer: base.GuidancePointer
    skill_pointer: base.SkillPointer | UnsetType = UNSET
    ancestors: base.Ancestors | UnsetType = UNSET


class RecentTransition(ItemTransition, kw_only=True):
    """A role change of one of the items."""

    item_id: base.ItemId


ActiveItems = Annotated[list[ListedItem], doc("In work, then in review; best first.")]
StalledItems = Annotated[list[StalledItem], doc("Those of activeItems that lack required notes.")]


class Totals(base.Result, kw_only=True):
    """Lengths of the whole lists, where an answer has only a page of them."""

    active_items: Annotated[base.Count, doc("In work or review.")]
    blocked_items: Annotated[base.Count, doc("In role blocked.")] | UnsetType = UNSET


HeldBackItems = Annotated[
    HeldBack,
    doc(
        "What an agent without capabilities would be offered but for this, counted as in no_match of "
        "claim_item; absent: nothing."
    ),
]
OverdueItems = Annotated[base.Count, doc("Open items whose dueAt has passed; absent: none.")]


class SessionResumeResult(base.Result, kw_only=True):
    """What is going on, and what happened since a time, newest first."""

    mode: Annotated[str, doc("As asked for: since.", enum=["session-resume"])]
    since: Annotated[str, doc("As given.")]
    active_items: ActiveItems
    recent_transitions: Annotated[list[RecentTransition], doc("At or after since, newest first.")]
    stalled_items: StalledItems
    held_back: HeldBackItems | UnsetType = UNSET
    overdue: OverdueItems | UnsetType = UNSET
    totals: Totals | UnsetType = UNSET
    next_offset: base.NextOffset = UNSET
    truncated: base.Truncated = UNSET


class ActiveClaims(base.Result, kw_only=True):
    """Claims of all items."""

    active: Annotated[base.Count, doc("Held now.")]
    expired: Annotated[base.Count, doc("Past their time.")]


class AbandonedItem(base.Result, kw_only=True):
    """An item that an agent has left in the middle."""

    id: base.ItemId
    title: base.Title
    role: Annotated[base.Role, doc("work, or review: its reviewer left it.")]
    since: Annotated[base.IsoTime, doc("When its claim ended, UTC.")]
    blocked: Annotated[bool, doc("True: it waits, so selectors do not find it.")]
    ancestors: base.Ancestors | UnsetType = UNSET


class AbandonedItems(base.Result, kw_only=True):
    """What agents have left in the middle; absent if there is nothing."""

    ready: Annotated[base.Count, doc("To be taken over by a selector without role.")]
    blocked: Annotated[base.Count, doc("Waiting for a dependency, a time or their children.")]
    items: Annotated[list[AbandonedItem], doc("Those left first; blocked ones last.")]


class HealthCheckResult(base.Result, kw_only=True):
    """What is going on, what is stuck, and how many claims there are."""

    mode: Annotated[str, doc("As asked for: neither.", enum=["health-check"])]
    active_items: ActiveItems
    blocked_items: Annotated[list[ListedItem], doc("In role blocked; best first.")]
    stalled_items: StalledItems
    abandoned: AbandonedItems | UnsetType = UNSET
    held_back: HeldBackItems | UnsetType = UNSET
    overdue: OverdueItems | UnsetType = UNSET
    claim_summary: ActiveClaims | UnsetType = UNSET
    totals: Totals | UnsetType = UNSET
    next_offset: base.NextOffset = UNSET
    truncated: base.Truncated = UNSET
