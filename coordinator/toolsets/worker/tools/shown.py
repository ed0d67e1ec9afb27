"""What an agent is told of its item."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from coordinator.settings.sections.work import NoteSettings
from coordinator.toolsets.items.contract.included import BlockerResult, IncludedItem, IncludedNote
from coordinator.toolsets.items.field_types.base import PHASES
from coordinator.toolsets.items.rules.included import Parts
from coordinator.toolsets.items.rules.schema import Filled, SchemaConfig, phase
from coordinator.toolsets.worker.contract import work

_FAILURES = 3
_ASKED = re.compile(r"(question|answer)-([1-9][0-9]{0,2})")


def needed_notes(filled: Filled, role: str, schemas: SchemaConfig) -> list[work.NeededNote] | UnsetType:
    """The notes that are required before the item can leave its role, and not filled; UNSET: none."""
    schema = schemas.resolve_reported(filled)
    if schema is None or role not in PHASES:
        return UNSET
    passes_on = role == "queue" or any(note.role == "review" for note in schema.notes)
    missing = [
        note
        for phase_of in ((role,) if passes_on else PHASES)
        for note in phase(schema, phase_of, filled.notes).missing
    ]
    return [_needed(note) for note in missing] or UNSET


def notes_by_key(filled: Filled, keys: Sequence[str], schemas: SchemaConfig) -> list[work.NeededNote]:
    """The notes of these keys, as the item's schema describes them."""
    schema = schemas.resolve_reported(filled)
    described = {note.key: note for note in schema.notes} if schema else {}
    return [_needed(described[key]) if key in described else work.NeededNote(key=key, description="") for key in keys]


def _needed(note: NoteSettings) -> work.NeededNote:
    return work.NeededNote(
        key=note.key, description=note.description, guidance=note.guidance or UNSET, skill=note.skill or UNSET
    )


def add_parts(result: work.WorkNextResult, parts: Parts) -> None:
    """Adds an item, its notes and the results of its blockers to an answer, without what a worker has no use for."""
    if isinstance(parts.item, IncludedItem):
        _add_item(result, parts.item)
    if isinstance(parts.notes, list):
        asked, notes = _split(parts.notes)
        result.questions = asked or UNSET
        result.notes = [work.EarlierNote(key=note.key, body=str(note.body), size=note.size) for note in notes] or UNSET
    if isinstance(parts.results, list):
        result.results = [_result(one) for one in parts.results] or UNSET
    for name in ("notes_total", "notes_left", "results_total", "results_left", "next_offset"):
        setattr(result, name, getattr(parts, name))


def _add_item(result: work.WorkNextResult, item: IncludedItem) -> None:
    result.item = work.WorkItem(
        id=item.id,
        title=item.title,
        summary=item.summary or UNSET,
        description=item.description,
        type=item.type,
        tags=item.tags,
        priority=UNSET if item.priority == "medium" else item.priority,
        metadata=item.metadata,
        properties=item.properties,
        sizes=item.sizes,
    )
    result.role = UNSET if item.role == "work" else item.role
    if item.attempts is not UNSET and item.attempts.count:
        result.attempt = item.attempts.count + 1
        last = item.attempts.last[: min(_FAILURES, item.attempts.count)]
        result.failures = [
            work.EarlierFailure(ended="expired" if one.reason is UNSET else one.reason, detail=one.detail)
            for one in last
        ] or UNSET


def _split(notes: Sequence[IncludedNote]) -> tuple[list[work.AskedQuestion], list[IncludedNote]]:
    """The questions with their answers, and the other notes."""
    asked: dict[int, work.AskedQuestion] = {}
    answers: dict[int, IncludedNote] = {}
    others: list[IncludedNote] = []
    for note in notes:
        match = _ASKED.fullmatch(note.key)
        if match is None:
            others.append(note)
        elif match[1] == "question":
            asked[int(match[2])] = work.AskedQuestion(question=str(note.body))
        else:
            answers[int(match[2])] = note
    for number, note in answers.items():
        if number in asked:
            asked[number].answer = str(note.body)
            asked[number].answered_by = note.actor.id if note.actor is not UNSET else UNSET
        else:
            others.append(note)
    return [asked[number] for number in sorted(asked)], others


def _result(one: BlockerResult) -> work.EarlierResult:
    return work.EarlierResult(item_id=one.item_id, title=one.title, result=one.result, size=one.size)
