"""Arguments and results of the five tools."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import (
    AnyTag,
    Arguments,
    ChildrenOf,
    ClaimExpiresAt,
    Count,
    Guidance,
    ItemId,
    NoteDescription,
    NoteKey,
    OnlyType,
    Priority,
    Result,
    RoleName,
    Skill,
    Summary,
    Tags,
    Title,
    TypeName,
)
from coordinator.toolsets.items.contract.claims import MAX_WAIT_MS, HeldBack
from coordinator.toolsets.items.contract.included import NotesLeft, NotesTotal, ResultsLeft, ResultsTotal
from coordinator.toolsets.items.contract.usage import Usage

WAIT_MS = 45_000
TTL_SECONDS = 900
MAX_REASON = 500
OUTCOMES = ("item", "none", "stop")
_VALUES = [{"type": kind} for kind in ("string", "number", "boolean", "object")]

OwnItem = Annotated[str | None, Meta(description="If you hold several by slots: which one.")]

_Count = Annotated[int, Meta(ge=0)]


class WorkUsage(Usage, kw_only=True):
    """The same in few words: each tool has it, and every model reads the list."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cached_tokens: _Count = 0
    cost_micro_usd: _Count = 0
    wall_ms: _Count = 0
    model: str | None = None


Used = Annotated[
    WorkUsage | None,
    Meta(description="Used since your last report; cachedTokens are part of inputTokens."),
]


class WorkNext(Arguments, kw_only=True):
    """Which item to take; without arguments, the best one."""

    tags: AnyTag = None
    type: OnlyType = None
    parent_id: ChildrenOf = None
    capabilities: Annotated[
        list[str] | None,
        Meta(
            description="What you can do; items that require more are left out. Kept until you name others.",
            extra_json_schema={"maxItems": 32},
        ),
    ] = None
    wait_ms: Annotated[
        int,
        Meta(
            description="Milliseconds to wait for an item, at most 50 s; stay below your client's limit for a call.",
            ge=0,
            le=MAX_WAIT_MS,
        ),
    ] = WAIT_MS
    offset: Annotated[int, Meta(description="nextOffset: its further notes and results.", ge=0)] = 0
    ttl_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=86_400)] | None,
        Meta(description="For how long the item is yours after each call about it; default 900."),
    ] = None


class WorkNote(Arguments, kw_only=True):
    """What others need to know."""

    key: Annotated[
        str,
        Meta(
            description="Its name: one of notesNeeded, or your own, such as progress. Replaces the note of this name.",
            extra_json_schema={"minLength": 1, "maxLength": 200},
        ),
    ]
    body: Annotated[str, Meta(description="Its text, at most 500,000 bytes.")]
    item_id: OwnItem = None
    usage: Used = None


class WorkDone(Arguments, kw_only=True):
    """What came of the work."""

    result: Annotated[
        Any,
        Meta(
            description="For the agents of items that depend on this one: text or JSON, up to 262,144 bytes.",
            extra_json_schema={"anyOf": [*_VALUES, {"type": "array", "items": {"anyOf": _VALUES}}, {"type": "null"}]},
        ),
    ] = None
    summary: Annotated[
        str | None, Meta(description="A sentence for the history.", extra_json_schema={"maxLength": 2000})
    ] = None
    item_id: OwnItem = None
    usage: Used = None


class WorkFailed(Arguments, kw_only=True):
    """Why the item is not done."""

    reason: Annotated[
        str,
        Meta(
            description="What went wrong, for whoever tries next.",
            extra_json_schema={"minLength": 1, "maxLength": MAX_REASON},
        ),
    ]
    hand_back: Annotated[
        bool, Meta(description="True: nothing is wrong with the item, you only stop. Not counted.")
    ] = False
    item_id: OwnItem = None
    usage: Used = None


class WorkAsk(Arguments, kw_only=True):
    """What somebody has to answer before the item can go on."""

    question: Annotated[
        str, Meta(description="With all that is needed to answer it.", extra_json_schema={"minLength": 1})
    ]
    item_id: OwnItem = None
    usage: Used = None


Size = Annotated[Count, Meta(description="Bytes of the whole, if only its beginning is here.")]


class WorkItem(Result, kw_only=True):
    """What is to be done. Absent fields are empty."""

    id: ItemId
    title: Title
    summary: Summary | UnsetType = UNSET
    description: Annotated[str, Meta(description="What to do, in full.")] | UnsetType = UNSET
    type: TypeName | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    priority: Annotated[Priority, Meta(description="Absent: medium.")] | UnsetType = UNSET
    metadata: Annotated[str, Meta(description="Free text for tools.")] | UnsetType = UNSET
    properties: Annotated[str, Meta(description="A JSON object as a string.")] | UnsetType = UNSET
    sizes: (
        Annotated[dict[str, int], Meta(description="Bytes of the texts of which only the beginning is here.")]
        | UnsetType
    ) = UNSET


class NeededNote(Result, kw_only=True):
    """A note that the item needs before it can go on."""

    key: NoteKey
    description: NoteDescription
    guidance: Guidance | UnsetType = UNSET
    skill: Skill | UnsetType = UNSET


