"""claim_item, with selectors and waiting."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from coordinator.settings.sections.resources import MOST_DEMANDS
from coordinator.toolsets.actor import FILLED_BY_CALLER, Actor
from coordinator.toolsets.canonical import NOT_COMPARED, UNORDERED, meant
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.contract import included
from coordinator.toolsets.items.contract.attempts import REASONS
from coordinator.toolsets.items.contract.dependencies import Blocker
from coordinator.toolsets.items.contract.transitions import RESULT_SCHEMA, TransitionResult
from coordinator.toolsets.items.field_types import base
from coordinator.toolsets.items.field_types.resources import GivenResource, Resource
from coordinator.toolsets.items.field_types.usage import GivenUsage, SpentBudget

MAX_WAIT_MS = 60_000
ORDERS = ("priority", "oldest", "newest")
CLAIM_OUTCOMES = (
    "success",
    "already_claimed",
    "not_found",
    "terminal_item",
    "agent_draining",
    "project_paused",
    "budget_exhausted",
    "resource_busy",
    "stale_fence",
    "no_match",
    "superseded",
    "release_refused",
    "rejected_by_policy",
)
RELEASE_REASONS = (*REASONS, "done", "untouched")
"""Those of attempts, and two that are none."""
RELEASE_OUTCOMES = ("success", "not_claimed_by_you", "not_found", "stale_fence", "refused")

DELEGATED = "token"
"""What a claim can include besides ``PARTS``."""
ClaimInclude = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": [*included.PARTS, DELEGATED]})]],
    doc(
        "Adds the item in full, its notes, results of its blockers (60,000 characters, of long texts the "
        "beginning); a token for this claim.",
        extra=UNORDERED,
    ),
]

Time = Annotated[str | None, doc("ISO-8601 time with zone, inclusive.")]
Bound = Annotated[str | None, doc("Inclusive.")]
RoleOnOffer = Annotated[
    str | None,
    doc(
        "Default: ready items in queue, and abandoned ones in work or review.",
        enum=["queue", "work", "review", "blocked", None],
    ),
]
OrderBy = Annotated[
    str | None,
    doc("Default priority: high first, then low complexity, then age.", enum=[*ORDERS, None], extra=meant("priority")),
]


PARENTS = ("after_children", "any")
"""When a selector finds an item with children: once none of them is open, or at any time."""
ParentsOnOffer = Annotated[
    str | None,
    doc(
        "Default after_children: an item with an open child is not offered.",
        enum=[*PARENTS, None],
        extra=meant("after_children"),
    ),
]


class Selector(base.Arguments, kw_only=True):
    """Which item to take; every filter is optional."""

    role: RoleOnOffer = None
    parents: ParentsOnOffer = None
    parent_id: base.ChildrenOf = None
    ancestor_id: base.ItemsBelow = None
    tags: base.AnyTag = None
    priority: base.OnlyPriority = None
    type: base.OnlyType = None
    complexity_max: base.ComplexityMax = None
    assignee: Annotated[str | None, doc("Only those assigned to this one; default: to nobody, or you.")] = None
    created_after: Time = None
    created_before: Bound = None
    role_changed_after: Bound = None
    role_changed_before: Bound = None
    order_by: OrderBy = None


class ClaimEntry(base.Arguments, kw_only=True):
    """An item to claim: by id, or the best one for a selector."""

    item_id: base.OptionalItemRef = None
    selector: Annotated[Selector | None, doc("Instead of itemId; then this is the call's only claim.")] = None
    ttl_seconds: Annotated[int, doc("How long the claim lasts.", ge=1, le=86400)] = 900
    agent_id: Annotated[str | None, doc("Ignored: the trusted actor is the holder.", extra=NOT_COMPARED)] = None
    fence_token: base.FenceToken = None
    resources: Annotated[
        list[GivenResource],
        doc(
            "With itemId: taken besides what the item demands; a renewal takes these in addition, all or none.",
            published={"maxItems": MOST_DEMANDS},
        ),
    ] = []
    claim_ref: Annotated[str | None, doc("Echoed in the result.", published={"minLength": 1, "maxLength": 64})] = None
    usage: GivenUsage = None


class ReleaseEntry(base.Arguments, kw_only=True):
    """An item to release."""

    item_id: base.ItemRef
    fence_token: base.FenceToken = None
    reason: Annotated[
        str | None,
        doc(
            "failed, gave_up: an attempt in work or review; hopeless: quarantine; done: ends the item first, or passes "
            "it to review; untouched: takes the start under this claim back.",
            enum=[*RELEASE_REASONS, None],
        ),
    ] = None
    detail: Annotated[str | None, doc("With reason: more about it.", published={"maxLength": 500})] = None
    result: Annotated[
        Any, doc("With done: what came of the work, as advance_item has it.", published=RESULT_SCHEMA)
    ] = None
    summary: Annotated[str | None, doc("With done: for the history.", published={"maxLength": 2000})] = None
    usage: GivenUsage = None


class ClaimItem(base.Arguments, kw_only=True):
    """Claim or release items for one agent; one claim per agent."""

    actor: Annotated[
        Actor | UnsetType, doc("Who claims; becomes the holder.", extra=FILLED_BY_CALLER | NOT_COMPARED)
    ] = UNSET
    request_id: Annotated[
        str, doc("A new UUID per operation; repeated calls get the first answer.", extra=NOT_COMPARED)
    ]
    claims: Annotated[
        list[ClaimEntry], doc("Items to claim; the last one that can be is claimed.", published={"maxItems": 100})
    ] = []
    releases: Annotated[
        list[ReleaseEntry],
        doc(
            "Released after the claims, what a claim gives up, and all with start, before; at most 100 with these.",
            published={"maxItems": 100},
        ),
    ] = []
    capabilities: Annotated[
        list[str] | None,
        doc(
            "What the agent can do; kept: absent means those it named last (within a day), [] none.",
            published={"maxItems": 32},
            extra=UNORDERED,
        ),
    ] = None
    wait_ms: Annotated[
        int,
        doc(
            "With a selector: milliseconds to wait for an item; answered after 50 s at the latest. Stay "
            "below your client's limit for a call: 5 s for OpenAI Agents, 60 s or more for others.",
            ge=0,
            le=MAX_WAIT_MS,
            extra=NOT_COMPARED,
        ),
    ] = 0
    include: ClaimInclude = []
    start: Annotated[
        bool, doc("True: starts the claimed item, as advance_item does, if it is in queue or a takeover.")
    ] = False


EntryItemId = Annotated[str, doc("The item's UUID; as the caller wrote it if it was not found.")]
EntryError = Annotated[str, doc("Why, if the outcome does not say enough.")]


class HeldBack(base.Result, kw_only=True):
    """What the selector would match, each item under the first that holds it back; of many, the 50 best."""

    quarantined: Annotated[base.Count, doc("After too many attempts.")]
    not_before: Annotated[base.Count, doc("Until a time.")]
    backoff: Annotated[base.Count, doc("After a failed attempt.")]
    dependencies: Annotated[base.Count, doc("By open blockers.")]
    open_children: Annotated[base.Count, doc("Parents of these.")]
    budget: Annotated[base.Count, doc("Spent, theirs or one above.")]
    capabilities: Annotated[base.Count, doc("That the agent lacks.")]
    assigned: Annotated[base.Count, doc("To others.")]
    resources: Annotated[base.Count, doc("That others hold.")]


class Paused(base.Result, kw_only=True):
    """An operator has paused the claims of the project."""

    reason: Annotated[str, doc("The operator's; empty: none was given.")]
    since: Annotated[str, doc("When.")]
    by: Annotated[str, doc("Who.")]


class ClaimResult(base.Result, kw_only=True):
    """The outcome of one claim."""

    item_id: EntryItemId | UnsetType = UNSET
    outcome: Annotated[
        str, doc("success: held by the caller now. Claim fields come with it only.", enum=CLAIM_OUTCOMES)
    ]
    selector_resolved: Annotated[bool, doc("True: found by the selector.")] | UnsetType = UNSET
    claim_ref: Annotated[str, doc("claimRef of the entry.")] | UnsetType = UNSET
    claimed_by: base.ClaimedBy | UnsetType = UNSET
    claimed_at: base.ClaimedAt | UnsetType = UNSET
    claim_expires_at: base.ClaimExpiresAt | UnsetType = UNSET
    original_claimed_at: base.OriginalClaimedAt | UnsetType = UNSET
    fence_token: (
        Annotated[
            int, doc("Pass it in later calls. Grows with each new claim; a renewal keeps it.", published={"minimum": 1})
        ]
        | UnsetType
    ) = UNSET
    role: Annotated[base.Role, doc("Where the item stands, for a claim by selector or a takeover.")] | UnsetType = UNSET
    takeover: Annotated[bool, doc("True: another agent left the item in this role; see its notes.")] | UnsetType = UNSET
    ready: Annotated[bool, doc("False: held, but not ready to be worked on, for reason and blockers.")] | UnsetType = (
        UNSET
    )
    start: Annotated[TransitionResult, doc("With start: what came of it.")] | UnsetType = UNSET
    stop: (
        Annotated[
            bool, doc("True: an operator drains the agent, or a budget is spent; finish or release, and claim no more.")
        ]
        | UnsetType
    ) = UNSET
    stop_reason: Annotated[str, doc("With stop: why, in a sentence.")] | UnsetType = UNSET
    budget: SpentBudget | UnsetType = UNSET
    reason: Annotated[str, doc("With ready false or stop: why, in a sentence.")] | UnsetType = UNSET
    blockers: Annotated[list[Blocker], doc("With ready false: what it waits for, at most 20.")] | UnsetType = UNSET
    kind: base.ErrorKind | UnsetType = UNSET
    code: Annotated[str, doc("With some outcomes: the same.")] | UnsetType = UNSET
    contended_item_id: base.ContendedItemId | UnsetType = UNSET
    retry_after_ms: (
        Annotated[
            base.Count,
            doc(
                "With already_claimed: time left of that claim; with no_match, resource_busy, project_paused "
                "and a budget of a day: when to ask again; in milliseconds."
            ),
        ]
        | UnsetType
    ) = UNSET
    resources: Annotated[list[Resource], doc("With resource_busy: what of it is not free.")] | UnsetType = UNSET
    paused: Annotated[Paused, doc("With project_paused.")] | UnsetType = UNSET
    held_back: Annotated[HeldBack, doc("With no_match; absent: nothing is.")] | UnsetType = UNSET
    error: EntryError | UnsetType = UNSET
    token: Annotated[str, doc("With include token: opens the toolset worker for this item; a secret.")] | UnsetType = (
        UNSET
    )
    item: Annotated[included.IncludedItem, doc("The item in full; with include.")] | UnsetType = UNSET
    notes: included.IncludedNotes | UnsetType = UNSET
    notes_total: included.NotesTotal | UnsetType = UNSET
    notes_left: included.NotesLeft | UnsetType = UNSET
    results: included.BlockerResults | UnsetType = UNSET
    results_total: included.ResultsTotal | UnsetType = UNSET
    results_left: included.ResultsLeft | UnsetType = UNSET
    next_offset: included.IncludedNext | UnsetType = UNSET


class ReleaseResult(base.Result, kw_only=True):
    """The outcome of one release."""

    item_id: EntryItemId
    outcome: Annotated[str, doc("success: released.", enum=RELEASE_OUTCOMES)]
    error: EntryError | UnsetType = UNSET
    transition: Annotated[TransitionResult, doc("With done: what came of it.")] | UnsetType = UNSET


class ClaimSummary(base.Result, kw_only=True):
    """Counts over the call."""

    claims_total: Annotated[base.Count, doc("Entries of claims.")]
    claims_succeeded: Annotated[base.Count, doc("With outcome success.")]
    claims_failed: Annotated[base.Count, doc("With any other.")]
    releases_total: Annotated[base.Count, doc("Entries of releases.")]
    releases_succeeded: Annotated[base.Count, doc("With outcome success.")]
    releases_failed: Annotated[base.Count, doc("With any other.")]


class ClaimItemResult(base.Result, kw_only=True):
    """One entry per claim and release, in order."""

    claim_results: Annotated[list[ClaimResult], doc("One per claim, in order.")]
    release_results: Annotated[list[ReleaseResult], doc("One per release, in order.")]
    summary: ClaimSummary
