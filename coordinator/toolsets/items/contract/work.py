"""advance_item and get_next_item (seed 004)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import Actor, ActorEcho, Verification
from coordinator.toolsets.items.contract.base import (
    PRIORITIES,
    Ancestor,
    Arguments,
    ExpectedNote,
    FenceToken,
    ItemRef,
    NoteProgress,
    OptionalItemRef,
    RequestId,
    Result,
)
from coordinator.toolsets.items.contract.claim import OrderBy, Time

TRIGGERS = ("start", "complete", "block", "hold", "resume", "cancel", "reopen")


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
    ancestor_id: Annotated[str | None, Meta(description="Only items below this one, at any depth.")] = None
    tags: Annotated[str | None, Meta(description="Comma-separated; an item needs one of them.")] = None
    priority: Annotated[str | None, Meta(extra_json_schema={"enum": [*PRIORITIES, None]})] = None
    type: str | None = None
    complexity_max: Annotated[
        int | None, Meta(description="1 to 10; leaves out items without one.", extra_json_schema={"maximum": 10})
    ] = None
    created_after: Time = None
    created_before: Time = None
    role_changed_after: Time = None
    role_changed_before: Time = None
    order_by: OrderBy = None
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
