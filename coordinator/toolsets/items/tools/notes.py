"""manage_notes and query_notes: keyed documents on items."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.actor import (
    Trusted,
    attributed,
    attribution,
    checked,
    stored_actor,
    stored_verification,
)
from coordinator.toolsets.items.contract.notes import (
    NOTE_ROLES,
    DeleteNotesResult,
    ListNotesResult,
    ManageNotes,
    Note,
    NoteContext,
    NoteInput,
    QueryNotes,
    UpsertNotesResult,
    WrittenNote,
)
from coordinator.toolsets.items.field_types.base import Failure
from coordinator.toolsets.items.rules.ids import dashed, new_id, parse, parse_uuid
from coordinator.toolsets.items.rules.notes import check_key
from coordinator.toolsets.items.rules.refusals import refused
from coordinator.toolsets.items.rules.roles import ROLE_NAMES, one_of, phase_of
from coordinator.toolsets.items.rules.schema import SchemaConfig, phase
from coordinator.toolsets.items.rules.times.instants import instant
from coordinator.toolsets.items.rules.usage.budgets import Used, not_counted, packed
from coordinator.toolsets.items.rules.values import MAX_NOTE_KEY, long_text, not_blank, short_text
from coordinator.toolsets.items.store.notes import NoteRow, NoteStore, StoredNote, Written
from coordinator.toolsets.items.tools.shared import batch, check_signed, keyed, names
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import RESULT_CHARS, Call, Services, Tool

MAX_NOTES = 500

_MANAGE = (
    "Write notes by (itemId, key), or delete them. Writing an existing key replaces the note and keeps its id. Each is "
    "handled alone; failures lists those refused. itemContext shows which notes the item's present phase still needs."
)
_QUERY = "Read a note by id (get), or the notes of an item (list), oldest first."


class Prepared(NamedTuple):
    """A checked note. The item's id is parsed but not resolved yet."""

    item: str
    key: str
    role: str
    body: str
    filled: bool
    who: Trusted | None
    expected: int | bool
    """As ``StoredNote.expected``."""
    used: Used | bool
    refused: tuple[int, int] | bool
    """Micro-USD and tokens that are only told of."""


class Notes:
    """Handlers of the tools that write and show notes."""

    def __init__(self, notes: NoteStore, services: Services) -> None:
        self._notes = notes
        self._services = services

    async def manage_notes(self, call: Call, args: ManageNotes) -> UpsertNotesResult | DeleteNotesResult:
        if one_of(args.operation, ("upsert", "delete"), "operation") == "upsert":
            return await self._upsert(call, args)
        return await self._delete(call, args)

    async def query_notes(self, call: Call, args: QueryNotes) -> Note | ListNotesResult:
        if one_of(args.operation, ("get", "list"), "operation") == "get":
            if not args.id:
                raise invalid("id", "is required for operation get")
            found = await self._notes.read(call.project, parse_uuid(args.id, "id"), "", "", True)
            if not found:
                raise ToolFailure("RESOURCE_NOT_FOUND", "id: no such note")
            return _shown(found[0], True)
        if not args.item_id:
            raise invalid("itemId", "is required for operation list")
        role = one_of(given, NOTE_ROLES, "role")[0] if (given := not_blank(args.role)) else ""
        item = await self._notes.resolve_one(call.project, args.item_id, "itemId")
        rows = await self._notes.read(call.project, "", item, role, args.include_body)
        if not rows:
            await self._notes.expect(call.project, item, "itemId")
        return ListNotesResult(notes=[_shown(row, args.include_body) for row in rows], total=len(rows))

    async def _upsert(self, call: Call, args: ManageNotes) -> UpsertNotesResult:
        inputs = batch(args.notes, "notes", MAX_NOTES)
        if self._notes.schemas.current.require_actor:
            check_signed(inputs, "notes")
        record = await keyed(self._services, "manage_notes", args)
        failures: dict[int, str] = {}
        ready: list[tuple[int, Prepared]] = []
        for number, element in enumerate(inputs):
            try:
                ready.append((number, await self._prepared(element, f"notes[{number}]")))
            except ToolFailure as failure:
                failures[number] = failure.message
        ids = await self._notes.resolve(call.project, [note.item for _, note in ready])
        caller = await self._reporter(args, ready)
        stored = [_stored(item, note, caller) for item, (_, note) in zip(ids, ready, strict=True)]
        replies = await self._notes.upsert(call.project, record, stored) if stored else []
        written: list[WrittenNote] = []
        context: dict[str, NoteContext] = {}
        for (number, note), reply in zip(ready, replies, strict=True):
            if reply.reason:
                failures[number] = refused(reply.reason)
                continue
            written.append(_written(note, reply))
            context[dashed(reply.item)] = _context(reply, self._notes.schemas.current)
        return UpsertNotesResult(
            notes=written,
            upserted=len(written),
            failed=len(failures),
            failures=[Failure(index=number, error=failures[number]) for number in sorted(failures)] or UNSET,
            item_context=context,
        )

    async def _reporter(self, args: ManageNotes, notes: list[tuple[int, Prepared]]) -> str:
        """Whose the usage of notes without an actor is: that of the call, if it is trusted; else ''."""
        if args.actor is None or not any(note.used and note.who is None for _, note in notes):
            return ""
        return attribution(await attributed(self._services.resolve_actor, checked(args.actor))).id

    async def _delete(self, call: Call, args: ManageNotes) -> DeleteNotesResult:
        named = not_blank(args.item_id)
        if args.ids is None and not named:
            raise invalid("ids", "delete needs ids or itemId")
        if not_blank(args.key) and not named:
            raise invalid("key", "needs itemId beside it")
        if args.key is not None and named and not not_blank(args.key):
            raise invalid("key", "must not be blank; without it all notes of the item are deleted")
        record = await keyed(self._services, "manage_notes", args, partial=True)
        given = batch(args.ids, "ids", MAX_NOTES) if args.ids else []
        ids = [parse_uuid(text, f"ids[{number}]") for number, text in enumerate(given)]
        item = ""
        if named:
            item = await self._notes.resolve_one(call.project, named, "itemId", record)
        deleted, unknown = await self._notes.delete(call.project, record, ids, item, not_blank(args.key))
        failures = [Failure(id=given[position], error="no such note") for position in unknown]
        return DeleteNotesResult(deleted=deleted, failed=len(failures), failures=failures or UNSET)

    async def _prepared(self, note: NoteInput, place: str) -> Prepared:
        """The note, checked.

        Raises:
            ToolFailure: VALIDATION_ERROR naming the field.
        """
        item = parse(_given(note.item_id, "itemId"), "itemId")
        key = short_text(_given(note.key, "key"), "key", MAX_NOTE_KEY)
        check_key(key, "key", answers=True)
        role = one_of(_given(note.role, "role"), NOTE_ROLES, "role")
        body = long_text(note.body, "body")
        who = await attributed(self._services.resolve_actor, checked(note.actor)) if note.actor else None
        seen = note.expected_modified_at
        expected = False if seen is UNSET else instant(seen, "expectedModifiedAt") if seen.strip() else 0
        used, refused = packed(note.usage, f"{place}.usage"), not_counted(note, place)
        return Prepared(item, key, role, body, bool(body), who, expected, used, refused)


