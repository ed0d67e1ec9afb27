"""manage_notes and query_notes (seed 004)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.actor import Actor, ActorEcho, Verification
from coordinator.toolsets.items.contract.base import (
    Arguments,
    Failure,
    ItemRef,
    NoteProgress,
    OptionalActor,
    OptionalItemRef,
    RequestId,
    Result,
)

NOTE_ROLES = ("queue", "work", "review")


class NoteInput(Arguments, kw_only=True):
    """A note to write."""

    item_id: ItemRef
    key: Annotated[str, Meta(description="Name of the note, unique per item; 1 to 200 characters.")]
    role: Annotated[str, Meta(description="Phase it belongs to.", extra_json_schema={"enum": list(NOTE_ROLES)})]
    body: Annotated[str | None, Meta(description="Content; default empty. A blank note fills no gate.")] = None
    actor: Annotated[Actor | None, Meta(description="Who writes it.")] = None


class ManageNotes(Arguments, kw_only=True):
    """Write or delete notes."""

    operation: Annotated[str, Meta(extra_json_schema={"enum": ["upsert", "delete"]})]
    notes: Annotated[list[NoteInput] | None, Meta(description="Upsert: the notes.")] = None
    ids: Annotated[list[str] | None, Meta(description="Delete: note UUIDs.")] = None
    item_id: OptionalItemRef = None
    key: Annotated[str | None, Meta(description="Delete, with itemId: only the note under this key.")] = None
    actor: OptionalActor = None
    request_id: RequestId = None


class WrittenNote(Result, kw_only=True):
    """A note that was written."""

    id: str
    item_id: str
    key: str
    role: str
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class NoteContext(Result, kw_only=True):
    """How the notes of an item's present phase stand after the call."""

    guidance_pointer: str | None
    note_progress: NoteProgress | None
    skill_pointer: str | UnsetType = UNSET


class UpsertNotesResult(Result, kw_only=True):
    """Notes that were written and, by item, what is still missing."""

    notes: list[WrittenNote]
    upserted: int
    failed: int
    failures: list[Failure] | UnsetType = UNSET
    item_context: dict[str, NoteContext]


class DeleteNotesResult(Result, kw_only=True):
    """How many notes went."""

    deleted: int
    failed: int
    failures: list[Failure] | UnsetType = UNSET


class QueryNotes(Arguments, kw_only=True):
    """Read one note, or the notes of an item."""

    operation: Annotated[str, Meta(extra_json_schema={"enum": ["get", "list"]})]
    id: Annotated[str | None, Meta(description="Get: the note's UUID.")] = None
    item_id: OptionalItemRef = None
    role: Annotated[
        str | None, Meta(description="List: only this phase.", extra_json_schema={"enum": [*NOTE_ROLES, None]})
    ] = None
    include_body: Annotated[bool, Meta(description="List: with bodies.")] = True


class Note(Result, kw_only=True):
    """A note."""

    id: str
    item_id: str
    key: str
    role: str
    body: str | UnsetType = UNSET
    created_at: str
    modified_at: str
    actor: ActorEcho | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET


class ListNotesResult(Result, kw_only=True):
    """Notes of an item, oldest first."""

    notes: list[Note]
    total: int
