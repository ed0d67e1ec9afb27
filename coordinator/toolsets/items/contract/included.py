"""What claims and contexts include about an item: the item in full, its notes, the results of its blockers."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.contract.notes import Note, NoteFormat
from coordinator.toolsets.items.contract.query import FullItem
from coordinator.toolsets.items.field_types import base

PARTS = ("item", "notes", "results")
MAX_CHARS = 60_000
"""Characters of everything that is included, as JSON."""

Include = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": list(PARTS)})]],
    doc(
        "Adds the item in full, its notes, the results of its blockers: at most 60,000 characters, of long "
        "texts the beginning."
    ),
]


class IncludedItem(FullItem, kw_only=True):
    """The item in full."""

    sizes: (
        Annotated[
            dict[str, int],
            doc(
                "Bytes of the texts of which only the beginning is here, by field; query_items has them "
                "whole. Absent: none."
            ),
        ]
        | UnsetType
    ) = UNSET


class IncludedNote(Note, kw_only=True):
    """A note of the item."""

    size: (
        Annotated[
            base.Count,
            doc("Bytes of the body, if only its beginning is here; query_notes has it whole. Absent: it is whole."),
        ]
        | UnsetType
    ) = UNSET


class BlockerResult(base.Result, kw_only=True):
    """What came of an item that blocks this one."""

    item_id: Annotated[base.ItemId, doc("The blocker's UUID.")]
    title: Annotated[base.Title, doc("The blocker's title.")]
    role: Annotated[base.Role, doc("The blocker's role.")]
    note_id: Annotated[base.NoteId, doc("UUID of its note 'result'.")]
    result: Annotated[Any, doc("As given, text or JSON; with size, the beginning of its text.")]
    format: NoteFormat | UnsetType = UNSET
    size: (
        Annotated[
            base.Count,
            doc(
                "Bytes of the text, if only its beginning is here; query_notes get with noteId has it "
                "whole. Absent: it is whole."
            ),
        ]
        | UnsetType
    ) = UNSET
    at: Annotated[base.IsoTime, doc("When it was written, UTC.")]


IncludedNotes = Annotated[list[IncludedNote], doc("The item's notes, oldest first; with include.")]
NotesTotal = Annotated[base.Count, doc("How many notes there are, if not all are here.")]
BlockerResults = Annotated[list[BlockerResult], doc("Results of the items that block it, oldest first; with include.")]
NotesLeft = Annotated[base.Count, doc("How many come after these.")]
ResultsLeft = Annotated[base.Count, doc("How many come after these.")]
IncludedNext = Annotated[
    base.Count, doc("Where some are left out: get_context with this offset and include has the next.")
]
ResultsTotal = Annotated[base.Count, doc("How many results there are, if not all are here.")]
