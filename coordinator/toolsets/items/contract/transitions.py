"""advance_item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from coordinator.toolsets.actor import Actor, ActorEcho, Verification
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.contract.dependencies import Blocker
from coordinator.toolsets.items.field_types import base
from coordinator.toolsets.items.field_types.usage import GivenUsage

TRIGGERS = ("start", "complete", "block", "hold", "resume", "cancel", "reopen")
ERROR_CODES = ("not_claim_holder", "stale_fence", "resource_busy", "rejected_by_policy")
"""The codes of refused transitions; other refusals have only a sentence."""

_VALUES = [{"type": kind} for kind in ("string", "number", "boolean", "object")]
RESULT_SCHEMA: Mapping[str, Any] = {
    "anyOf": [*_VALUES, {"type": "array", "items": {"anyOf": _VALUES}}, {"type": "null"}]
}
"""Of a result, in the input schema."""
PreviousRole = Annotated[base.Role, doc("Role before.")]
MissingKeys = Annotated[list[str], doc("Keys of required notes that are not filled.")]


class Transition(base.Arguments, kw_only=True):
    """One trigger on one item."""

    item_id: base.ItemRef
    trigger: Annotated[str, doc("What to do; see the tool.", enum=TRIGGERS)]
    summary: Annotated[str | None, doc("Kept on the transition record.", published={"maxLength": 2000})] = None
    actor: Annotated[Actor | None, doc("Who acts; must hold the item's claim if it has one.")] = None
    fence_token: base.FenceToken = None
    result: Annotated[
        Any,
        doc(
            "What came of the work, text or JSON up to 262,144 bytes; only with a transition that ends the "
            "item. Becomes its note 'result'.",
            published=RESULT_SCHEMA,
        ),
    ] = None
    usage: GivenUsage = None


class ItemTransition(base.Result, kw_only=True):
    """A role change."""

    from_role: Annotated[base.Role, doc("Role before.")]
    to_role: Annotated[base.Role, doc("Role after.")]
    trigger: Annotated[
        str,
        doc(
            "cascade: it followed a child; quarantine: attempts failed; end_claim: an operator "
            "ended the claim, and the role stayed; untouched: a start was undone.",
            enum=[*TRIGGERS, "cascade", "quarantine", "end_claim", "untouched"],
        ),
    ]
    at: Annotated[base.IsoTime, doc("When, UTC.")]
    summary: Annotated[str, doc("As given, or why it followed; absent: none.")] | UnsetType = UNSET
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class AdvanceItem(base.Arguments, kw_only=True):
    """Trigger-based role transitions with dependency checks, gates and cascades."""

    transitions: Annotated[
        list[Transition],
        doc(
            "Applied in order, each on its own; all by one actor or all without.",
            published={"minItems": 1, "maxItems": 100},
        ),
    ]
    request_id: base.RequestId = None


class UnblockedItem(base.Result, kw_only=True):
    """An item that waits for nothing any more."""

    item_id: base.ItemId
    title: base.Title


class CascadeEvent(base.Result, kw_only=True):
    """A change of a parent that followed."""

    item_id: base.ItemId
    title: base.Title
    previous_role: PreviousRole
    target_role: Annotated[base.Role, doc("Role after, or aimed at.")]
    applied: Annotated[bool, doc("Whether it happened.")]
    trigger: Annotated[str, doc("Not a user's.", enum=["cascade"])]
    gate_blocked: Annotated[bool, doc("True: stopped by missingNotes.")] | UnsetType = UNSET
    missing_notes: MissingKeys | UnsetType = UNSET
    error: Annotated[str, doc("If not applied: why, and how to fill the notes.")] | UnsetType = UNSET


class MissingNote(base.Result, kw_only=True):
    """A required note that is not filled."""

    key: base.NoteKey
    role: base.Phase
    description: base.NoteDescription
    guidance: base.Guidance | UnsetType = UNSET
    skill: base.Skill | UnsetType = UNSET


class TransitionResult(base.Result, kw_only=True):
    """The outcome of one transition: the new state if ``applied``, else ``error`` and why."""

    item_id: Annotated[str, doc("The item's UUID; as the caller wrote it if it was not found.")]
    previous_role: PreviousRole | UnsetType = UNSET
    new_role: Annotated[base.Role, doc("Role after.")] | UnsetType = UNSET
    trigger: Annotated[str, doc("As given, in lower case.", enum=TRIGGERS)]
    applied: Annotated[bool, doc("Whether it happened.")]
    error: Annotated[str, doc("If not applied: why, in a sentence.")] | UnsetType = UNSET
    blockers: Annotated[list[Blocker], doc("If dependencies refused it: which.")] | UnsetType = UNSET
    missing_notes: Annotated[list[MissingNote], doc("If the note gate refused it: what to fill.")] | UnsetType = UNSET
    error_kind: base.ErrorKind | UnsetType = UNSET
    error_code: Annotated[str, doc("If claim or policy refused it.", enum=ERROR_CODES)] | UnsetType = UNSET
    contended_item_id: base.ContendedItemId | UnsetType = UNSET
    cascade_events: Annotated[list[CascadeEvent], doc("Parents that followed, nearest first.")] | UnsetType = UNSET
    unblocked_items: Annotated[list[UnblockedItem], doc("What no longer waits after this transition.")] | UnsetType = (
        UNSET
    )
    expected_notes: (
        Annotated[base.ExpectedNotes, doc("Notes that its schema asks for in the new role.")] | UnsetType
    ) = UNSET
    status_label: base.StatusLabel | UnsetType = UNSET
    summary: Annotated[str, doc("As given.")] | UnsetType = UNSET
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET
    guidance_pointer: (
        Annotated[str, doc("Guidance for the first required note not filled; absent: none.")] | UnsetType
    ) = UNSET
    skill_pointer: base.SkillPointer | UnsetType = UNSET
    note_progress: base.NoteProgress | UnsetType = UNSET


class AdvanceSummary(base.Result, kw_only=True):
    """Counts over the batch."""

    total: Annotated[base.Count, doc("Transitions given.")]
    succeeded: Annotated[base.Count, doc("Applied.")]
    failed: Annotated[base.Count, doc("Refused.")]


class AdvanceItemResult(base.Result, kw_only=True):
    """One entry per transition, in order."""

    results: Annotated[list[TransitionResult], doc("One per transition, in order.")]
    summary: AdvanceSummary
    all_unblocked_items: Annotated[list[UnblockedItem], doc("What no longer waits after the whole call.")]