class EarlierNote(Result, kw_only=True):
    """A note of the item."""

    key: NoteKey
    body: Annotated[str, Meta(description="Its text.")]
    size: Size | UnsetType = UNSET


class EarlierResult(Result, kw_only=True):
    """What came of an item that this one waited for."""

    item_id: ItemId
    title: Title
    result: Annotated[Any, Meta(description="Text or JSON.")]
    size: Size | UnsetType = UNSET


class AskedQuestion(Result, kw_only=True):
    """What was asked about the item."""

    question: Annotated[str, Meta(description="As asked.")]
    answer: Annotated[str, Meta(description="Absent: nobody has answered.")] | UnsetType = UNSET
    answered_by: Annotated[str, Meta(description="Who has; absent: that is not known.")] | UnsetType = UNSET


class EarlierFailure(Result, kw_only=True):
    """How an attempt before this one has failed."""

    ended: Annotated[
        str,
        Meta(
            description="expired: its agent was gone.",
            extra_json_schema={"enum": ["expired", "failed", "gave_up", "hopeless"]},
        ),
    ]
    detail: Annotated[str, Meta(description="What its agent said; absent: nothing.")] | UnsetType = UNSET


Stop = Annotated[bool, Meta(description="True: finish this item or hand it back, and take no other.")]
StopReason = Annotated[str, Meta(description="Why to stop.")]

NeededNotes = Annotated[list[NeededNote], Meta(description="Write these with work_note before work_done.")]


class WorkNextResult(Result, kw_only=True):
    """An item that is yours and started, or none."""

    outcome: Annotated[
        str,
        Meta(
            description="item: work on it now. none: nothing to do yet, call again. stop: there is none for you, see "
            "stopReason; end, or call again after retryAfterMs if it is there.",
            extra_json_schema={"enum": list(OUTCOMES)},
        ),
    ]
    item: WorkItem | UnsetType = UNSET
    role: Annotated[RoleName, Meta(description="Where it stands; absent: in work.")] | UnsetType = UNSET
    held: Annotated[bool, Meta(description="True: you have had it already.")] | UnsetType = UNSET
    takeover: (
        Annotated[bool, Meta(description="True: another agent has left it in the middle; see its notes.")] | UnsetType
    ) = UNSET
    claim_expires_at: ClaimExpiresAt | UnsetType = UNSET
    attempt: Annotated[Count, Meta(description="Which attempt this is; absent: the first.")] | UnsetType = UNSET
    failures: (
        Annotated[list[EarlierFailure], Meta(description="The last three attempts that failed, the last one first.")]
        | UnsetType
    ) = UNSET
    questions: Annotated[list[AskedQuestion], Meta(description="Oldest first.")] | UnsetType = UNSET
    notes_needed: NeededNotes | UnsetType = UNSET
    notes: Annotated[list[EarlierNote], Meta(description="Its other notes, oldest first.")] | UnsetType = UNSET
    notes_total: NotesTotal | UnsetType = UNSET
    notes_left: NotesLeft | UnsetType = UNSET
    results: (
        Annotated[list[EarlierResult], Meta(description="Of the items that it waited for, oldest first.")] | UnsetType
    ) = UNSET
    results_total: ResultsTotal | UnsetType = UNSET
    results_left: ResultsLeft | UnsetType = UNSET
    next_offset: (
        Annotated[Count, Meta(description="There are more: call again with this offset before you begin.")] | UnsetType
    ) = UNSET
    problem: Annotated[str, Meta(description="Why it could not be started yet.")] | UnsetType = UNSET
    stop: Stop | UnsetType = UNSET
    stop_reason: StopReason | UnsetType = UNSET
    held_back: Annotated[HeldBack, Meta(description="With none: what there would be otherwise.")] | UnsetType = UNSET
    retry_after_ms: Annotated[Count, Meta(description="Without an item: when to call again.")] | UnsetType = UNSET


NOT_COUNTED = "not counted: the runner reports it"
_UsageTold = Annotated[str, Meta(description="What became of the usage; absent: it is added.")]


class WorkNoteResult(Result, kw_only=True):
    """The note is written, and the item still yours."""

    item_id: ItemId
    key: NoteKey
    notes_needed: NeededNotes | UnsetType = UNSET
    stop: Stop | UnsetType = UNSET
    stop_reason: StopReason | UnsetType = UNSET
    usage: _UsageTold | UnsetType = UNSET


class WorkEnded(Result, kw_only=True):
    """The item is no longer yours."""

    item_id: ItemId
    role: Annotated[
        RoleName,
        Meta(description="Where it stands now: terminal (done), review, work or queue (offered again), blocked."),
    ]
    note: Annotated[NoteKey, Meta(description="Under which note the question, or the reason, is kept.")] | UnsetType = (
        UNSET
    )
    repeated: (
        Annotated[bool, Meta(description="True: it was reported before; this call has changed nothing.")] | UnsetType
    ) = UNSET
    usage: _UsageTold | UnsetType = UNSET
