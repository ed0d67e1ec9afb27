"""advance_item."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import Actor, ActorEcho, Verification
from coordinator.toolsets.items.contract.base import (
    Arguments,
    ContendedItemId,
    Count,
    ErrorKind,
    ExpectedNotes,
    FenceToken,
    Guidance,
    IsoTime,
    ItemId,
    ItemRef,
    NoteDescription,
    NoteKey,
    NoteProgress,
    Phase,
    RequestId,
    Result,
    Role,
    Skill,
    SkillPointer,
    StatusLabel,
    Title,
)
from coordinator.toolsets.items.contract.dependencies import Blocker
from coordinator.toolsets.items.contract.usage import GivenUsage

TRIGGERS = ("start", "complete", "block", "hold", "resume", "cancel", "reopen")
ERROR_CODES = ("not_claim_holder", "stale_fence", "resource_busy", "rejected_by_policy")
"""The codes of refused transitions; other refusals have only a sentence."""

_VALUES = [{"type": kind} for kind in ("string", "number", "boolean", "object")]
PreviousRole = Annotated[Role, Meta(description="Role before.")]
MissingKeys = Annotated[list[str], Meta(description="Keys of required notes that are not filled.")]


class Transition(Arguments, kw_only=True):
    """One trigger on one item."""

    item_id: ItemRef
    trigger: Annotated[str, Meta(description="What to do; see the tool.", extra_json_schema={"enum": list(TRIGGERS)})]
    summary: Annotated[
        str | None, Meta(description="Kept on the transition record.", extra_json_schema={"maxLength": 2000})
    ] = None
    actor: Annotated[Actor | None, Meta(description="Who acts; must hold the item's claim if it has one.")] = None
    fence_token: FenceToken = None
    result: Annotated[
        Any,
        Meta(
            description="What came of the work, text or JSON up to 262,144 bytes; only with a transition that ends the "
            "item. Becomes its note 'result'.",
            extra_json_schema={"anyOf": [*_VALUES, {"type": "array", "items": {"anyOf": _VALUES}}, {"type": "null"}]},
        ),
    ] = None
    usage: GivenUsage = None


class ItemTransition(Result, kw_only=True):
    """A role change."""

    from_role: Annotated[Role, Meta(description="Role before.")]
    to_role: Annotated[Role, Meta(description="Role after.")]
    trigger: Annotated[
        str,
        Meta(
            description="cascade: it followed a child; quarantine: attempts failed; end_claim: an operator "
            "ended the claim, and the role stayed.",
            extra_json_schema={"enum": [*TRIGGERS, "cascade", "quarantine", "end_claim"]},
        ),
    ]
    at: Annotated[IsoTime, Meta(description="When, UTC.")]
    summary: Annotated[str, Meta(description="As given, or why it followed; absent: none.")] | UnsetType = UNSET
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class AdvanceItem(Arguments, kw_only=True):
    """Trigger-based role transitions with dependency checks, gates and cascades."""

    transitions: Annotated[
        list[Transition],
        Meta(
            description="Applied in order, each on its own; all by one actor or all without.",
            extra_json_schema={"minItems": 1, "maxItems": 100},
        ),
    ]
    request_id: RequestId = None


class UnblockedItem(Result, kw_only=True):
    """An item that waits for nothing any more."""

    item_id: ItemId
    title: Title


class CascadeEvent(Result, kw_only=True):
    """A change of a parent that followed."""

    item_id: ItemId
    title: Title
    previous_role: PreviousRole
    target_role: Annotated[Role, Meta(description="Role after, or aimed at.")]
    applied: Annotated[bool, Meta(description="Whether it happened.")]
    trigger: Annotated[str, Meta(description="Not a user's.", extra_json_schema={"enum": ["cascade"]})]
    gate_blocked: Annotated[bool, Meta(description="True: stopped by missingNotes.")] | UnsetType = UNSET
    missing_notes: MissingKeys | UnsetType = UNSET
    error: Annotated[str, Meta(description="If not applied: why, and how to fill the notes.")] | UnsetType = UNSET


class MissingNote(Result, kw_only=True):
    """A required note that is not filled."""

    key: NoteKey
    role: Phase
    description: NoteDescription
    guidance: Guidance | UnsetType = UNSET
    skill: Skill | UnsetType = UNSET


class TransitionResult(Result, kw_only=True):
    """The outcome of one transition: the new state if ``applied``, else ``error`` and why."""

    item_id: Annotated[str, Meta(description="The item's UUID; as the caller wrote it if it was not found.")]
    previous_role: PreviousRole | UnsetType = UNSET
    new_role: Annotated[Role, Meta(description="Role after.")] | UnsetType = UNSET
    trigger: Annotated[str, Meta(description="As given, in lower case.", extra_json_schema={"enum": list(TRIGGERS)})]
    applied: Annotated[bool, Meta(description="Whether it happened.")]
    error: Annotated[str, Meta(description="If not applied: why, in a sentence.")] | UnsetType = UNSET
    blockers: Annotated[list[Blocker], Meta(description="If dependencies refused it: which.")] | UnsetType = UNSET
    missing_notes: (
        Annotated[list[MissingNote], Meta(description="If the note gate refused it: what to fill.")] | UnsetType
    ) = UNSET
    error_kind: ErrorKind | UnsetType = UNSET
    error_code: (
        Annotated[
            str, Meta(description="If claim or policy refused it.", extra_json_schema={"enum": list(ERROR_CODES)})
        ]
        | UnsetType
    ) = UNSET
    contended_item_id: ContendedItemId | UnsetType = UNSET
    cascade_events: (
        Annotated[list[CascadeEvent], Meta(description="Parents that followed, nearest first.")] | UnsetType
    ) = UNSET
    unblocked_items: (
        Annotated[list[UnblockedItem], Meta(description="What no longer waits after this transition.")] | UnsetType
    ) = UNSET
    expected_notes: (
        Annotated[ExpectedNotes, Meta(description="Notes that its schema asks for in the new role.")] | UnsetType
    ) = UNSET
    status_label: StatusLabel | UnsetType = UNSET
    summary: Annotated[str, Meta(description="As given.")] | UnsetType = UNSET
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET
    guidance_pointer: (
        Annotated[str, Meta(description="Guidance for the first required note not filled; absent: none.")] | UnsetType
    ) = UNSET
    skill_pointer: SkillPointer | UnsetType = UNSET
    note_progress: NoteProgress | UnsetType = UNSET


class AdvanceSummary(Result, kw_only=True):
    """Counts over the batch."""

    total: Annotated[Count, Meta(description="Transitions given.")]
    succeeded: Annotated[Count, Meta(description="Applied.")]
    failed: Annotated[Count, Meta(description="Refused.")]


class AdvanceItemResult(Result, kw_only=True):
    """One entry per transition, in order."""

    results: Annotated[list[TransitionResult], Meta(description="One per transition, in order.")]
    summary: AdvanceSummary
    all_unblocked_items: Annotated[list[UnblockedItem], Meta(description="What no longer waits after the whole call.")]
