"""manage_notes and query_notes."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import REFUSED_ALONE, Actor, ActorEcho, Verification
from coordinator.toolsets.canonical import STATED_BLANK
from coordinator.toolsets.items.contract.base import (
    PHASES,
    Arguments,
    Count,
    CreatedAt,
    Failed,
    Failures,
    GivenNoteKey,
    GivenPhase,
    GuidancePointer,
    ItemId,
    ItemRef,
    Listed,
    ModifiedAt,
    NoteId,
    NoteKey,
    OptionalActor,
    Phase,
    Progress,
    RequestId,
    Result,
    SkillPointer,
)
from coordinator.toolsets.items.contract.usage import GivenUsage

NOTE_ROLES = PHASES

NoteFormat = Annotated[
    str,
    Meta(description="json: the note is a result in JSON; absent: it is text.", extra_json_schema={"enum": ["json"]}),
]


class NoteInput(Arguments, kw_only=True):
    """A note to write."""

    item_id: Annotated[ItemRef | UnsetType, Meta(extra=REFUSED_ALONE)] = UNSET
    key: Annotated[GivenNoteKey | UnsetType, Meta(extra=REFUSED_ALONE)] = UNSET
    role: Annotated[GivenPhase | UnsetType, Meta(extra=REFUSED_ALONE)] = UNSET
    body: Annotated[
        str | None, Meta(description="Content, at most 500,000 bytes; default empty. A blank note fills no gate.")
    ] = None
    actor: Annotated[Actor | None, Meta(description="Who writes it.")] = None
    expected_modified_at: (
        Annotated[str, Meta(description="Refused unless modifiedAt is this ('': no note yet).", extra=STATED_BLANK)]
        | UnsetType
    ) = UNSET
    usage: GivenUsage = None
    cost_refused: Annotated[int, Meta(description="Micro-USD not added: an event.")] = 0
    tokens_refused: Annotated[int, Meta(description="The same of tokens.")] = 0


class ManageNotes(Arguments, kw_only=True):
    """Write or delete notes."""

    operation: Annotated[
        str,
        Meta(
            description="upsert takes notes; delete takes ids, or itemId, or both.",
            extra_json_schema={"enum": ["upsert", "delete"]},
        ),
    ]
    notes: Annotated[
        list[NoteInput] | None,
        Meta(description="Upsert: the notes.", extra_json_schema={"minItems": 1, "maxItems": 500}),
    ] = None
    ids: Annotated[list[str] | None, Meta(description="Delete: note UUIDs.", extra_json_schema={"maxItems": 500})] = (
        None
    )
    item_id: Annotated[str | None, Meta(description="Delete: all notes of this item, or the one under key.")] = None
    key: Annotated[str | None, Meta(description="Delete, with itemId: only the note under this key.")] = None
    actor: OptionalActor = None
    request_id: RequestId = None


class WrittenNote(Result, kw_only=True):
    """A note that was written."""

    id: NoteId
    item_id: ItemId
    key: NoteKey
    role: Phase
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class NoteContext(Result, kw_only=True):
    """How the notes of an item's present phase stand after the call."""

    guidance_pointer: GuidancePointer
    note_progress: Progress
    skill_pointer: SkillPointer | UnsetType = UNSET


class UpsertNotesResult(Result, kw_only=True):
    """Notes that were written and, by item, what is still missing."""

    notes: Annotated[list[WrittenNote], Meta(description="What was written, in the order given.")]
    upserted: Annotated[Count, Meta(description="Notes written.")]
    failed: Failed
    failures: Failures | UnsetType = UNSET
    item_context: Annotated[dict[str, NoteContext], Meta(description="By UUID of each item written to.")]


class DeleteNotesResult(Result, kw_only=True):
    """How many notes went."""

    deleted: Annotated[Count, Meta(description="Notes deleted.")]
    failed: Failed
    failures: Failures | UnsetType = UNSET


class QueryNotes(Arguments, kw_only=True):
    """Read one note, or the notes of an item."""

    operation: Annotated[
        str,
        Meta(description="get takes id, list takes itemId.", extra_json_schema={"enum": ["get", "list"]}),
    ]
    id: Annotated[str | None, Meta(description="Get: the note's UUID.")] = None
    item_id: Annotated[str | None, Meta(description="List: the item.")] = None
    role: Annotated[
        str | None, Meta(description="List: only this phase.", extra_json_schema={"enum": [*NOTE_ROLES, None]})
    ] = None
    include_body: Annotated[bool, Meta(description="List: with bodies.")] = True


class Note(Result, kw_only=True):
    """A note."""

    id: NoteId
    item_id: ItemId
    key: NoteKey
    role: Phase
    body: Annotated[str, Meta(description="Content; absent with includeBody false.")] | UnsetType = UNSET
    format: NoteFormat | UnsetType = UNSET
    created_at: CreatedAt
    modified_at: ModifiedAt
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class ListNotesResult(Result, kw_only=True):
    """Notes of an item, oldest first."""

    notes: Annotated[list[Note], Meta(description="Oldest first.")]
    total: Listed
