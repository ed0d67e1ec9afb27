"""Notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from coordinator.store import Script
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, BaseStore, pack, slices


class StoredNote(NamedTuple):
    """A note in the form of ``lua/notes/notes.lua``."""

    item: str
    key: str
    role: str
    """Letter of the phase."""
    body: str
    filled: bool
    actor: str
    verification: str
    id: str
    """The id of a new note; an existing note keeps its id."""
    expected: int | bool = False
    """It is written only if it was last modified at this time (ms); 0: if there is none; False: in any case."""


class Written(NamedTuple):
    """What became of a note that was to be written."""

    reason: str
    """Why it was not; '': it was."""
    id: str
    item: str
    role: int
    """Of the item."""
    filled: Filled
    """What decides which notes the item needs."""
    verification: str = ""
    """As stored."""


class NoteRow(NamedTuple):
    """A note; times in ms."""

    id: str
    item: str
    key: str
    role: str
    """Letter of the phase."""
    body: str
    created: int
    modified: int
    actor: str
    verification: str
    format: str = ""
    """``json`` if it is a result in JSON."""


_UPSERT = Script(LIBRARY, "upsert_notes", list[Written], rest=SETTLE)
_DELETE = Script(LIBRARY, "delete_notes", tuple[int, list[int]], rest=SETTLE)
_READ = Script(LIBRARY, "read_notes", tuple[list[NoteRow], list[str]])


class NoteStore(BaseStore):
    """Notes of any project."""

    async def upsert(self, project: str, request: IdempotencyKey, notes: Sequence[tuple[Any, ...]]) -> list[Written]:
        """Writes notes, each atomically, in slices.

        Args:
            notes: the fields of ``StoredNote``; if something was used, then whose usage that is, and what it is.
        """
        parts = slices(notes, lambda note: note)
        return await self._change_in_slices(_UPSERT, project, request, parts)

    async def delete(
        self, project: str, request: IdempotencyKey, ids: Sequence[str], item: str, key: str
    ) -> tuple[int, list[int]]:
        """Deletes notes by id, then by item and key; returns how many, and the positions of unknown ids."""
        return await self._change(_DELETE, project, request, pack(ids), item, key)

    async def read(self, project: str, note: str, item: str, role: str, bodies: bool) -> list[NoteRow]:
        """One note by id, or the notes of an item, oldest first; ``role`` is the letter of a phase, or '' for all."""
        rows: list[NoteRow] = []
        left: list[str] = []
        while True:
            part, left = await self._store.run(
                _READ, project, note, item, role, int(bodies), pack(left) if left else ""
            )
            rows += part
            if not left:
                return sorted(rows, key=lambda row: (row.created, row.key))
