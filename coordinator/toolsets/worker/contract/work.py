"""Arguments and results of the five tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from coordinator.toolsets.canonical import meant
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.contract.claims import MAX_WAIT_MS, HeldBack, Paused
from coordinator.toolsets.items.contract.included import NotesLeft, NotesTotal, ResultsLeft, ResultsTotal
from coordinator.toolsets.items.field_types import base

WAIT_MS = 45_000
TTL_SECONDS = 900
MAX_REASON = 500
OUTCOMES = ("item", "none", "stop")
_VALUES = [{"type": kind} for kind in ("string", "number", "boolean", "object")]

OwnItem = Annotated[str | None, doc("If you hold several by slots: which one.")]

_Count = Annotated[int, Meta(ge=0)] | UnsetType
T = TypeVar("T")


class _InFewWords(base.Arguments, kw_only=True):
    """Arguments of another struct, in several tools. Every model reads the list, so it does not describe them
    again, and does not say that null and the default mean the same as leaving one out."""

    def whole(self, struct: Callable[..., T]) -> T:
        """The same as the other struct."""
        return struct(**{name: value for name, value in asdict(self).items() if value is not UNSET})


class WorkUsage(_InFewWords, kw_only=True):
    """``Usage``."""

    input_tokens: _Count = UNSET
    output_tokens: _Count = UNSET
    cached_tokens: _Count = UNSET
    cost_micro_usd: _Count = UNSET
    wall_ms: _Count = UNSET
    model: str | UnsetType = UNSET


Used = Annotated[
    WorkUsage | UnsetType, doc("Used since your last report; cachedTokens are part of inputTokens.", extra=meant({}))
]
UsedAtLast = Annotated[WorkUsage | UnsetType, doc("As in work_note.", extra=meant({}))]


class WorkNext(base.Arguments, kw_only=True):
    """Which item to take; without arguments, the best one."""

    tags: base.AnyTag = None
    type: base.OnlyType = None
    parent_id: base.ChildrenOf = None
    capabilities: Annotated[
        list[str] | None,
        doc(
            "What you can do; items that require more are left out. Kept until you name others.",
            published={"maxItems": 32},
        ),
    ] = None
    wait_ms: Annotated[
        int,
        doc(
            "Milliseconds to wait for an item, at most 50 s; stay below your client's limit for a call.",
            ge=0,
            le=MAX_WAIT_MS,
        ),
    ] = WAIT_MS
    offset: Annotated[int, doc("nextOffset: its further notes and results.", ge=0)] = 0
    ttl_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=86_400)] | None,
        doc("For how long the item is yours after each call about it; default 900."),
    ] = None


class NextItem(_InFewWords, kw_only=True):
    """``WorkNext``."""

    tags: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    parent_id: str | UnsetType = UNSET
    capabilities: list[str] | UnsetType = UNSET
    wait_ms: Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)] = WAIT_MS
    ttl_seconds: Annotated[int, Meta(ge=1, le=86_400)] | UnsetType = UNSET


Then = Annotated[NextItem | UnsetType, doc("Then take an item, as work_next does; needs itemId.")]


class WorkNote(base.Arguments, kw_only=True):
    """What others need to know."""

    key: Annotated[
        str,
        doc(
            "Its name: one of notesNeeded, or your own, such as progress. Replaces the note of this name.",
            published={"minLength": 1, "maxLength": 200},
        ),
    ]
    body: Annotated[str, doc("Its text, at most 500,000 bytes.")]
    item_id: OwnItem = None
    usage: Used = UNSET


class WorkDone(base.Arguments, kw_only=True):
    """What came of the work."""

    result: Annotated[
        Any,
        doc(
            "For the agents of items that depend on this one: text or JSON, up to 262,144 bytes.",
            published={"anyOf": [*_VALUES, {"type": "array", "items": {"anyOf": _VALUES}}, {"type": "null"}]},
        ),
    ] = None
    summary: Annotated[str | None, doc("A sentence for the history.", published={"maxLength": 2000})] = None
    item_id: OwnItem = None
    usage: UsedAtLast = UNSET
    next: Then = UNSET


class WorkFailed(base.Arguments, kw_only=True):
    """Why the item is not done."""

    reason: Annotated[
        str, doc("What went wrong, for whoever tries next.", published={"minLength": 1, "maxLength": MAX_REASON})
    ]
    hand_back: Annotated[bool, doc("True: nothing is wrong with the item, you only stop. Not counted.")] = False
    item_id: OwnItem = None
    usage: UsedAtLast = UNSET
    next: Then = UNSET


class WorkAsk(base.Arguments, kw_only=True):
    """What somebody has to answer before the item can go on."""

    question: Annotated[str, doc("With all that is needed to answer it.", published={"minLength": 1})]
    item_id: OwnItem = None
    usage: UsedAtLast = UNSET
    next: Then = UNSET


Size = Annotated[base.Count, doc("Bytes of the whole, if only its beginning is here.")]


class WorkItem(base.Result, kw_only=True):
    """What is to be done. Absent fields are empty."""

    id: base.ItemId
    title: base.Title
    summary: base.Summary | UnsetType = UNSET
    description: Annotated[str, doc("What to do, in full.")] | UnsetType = UNSET
    type: base.TypeName | UnsetType = UNSET
    tags: base.Tags | UnsetType = UNSET
    priority: Annotated[base.Priority, doc("Absent: medium.")] | UnsetType = UNSET
    metadata: Annotated[str, doc("Free text for tools.")] | UnsetType = UNSET
    properties: Annotated[str, doc("A JSON object as a string.")] | UnsetType = UNSET
    sizes: Annotated[dict[str, int], doc("Bytes of the texts of which only the beginning is here.")] | UnsetType = UNSET


class NeededNote(base.Result, kw_only=True):
    """A note that the item needs before it can go on."""

    key: base.NoteKey
    description: base.NoteDescription
    guidance: base.Guidance | UnsetType = UNSET
    skill: base.Skill | UnsetType = UNSET


class EarlierNote(base.Result, kw_only=True):
    """A note of the item."""

    key: base.NoteKey
    body: Annotated[str, doc("Its text.")]
    size: Size | UnsetType = UNSET


class EarlierResult(base.Result, kw_only=True):
    """What came of an item that this one waited for."""

    item_id: base.ItemId
    title: base.Title
    result: Annotated[Any, doc("Text or JSON.")]
    size: Size | UnsetType = UNSET


class AskedQuestion(base.Result, kw_only=True):
    """What was asked about the item."""

    question: Annotated[str, doc("As asked.")]
    answer: Annotated[str, doc("Absent: nobody has answered.")] | UnsetType = UNSET
    answered_by: Annotated[str, doc("Who has; absent: that is not known.")] | UnsetType = UNSET


class EarlierFailure(base.Result, kw_only=True):
    """How an attempt before this one has failed."""

    ended: Annotated[str, doc("expired: its agent was gone.", enum=["expired", "failed", "gave_up", "hopeless"])]
    detail: Annotated[str, doc("What its agent said; absent: nothing.")] | UnsetType = UNSET


Stop = Annotated[bool, doc("True: finish this item or hand it back, and take no other.")]
StopReason = Annotated[str, doc("Why to stop.")]

NeededNotes = Annotated[list[NeededNote], doc("Write these with work_note before work_done.")]


class WorkNextResult(base.Result, kw_only=True):
    """An item that is yours and started, or none."""

    outcome: Annotated[
        str,
        doc(
            "item: work on it now. none: nothing to do yet, call again. stop: there is none for you, see "
            "stopReason; end, or call again after retryAfterMs if it is there.",
            enum=OUTCOMES,
        ),
    ]
    item: WorkItem | UnsetType = UNSET
    role: Annotated[base.RoleName, doc("Where it stands; absent: in work.")] | UnsetType = UNSET
    held: Annotated[bool, doc("True: you have had it already.")] | UnsetType = UNSET
    takeover: Annotated[bool, doc("True: another agent has left it in the middle; see its notes.")] | UnsetType = UNSET
    claim_expires_at: base.ClaimExpiresAt | UnsetType = UNSET
    attempt: Annotated[base.Count, doc("Which attempt this is; absent: the first.")] | UnsetType = UNSET
    failures: (
        Annotated[list[EarlierFailure], doc("The last three attempts that failed, the last one first.")] | UnsetType
    ) = UNSET
    questions: Annotated[list[AskedQuestion], doc("Oldest first.")] | UnsetType = UNSET
    notes_needed: NeededNotes | UnsetType = UNSET
    notes: Annotated[list[EarlierNote], doc("Its other notes, oldest first.")] | UnsetType = UNSET
    notes_total: NotesTotal | UnsetType = UNSET
    notes_left: NotesLeft | UnsetType = UNSET
    results: Annotated[list[EarlierResult], doc("Of the items that it waited for, oldest first.")] | UnsetType = UNSET
    results_total: ResultsTotal | UnsetType = UNSET
    results_left: ResultsLeft | UnsetType = UNSET
    next_offset: (
        Annotated[base.Count, doc("There are more: call again with this offset before you begin.")] | UnsetType
    ) = UNSET
    problem: Annotated[str, doc("Why it could not be started yet.")] | UnsetType = UNSET
    stop: Stop | UnsetType = UNSET
    stop_reason: StopReason | UnsetType = UNSET
    paused: Annotated[Paused, doc("With none: nobody may begin anything.")] | UnsetType = UNSET
    held_back: Annotated[HeldBack, doc("With none: what there would be otherwise.")] | UnsetType = UNSET
    retry_after_ms: Annotated[base.Count, doc("Without an item: when to call again.")] | UnsetType = UNSET


NOT_COUNTED = "not counted: the runner reports it"
_UsageTold = Annotated[str, doc("What became of the usage; absent: it is added.")]


class WorkNoteResult(base.Result, kw_only=True):
    """The note is written, and the item still yours."""

    item_id: base.ItemId
    key: base.NoteKey
    notes_needed: NeededNotes | UnsetType = UNSET
    stop: Stop | UnsetType = UNSET
    stop_reason: StopReason | UnsetType = UNSET
    usage: _UsageTold | UnsetType = UNSET


class WorkEnded(base.Result, kw_only=True):
    """The item is no longer yours."""

    item_id: base.ItemId
    role: Annotated[
        base.RoleName, doc("Where it stands now: terminal (done), review, work or queue (offered again), blocked.")
    ]
    note: Annotated[base.NoteKey, doc("Under which note the question, or the reason, is kept.")] | UnsetType = UNSET
    repeated: Annotated[bool, doc("True: it was reported before; this call has changed nothing.")] | UnsetType = UNSET
    usage: _UsageTold | UnsetType = UNSET
    next: Annotated[WorkNextResult, doc("With next: as work_next answers.")] | UnsetType = UNSET
