"""What claims and contexts include about an item, as ``lua/reads/included.lua`` packs it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from coordinator.toolsets.items.store.notes import NoteRow
from coordinator.toolsets.items.store.query import View


class BlockerRow(NamedTuple):
    """The result of a blocker."""

    item: str
    title: str
    role: int
    note: NoteRow
    size: int
    """Bytes of the body, of which the note may have only the beginning, or nothing."""


class Included(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The parts that were asked for; the others are False and empty."""

    view: View | Literal[False]
    sizes: list[int]
    """Bytes of description, metadata and properties, of which the view may have only the beginning."""
    notes: list[tuple[NoteRow, int]]
    """At most 100, each with the bytes of its body, of which it may have only the beginning, or nothing."""
    notes_total: int
    results: list[BlockerRow]
    """At most 100."""
    results_total: int
