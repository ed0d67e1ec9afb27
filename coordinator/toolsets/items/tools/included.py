"""Renders what claims and contexts include about an item."""

from __future__ import annotations

from msgspec import UNSET

from coordinator.toolsets.items.contract.claims import ClaimResult
from coordinator.toolsets.items.contract.context import ItemContextResult
from coordinator.toolsets.items.contract.included import BlockerResult, IncludedItem, IncludedNote
from coordinator.toolsets.items.fields import LETTERS
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.included import LONG_TEXTS, Parts, Text, count, fit
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.rules.values import size as bytes_of
from coordinator.toolsets.items.store.base import Path
from coordinator.toolsets.items.store.included import BlockerRow, Included
from coordinator.toolsets.items.store.notes import NoteRow
from coordinator.toolsets.items.store.query import View
from coordinator.toolsets.items.tools.notes import fields_of
from coordinator.toolsets.items.tools.query import full
from coordinator.toolsets.items.tools.shared import ancestors
from coordinator.toolsets.timestamp import iso


def rendered(
    included: Included, wanted: str, schemas: SchemaConfig, path: Path | None = None, offset: int = 0
) -> Parts:
    """What was asked for, within the bounds of an answer.

    Args:
        wanted: the letters of the parts.
        path: the ancestors of the item, if it is to show them.
        offset: how many notes and results were skipped.
    """
    parts, texts = Parts(), list[Text]()
    if included.view:
        parts.item = item = full(included.view, IncludedItem, schemas)
        if path is not None:
            item.ancestors = ancestors(path)
        texts += _texts_of(item, included.view, included.sizes)
    if "n" in wanted:
        parts.notes = []
        for row, size in sorted(included.notes, key=lambda note: (note[0].created, note[0].key)):
            parts.notes.append(note := IncludedNote(**fields_of(row)))
            texts.append(Text(note, "body", row.body, size))
    if "r" in wanted:
        parts.results = []
        for blocker in sorted(included.results, key=lambda one: (one.note.modified, one.item)):
            parts.results.append(result := _result(blocker))
            texts.append(Text(result, "result", blocker.note.body, blocker.size))
    fit(parts, texts)
    count(parts, offset, included.notes_total, included.results_total)
    return parts


def add_to(result: ClaimResult | ItemContextResult, parts: Parts) -> None:
    """Adds what was asked for to a result."""
    for name in parts.__struct_fields__:
        if (part := getattr(parts, name)) is not UNSET:
            setattr(result, name, part)


def _texts_of(item: IncludedItem, view: View, sizes: list[int]) -> list[Text]:
    """The long texts of an item. Its properties show the traits, too, so their size is not the stored one."""
    texts = []
    for field, size in zip(LONG_TEXTS, sizes, strict=True):
        text, stored = getattr(item, field), view.said.get(LETTERS[field])
        if isinstance(text, str):
            whole = not isinstance(stored, str) or bytes_of(stored) == size
            texts.append(Text(item, field, text, bytes_of(text) if whole else size))
    return texts


def _result(blocker: BlockerRow) -> BlockerResult:
    note: NoteRow = blocker.note
    return BlockerResult(
        item_id=dashed(blocker.item),
        title=blocker.title,
        role=ROLE_NAMES[blocker.role],
        note_id=dashed(note.id),
        result=note.body,
        format=fields_of(note)["format"],
        at=iso(note.modified),
    )
