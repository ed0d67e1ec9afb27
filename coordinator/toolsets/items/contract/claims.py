"""claim_item, with selectors and waiting."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.settings.resources import MOST_DEMANDS
from coordinator.toolsets.actor import FILLED_BY_CALLER, Actor
from coordinator.toolsets.canonical import NOT_COMPARED, UNORDERED, meant
from coordinator.toolsets.items.contract.attempts import REASONS
from coordinator.toolsets.items.contract.base import (
    AnyTag,
    Arguments,
    ChildrenOf,
    ClaimedAt,
    ClaimedBy,
    ClaimExpiresAt,
    ComplexityMax,
    ContendedItemId,
    Count,
    ErrorKind,
    FenceToken,
    ItemRef,
    ItemsBelow,
    OnlyPriority,
    OnlyType,
    OptionalItemRef,
    OriginalClaimedAt,
    Result,
    Role,
)
from coordinator.toolsets.items.contract.dependencies import Blocker
from coordinator.toolsets.items.contract.included import (
    PARTS,
    BlockerResults,
    IncludedItem,
    IncludedNext,
    IncludedNotes,
    NotesLeft,
    NotesTotal,
    ResultsLeft,
    ResultsTotal,
)
from coordinator.toolsets.items.contract.resources import GivenResource, Resource
from coordinator.toolsets.items.contract.usage import GivenUsage, SpentBudget

MAX_WAIT_MS = 60_000
ORDERS = ("priority", "oldest", "newest")
CLAIM_OUTCOMES = (
    "success",
    "already_claimed",
    "not_found",
    "terminal_item",
    "agent_draining",
    "budget_exhausted",
    "resource_busy",
    "stale_fence",
    "no_match",
    "superseded",
    "rejected_by_policy",
)
RELEASE_OUTCOMES = ("success", "not_claimed_by_you", "not_found", "stale_fence")

DELEGATED = "token"
"""What a claim can include besides ``PARTS``."""
ClaimInclude = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": [*PARTS, DELEGATED]})]],
    Meta(
        description="Adds the item in full, its notes, results of its blockers (60,000 characters, of long texts the "
        "beginning); a token for this claim.",
        extra=UNORDERED,
    ),
]

Time = Annotated[str | None, Meta(description="ISO-8601 time with zone, inclusive.")]
Bound = Annotated[str | None, Meta(description="Inclusive.")]
RoleOnOffer = Annotated[
    str | None,
    Meta(
        description="Default: ready items in queue, and abandoned ones in work or review.",
        extra_json_schema={"enum": ["queue", "work", "review", "blocked", None]},
    ),
]
OrderBy = Annotated[
    str | None,
    Meta(
        description="Default priority: high first, then low complexity, then age.",
        extra_json_schema={"enum": [*ORDERS, None]},
        extra=meant("priority"),
    ),
]


PARENTS = ("after_children", "any")
"""When a selector finds an item with children: once none of them is open, or at any time."""
ParentsOnOffer = Annotated[
    str | None,
    Meta(
        description="Default after_children: an item with an open child is not offered.",
        extra_json_schema={"enum": [*PARENTS, None]},
        extra=meant("after_children"),
    ),
]


class Selector(Arguments, kw_only=True):
    """Which item to take; every filter is optional."""

    role: RoleOnOffer = None
    parents: ParentsOnOffer = None
    parent_id: ChildrenOf = None
    ancestor_id: ItemsBelow = None
    tags: AnyTag = None
    priority: OnlyPriority = None
    type: OnlyType = None
    complexity_max: ComplexityMax = None
    assignee: Annotated[
        str | None, Meta(description="Only those assigned to this one; default: to nobody, or you.")
    ] = None
    created_after: Time = None
    created_before: Bound = None
    role_changed_after: Bound = None
    role_changed_before: Bound = None
    order_by: OrderBy = None


class ClaimEntry(Arguments, kw_only=True):
    """An item to claim: by id, or the best one for a selector."""

    item_id: OptionalItemRef = None
    selector: Annotated[Selector | None, Meta(description="Instead of itemId; then this is the call's only claim.")] = (
        None
    )
    ttl_seconds: Annotated[int, Meta(description="How long the claim lasts.", ge=1, le=86400)] = 900
    agent_id: Annotated[
        str | None, Meta(description="Ignored: the trusted actor is the holder.", extra=NOT_COMPARED)
    ] = None
    fence_token: FenceToken = None
    resources: Annotated[
        list[GivenResource],
        Meta(
            description="With itemId: taken besides what the item demands; a renewal takes these in "
            "addition, all or none.",
            extra_json_schema={"maxItems": MOST_DEMANDS},
        ),
    ] = []
    claim_ref: Annotated[
        str | None,
        Meta(
            description="Echoed in the result.",
            extra_json_schema={"minLength": 1, "maxLength": 64},
        ),
    ] = None
    usage: GivenUsage = None


class ReleaseEntry(Arguments, kw_only=True):
    """An item to release."""

    item_id: ItemRef
    fence_token: FenceToken = None
    reason: Annotated[
        str | None,
        Meta(
            description="failed, gave_up: an attempt in work or review; hopeless: quarantine.",
            extra_json_schema={"enum": [*REASONS, None]},
        ),
    ] = None
    detail: Annotated[
        str | None, Meta(description="With reason: more about it.", extra_json_schema={"maxLength": 500})
    ] = None
    usage: GivenUsage = None


class ClaimItem(Arguments, kw_only=True):
    """Claim or release items for one agent; one claim per agent."""

    actor: Annotated[
        Actor | UnsetType,
        Meta(description="Who claims; becomes the holder.", extra=FILLED_BY_CALLER | NOT_COMPARED),
    ] = UNSET
    request_id: Annotated[
        str,
        Meta(description="A new UUID per operation; repeated calls get the first answer.", extra=NOT_COMPARED),
    ]
    claims: Annotated[
        list[ClaimEntry],
        Meta(description="Items to claim; the last one that can be is claimed.", extra_json_schema={"maxItems": 100}),
    ] = []
    releases: Annotated[
        list[ReleaseEntry],
        Meta(
            description="Released after the claims, what a claim gives up before; at most 100 with these.",
            extra_json_schema={"maxItems": 100},
        ),
    ] = []
    capabilities: Annotated[
        list[str] | None,
        Meta(
            description="What the agent can do; kept: absent means those it named last (within a day), [] none.",
            extra_json_schema={"maxItems": 32},
            extra=UNORDERED,
        ),
    ] = None
    wait_ms: Annotated[
        int,
        Meta(
            description="With a selector: milliseconds to wait for an item; answered after 50 s at the latest. Stay "
            "below your client's limit for a call: 5 s for OpenAI Agents, 60 s or more for others.",
            ge=0,
            le=MAX_WAIT_MS,
            extra=NOT_COMPARED,
        ),
    ] = 0
    include: ClaimInclude = []


EntryItemId = Annotated[str, Meta(description="The item's UUID; as the caller wrote it if it was not found.")]
EntryError = Annotated[str, Meta(description="Why, if the outcome does not say enough.")]


class HeldBack(Result, kw_only=True):
    """What the selector would match, each item under the first that holds it back; of many, the 50 best."""

    quarantined: Annotated[Count, Meta(description="After too many attempts.")]
    not_before: Annotated[Count, Meta(description="Until a time.")]
    backoff: Annotated[Count, Meta(description="After a failed attempt.")]
    dependencies: Annotated[Count, Meta(description="By open blockers.")]
    open_children: Annotated[Count, Meta(description="Parents of these.")]
    budget: Annotated[Count, Meta(description="Spent, theirs or one above.")]
    capabilities: Annotated[Count, Meta(description="That the agent lacks.")]
    assigned: Annotated[Count, Meta(description="To others.")]
    resources: Annotated[Count, Meta(description="That others hold.")]


class ClaimResult(Result, kw_only=True):
    """The outcome of one claim."""

    item_id: EntryItemId | UnsetType = UNSET
    outcome: Annotated[
        str,
        Meta(
            description="success: held by the caller now. Claim fields come with it only.",
            extra_json_schema={"enum": list(CLAIM_OUTCOMES)},
        ),
    ]
    selector_resolved: Annotated[bool, Meta(description="True: found by the selector.")] | UnsetType = UNSET
    claim_ref: Annotated[str, Meta(description="claimRef of the entry.")] | UnsetType = UNSET
    claimed_by: ClaimedBy | UnsetType = UNSET
    claimed_at: ClaimedAt | UnsetType = UNSET
    claim_expires_at: ClaimExpiresAt | UnsetType = UNSET
    original_claimed_at: OriginalClaimedAt | UnsetType = UNSET
    fence_token: (
        Annotated[
            int,
            Meta(
                description="Pass it in later calls. Grows with each new claim; a renewal keeps it.",
                extra_json_schema={"minimum": 1},
            ),
        ]
        | UnsetType
    ) = UNSET
    role: (
        Annotated[Role, Meta(description="Where the item stands, for a claim by selector or a takeover.")] | UnsetType
    ) = UNSET
    takeover: (
        Annotated[bool, Meta(description="True: another agent left the item in this role; see its notes.")] | UnsetType
    ) = UNSET
    ready: (
        Annotated[bool, Meta(description="False: held, but not ready to be worked on, for reason and blockers.")]
        | UnsetType
    ) = UNSET
    stop: (
        Annotated[
            bool,
            Meta(
                description="True: an operator drains the agent, or a budget is spent; finish or release, and claim "
                "no more."
            ),
        ]
        | UnsetType
    ) = UNSET
    stop_reason: Annotated[str, Meta(description="With stop: why, in a sentence.")] | UnsetType = UNSET
    budget: SpentBudget | UnsetType = UNSET
    reason: Annotated[str, Meta(description="With ready false or stop: why, in a sentence.")] | UnsetType = UNSET
    blockers: (
        Annotated[list[Blocker], Meta(description="With ready false: what it waits for, at most 20.")] | UnsetType
    ) = UNSET
    kind: ErrorKind | UnsetType = UNSET
    code: Annotated[str, Meta(description="With some outcomes: the same.")] | UnsetType = UNSET
    contended_item_id: ContendedItemId | UnsetType = UNSET
    retry_after_ms: (
        Annotated[
            Count,
            Meta(
                description="With already_claimed: time left of that claim; with no_match, resource_busy and a budget "
                "of a day: when to ask again; in milliseconds."
            ),
        ]
        | UnsetType
    ) = UNSET
    resources: (
        Annotated[list[Resource], Meta(description="With resource_busy: what of it is not free.")] | UnsetType
    ) = UNSET
    held_back: Annotated[HeldBack, Meta(description="With no_match; absent: nothing is.")] | UnsetType = UNSET
    error: EntryError | UnsetType = UNSET
    token: (
        Annotated[str, Meta(description="With include token: opens the toolset worker for this item; a secret.")]
        | UnsetType
    ) = UNSET
    item: Annotated[IncludedItem, Meta(description="The item in full; with include.")] | UnsetType = UNSET
    notes: IncludedNotes | UnsetType = UNSET
    notes_total: NotesTotal | UnsetType = UNSET
    notes_left: NotesLeft | UnsetType = UNSET
    results: BlockerResults | UnsetType = UNSET
    results_total: ResultsTotal | UnsetType = UNSET
    results_left: ResultsLeft | UnsetType = UNSET
    next_offset: IncludedNext | UnsetType = UNSET


class ReleaseResult(Result, kw_only=True):
    """The outcome of one release."""

    item_id: EntryItemId
    outcome: Annotated[str, Meta(description="success: released.", extra_json_schema={"enum": list(RELEASE_OUTCOMES)})]
    error: EntryError | UnsetType = UNSET


class ClaimSummary(Result, kw_only=True):
    """Counts over the call."""

    claims_total: Annotated[Count, Meta(description="Entries of claims.")]
    claims_succeeded: Annotated[Count, Meta(description="With outcome success.")]
    claims_failed: Annotated[Count, Meta(description="With any other.")]
    releases_total: Annotated[Count, Meta(description="Entries of releases.")]
    releases_succeeded: Annotated[Count, Meta(description="With outcome success.")]
    releases_failed: Annotated[Count, Meta(description="With any other.")]


class ClaimItemResult(Result, kw_only=True):
    """One entry per claim and release, in order."""

    claim_results: Annotated[list[ClaimResult], Meta(description="One per claim, in order.")]
    release_results: Annotated[list[ReleaseResult], Meta(description="One per release, in order.")]
    summary: ClaimSummary
