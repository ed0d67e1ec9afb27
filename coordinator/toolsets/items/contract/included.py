"""What claims and contexts include about an item: the item in full, its notes, the results of its blockers."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import Count, IsoTime, ItemId, NoteId, Result, Role, Title
from coordinator.toolsets.items.contract.notes import Note, NoteFormat
from coordinator.toolsets.items.contract.query import FullItem

PARTS = ("item", "notes", "results")
MAX_CHARS = 60_000
"""Characters of everything that is included, as JSON."""

Include = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": list(PARTS)})]],
    Meta(
        description="Adds the item in full, its notes, the results of its blockers: at most 60,000 characters, of long "
        "texts the beginning."
    ),
]


class IncludedItem(FullItem, kw_only=True):
    """The item in full."""

    sizes: (
        Annotated[
            dict[str, int],
            Meta(
                description="Bytes of the texts of which only the beginning is here, by field; query_items has them "
                "whole. Absent: none."
            ),
        ]
        | UnsetType
    ) = UNSET


class IncludedNote(Note, kw_only=True):
    """A note of the item."""

    size: (
        Annotated[
            Count,
            Meta(
                description="Bytes of the body, if only its beginning is here; query_notes has it whole. Absent: it is "
                "whole."
            ),
        ]
        | UnsetType
    ) = UNSET


class BlockerResult(Result, kw_only=True):
    """What came of an item that blocks this one."""

    item_id: Annotated[ItemId, Meta(description="The blocker's UUID.")]
    title: Annotated[Title, Meta(description="The blocker's title.")]
    role: Annotated[Role, Meta(description="The blocker's role.")]
    note_id: Annotated[NoteId, Meta(description="UUID of its note 'result'.")]
    result: Annotated[Any, Meta(description="As given, text or JSON; with size, the beginning of its text.")]
    format: NoteFormat | UnsetType = UNSET
    size: (
        Annotated[
            Count,
            Meta(
                description="Bytes of the text, if only its beginning is here; query_notes get with noteId has it "
                "whole. Absent: it is whole."
            ),
        ]
        | UnsetType
    ) = UNSET
    at: Annotated[IsoTime, Meta(description="When it was written, UTC.")]


IncludedNotes = Annotated[list[IncludedNote], Meta(description="The item's notes, oldest first; with include.")]
NotesTotal = Annotated[Count, Meta(description="How many notes there are, if not all are here.")]
BlockerResults = Annotated[
    list[BlockerResult], Meta(description="Results of the items that block it, oldest first; with include.")
]
NotesLeft = Annotated[Count, Meta(description="How many come after these.")]
ResultsLeft = Annotated[Count, Meta(description="How many come after these.")]
IncludedNext = Annotated[
    Count,
    Meta(description="Where some are left out: get_context with this offset and include has the next."),
]
ResultsTotal = Annotated[Count, Meta(description="How many results there are, if not all are here.")]
