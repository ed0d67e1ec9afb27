"""manage_notes and query_notes."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import REFUSED_ALONE, Actor, ActorEcho, Verification
from coordinator.toolsets.canonical import STATED_BLANK
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.field_types import base
from coordinator.toolsets.items.field_types.usage import GivenUsage

NOTE_ROLES = base.PHASES

NoteFormat = Annotated[str, doc("json: the note is a result in JSON; absent: it is text.", enum=["json"])]


class NoteInput(base.Arguments, kw_only=True):
    """A note to write."""

    item_id: Annotated[base.ItemRef | UnsetType, Meta(extra=REFUSED_ALONE)] = UNSET
    key: Annotated[base.GivenNoteKey | UnsetType, Meta(extra=REFUSED_ALONE)] = UNSET
    role: Annotated[base.GivenPhase | UnsetType, Meta(extra=REFUSED_ALONE)] = UNSET
    body: Annotated[str | None, doc("Content, at most 500,000 bytes; default empty. A blank note fills no gate.")] = (
        None
    )
    actor: Annotated[Actor | None, doc("Who writes it.")] = None
    expected_modified_at: (
        Annotated[str, doc("Refused unless modifiedAt is this ('': no note yet).", extra=STATED_BLANK)] | UnsetType
    ) = UNSET
    usage: GivenUsage = None
    cost_refused: Annotated[int, doc("Micro-USD not added: an event.")] = 0
    tokens_refused: Annotated[int, doc("The same of tokens.")] = 0


class ManageNotes(base.Arguments, kw_only=True):
    """Write or delete notes."""

    operation: Annotated[
        str, doc("upsert takes notes; delete takes ids, or itemId, or both.", enum=["upsert", "delete"])
    ]
    notes: Annotated[list[NoteInput] | None, doc("Upsert: the notes.", published={"minItems": 1, "maxItems": 500})] = (
        None
    )
    ids: Annotated[list[str] | None, doc("Delete: note UUIDs.", published={"maxItems": 500})] = None
    item_id: Annotated[str | None, doc("Delete: all notes of this item, or the one under key.")] = None
    key: Annotated[str | None, doc("Delete, with itemId: only the note under this key.")] = None
    actor: base.OptionalActor = None
    request_id: base.RequestId = None


class WrittenNote(base.Result, kw_only=True):
    """A note that was written."""

    id: base.NoteId
    item_id: base.ItemId
    key: base.NoteKey
    role: base.Phase
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class NoteContext(base.Result, kw_only=True):
    """How the notes of an item's present phase stand after the call."""

    guidance_pointer: base.GuidancePointer
    note_progress: base.Progress
    skill_pointer: base.SkillPointer | UnsetType = UNSET


class UpsertNotesResult(base.Result, kw_only=True):
    """Notes that were written and, by item, what is still missing."""

    notes: Annotated[list[WrittenNote], doc("What was written, in the order given.")]
    upserted: Annotated[base.Count, doc("Notes written.")]
    failed: base.Failed
    failures: base.Failures | UnsetType = UNSET
    item_context: Annotated[dict[str, NoteContext], doc("By UUID of each item written to.")]


class DeleteNotesResult(base.Result, kw_only=True):
    """How many notes went."""

    deleted: Annotated[base.Count, doc("Notes deleted.")]
    failed: base.Failed
    failures: base.Failures | UnsetType = UNSET


class QueryNotes(base.Arguments, kw_only=True):
    operation: Annotated[str, doc("get takes id, list takes itemId.", enum=["get", "list"])]
    id: Annotated[str | None, doc("Get: the note's UUID.")] = None
    item_id: Annotated[str | None, doc("List: the item.")] = None
    role: Annotated[str | None, doc("List: only this phase.", enum=[*NOTE_ROLES, None])] = None
    include_body: Annotated[bool, doc("List: with bodies.")] = True


class Note(base.Result, kw_only=True):
    """A note."""

    id: base.NoteId
    item_id: base.ItemId
    key: base.NoteKey
    role: base.Phase
    body: Annotated[str, doc("Content; absent with includeBody false.")] | UnsetType = UNSET
    format: NoteFormat | UnsetType = UNSET
    created_at: base.CreatedAt
    modified_at: base.ModifiedAt
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class ListNotesResult(base.Result, kw_only=True):
    """Notes of an item, oldest first."""

    notes: Annotated[list[Note], doc("Oldest first.")]
    total: base.Listed