def tools(notes: NoteStore, services: Services) -> tuple[Tool, ...]:
    handle = Notes(notes, services)
    return (
        Tool(
            "manage_notes",
            _MANAGE,
            ManageNotes,
            (UpsertNotesResult, DeleteNotesResult),
            handle.manage_notes,
            destructive=True,
        ),
        Tool(
            "query_notes",
            _QUERY,
            QueryNotes,
            (Note, ListNotesResult),
            handle.query_notes,
            read_only=True,
            idempotent=True,
            for_claims=lambda claim, args: args.operation.lower() == "list" and names(claim, args.item_id),
            result_chars=RESULT_CHARS,
        ),
    )


def _given(value: str | UnsetType, field: str) -> str:
    if value is UNSET:
        raise invalid(field, "is required")
    return value


def _stored(item: str, note: Prepared, caller: str) -> tuple[Any, ...]:
    by = attribution(note.who)
    written = item, note.key, note.role[0], note.body, note.filled, by.actor, by.verification
    stored = StoredNote(*written, new_id(), note.expected)
    return (*stored, by.id or caller, note.used, note.refused) if note.used or note.refused else stored


def _written(note: Prepared, reply: Written) -> WrittenNote:
    return WrittenNote(
        id=dashed(reply.id),
        item_id=dashed(reply.item),
        key=note.key,
        role=note.role,
        actor=note.who.echo if note.who else UNSET,
        # From the reply, because for a retry the verification of the first call's proof counts.
        verification=stored_verification(reply.verification),
    )


def _context(reply: Written, schemas: SchemaConfig) -> NoteContext:
    schema = schemas.resolve_reported(reply.filled)
    role = ROLE_NAMES[reply.role]
    if schema is None or role == "terminal":
        return NoteContext(guidance_pointer=None, note_progress=None)
    state = phase(schema, role, reply.filled.notes)
    return NoteContext(
        guidance_pointer=state.guidance, note_progress=state.progress, skill_pointer=state.skill or UNSET
    )


def _shown(row: NoteRow, body: bool) -> Note:
    note = Note(**fields_of(row))
    if not body:
        note.body = UNSET
    return note


def fields_of(row: NoteRow) -> dict[str, Any]:
    return {
        "id": dashed(row.id),
        "item_id": dashed(row.item),
        "key": row.key,
        "role": phase_of(row.role),
        "body": row.body,
        "format": row.format or UNSET,
        "created_at": iso(row.created),
        "modified_at": iso(row.modified),
        "actor": stored_actor(row.actor),
        "verification": stored_verification(row.verification),
    }
