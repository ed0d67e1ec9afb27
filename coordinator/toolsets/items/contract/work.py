"""advance_item, get_next_item and claim_item (seed 004)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import Actor, ActorEcho, Verification
from coordinator.toolsets.items.contract.base import (
    Ancestor,
    Arguments,
    ExpectedNote,
    ItemRef,
    NoteProgress,
    OptionalItemRef,
    RequestId,
    Result,
)

TRIGGERS = ("start", "complete", "block", "hold", "resume", "cancel", "reopen")
FenceToken = Annotated[
    Annotated[int, Meta(ge=1, le=9007199254740991)] | None,
    Meta(description="The fenceToken of the claim acted under; a stale one is refused."),
]


class Transition(Arguments, kw_only=True):
    """One trigger on one item."""

    item_id: ItemRef
    trigger: Annotated[str, Meta(extra_json_schema={"enum": list(TRIGGERS)})]
    summary: Annotated[str | None, Meta(description="Kept on the transition record.")] = None
    actor: Annotated[Actor | None, Meta(description="Who acts; must hold the item's claim if it has one.")] = None
    fence_token: FenceToken = None


class AdvanceItem(Arguments, kw_only=True):
    """Trigger-based role transitions with dependency checks, gates and cascades."""

    transitions: Annotated[list[Transition], Meta(description="Applied in order, each on its own.")]
    request_id: RequestId = None


class UnblockedItem(Result, kw_only=True):
    """An item that waits for nothing any more."""

    item_id: str
    title: str


class CascadeEvent(Result, kw_only=True):
    """A change of a parent that followed."""

    item_id: str
    title: str
    previous_role: str
    target_role: str
    applied: bool
    trigger: str
    gate_blocked: bool | UnsetType = UNSET
    missing_notes: list[str] | UnsetType = UNSET


class Blocker(Result, kw_only=True):
    """A dependency that is not satisfied."""

    from_item_id: str
    current_role: str
    required_role: str


class MissingNote(Result, kw_only=True):
    """A required note that is not filled."""

    key: str
    description: str
    guidance: str | UnsetType = UNSET
    skill: str | UnsetType = UNSET


class TransitionResult(Result, kw_only=True):
    """What became of one transition: the new state where ``applied``, else ``error`` and why."""

    item_id: str
    previous_role: str | UnsetType = UNSET
    new_role: str | UnsetType = UNSET
    trigger: str | UnsetType = UNSET
    applied: bool
    error: str | UnsetType = UNSET
    blockers: list[Blocker] | UnsetType = UNSET
    missing_notes: list[MissingNote] | UnsetType = UNSET
    error_kind: str | UnsetType = UNSET
    error_code: str | UnsetType = UNSET
    contended_item_id: str | UnsetType = UNSET
    cascade_events: list[CascadeEvent] | UnsetType = UNSET
    unblocked_items: list[UnblockedItem] | UnsetType = UNSET
    expected_notes: list[ExpectedNote] | UnsetType = UNSET
    status_label: str | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET
    guidance_pointer: str | UnsetType = UNSET
    skill_pointer: str | UnsetType = UNSET
    note_progress: NoteProgress | UnsetType = UNSET


class AdvanceSummary(Result, kw_only=True):
    """Counts over the batch."""

    total: int
    succeeded: int
    failed: int


class AdvanceItemResult(Result, kw_only=True):
    """One entry per transition, in order."""

    results: list[TransitionResult]
    summary: AdvanceSummary
    all_unblocked_items: list[UnblockedItem]


class GetNextItem(Arguments, kw_only=True):
    """The best items to work on."""

    role: Annotated[
        str | None,
        Meta(description="Default queue.", extra_json_schema={"enum": ["queue", "work", "review", "blocked", None]}),
    ] = None
    parent_id: OptionalItemRef = None
    limit: Annotated[int, Meta(ge=1, le=20)] = 1
    include_details: Annotated[bool, Meta(description="Add summary, tags and parentId.")] = False
    include_ancestors: Annotated[bool, Meta(description="Add the way from the root.")] = False
    include_claimed: Annotated[bool, Meta(description="Add claimed items, marked isClaimed.")] = False


class Recommendation(Result, kw_only=True):
    """An item to work on."""

    item_id: str
    title: str
    role: str
    priority: str
    complexity: int | None
    summary: str | UnsetType = UNSET
    tags: str | UnsetType = UNSET
    parent_id: str | UnsetType = UNSET
    is_claimed: bool | UnsetType = UNSET
    ancestors: list[Ancestor] | UnsetType = UNSET


class GetNextItemResult(Result, kw_only=True):
    """Best first."""

    recommendations: list[Recommendation]
    total: int


class ClaimEntry(Arguments, kw_only=True):
    """An item to claim."""

    item_id: ItemRef
    ttl_seconds: Annotated[int, Meta(description="How long the claim lasts, in seconds.", ge=1, le=86400)] = 900
    agent_id: Annotated[str | None, Meta(description="Ignored: the trusted actor is the holder.")] = None
    fence_token: FenceToken = None


class ReleaseEntry(Arguments, kw_only=True):
    """An item to release."""

    item_id: ItemRef
    fence_token: FenceToken = None


class ClaimItem(Arguments, kw_only=True):
    """Claim or release items for one agent; one claim per agent."""

    actor: Annotated[Actor, Meta(description="Who claims; becomes the holder.")]
    request_id: Annotated[
        str,
        Meta(description="UUID made by the caller for one logical operation; repeating the call is safe."),
    ]
    claims: Annotated[list[ClaimEntry], Meta(description="Items to claim; the last claimable one is acquired.")] = []
    releases: Annotated[list[ReleaseEntry], Meta(description="Items to release.")] = []


class ClaimResult(Result, kw_only=True):
    """What became of one claim."""

    item_id: str
    outcome: str
    claimed_by: str | UnsetType = UNSET
    claimed_at: str | UnsetType = UNSET
    claim_expires_at: str | UnsetType = UNSET
    original_claimed_at: str | UnsetType = UNSET
    fence_token: int | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    contended_item_id: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


class ReleaseResult(Result, kw_only=True):
    """What became of one release."""

    item_id: str
    outcome: str
    error: str | UnsetType = UNSET


class ClaimSummary(Result, kw_only=True):
    """Counts over the call."""

    claims_total: int
    claims_succeeded: int
    claims_failed: int
    releases_total: int
    releases_succeeded: int
    releases_failed: int


class ClaimItemResult(Result, kw_only=True):
    """One entry per claim and release, in order."""

    claim_results: list[ClaimResult]
    release_results: list[ReleaseResult]
    summary: ClaimSummary
