"""Restoring a project from what was written of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from coordinator.errors import ToolFailure
from coordinator.store import Script
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.items.rules.items import NewItem
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, BaseStore, pack, slices

R = TypeVar("R")


class RestoredItem(NamedTuple):
    """An item as ``restore_items.lua`` takes it; times in ms."""

    spec: NewItem
    created: int
    fields: dict[str, str]
    role_changed: int
    modified: int
    fence: int
    entry: str
    attempts: str


class RestoredNote(NamedTuple):
    """A note as ``restore_notes.lua`` takes it; times in ms."""

    id: str
    item: str
    key: str
    role: str
    body: str
    filled: bool
    actor: str
    verification: str
    created: int
    modified: int
    format: str


_ITEMS = Script(LIBRARY, "restore_items", list[tuple[str, str]], rest=SETTLE)
_NOTES = Script(LIBRARY, "restore_notes", list[int], rest=SETTLE)
_TRANSITIONS = Script(LIBRARY, "restore_transitions", list[int], rest=SETTLE)
_USAGE = Script(LIBRARY, "restore_usage", list[int], rest=SETTLE)
_FINISH = Script(LIBRARY, "finish_restore", list[int], rest=SETTLE)
_ROWS = 200
_PARALLEL = 4


class RestoreStore(BaseStore):
    """Writes what was written of a project back to it. Every call can be repeated."""

    async def items(self, project: str, items: Sequence[RestoredItem]) -> int:
        """Restores items, parents first. Returns how many were not there.

        Raises:
            ToolFailure: VALIDATION_ERROR: one cannot be restored.
        """
        parts = slices(items, lambda one: one.spec.fields.values(), lambda one: one.spec.fields.get("g", "").count(","))
        here = {one.spec.id for one in items}
        if any(one.spec.parent in here for one in items):  # one after the other
            replies = [await self._restore(_ITEMS, project, part) for part in parts]
        else:
            replies = await self._side_by_side(_ITEMS, project, parts)
        created = 0
        for outcome, item in (one for reply in replies for one in reply):
            if outcome not in ("created", "there"):
                raise ToolFailure("VALIDATION_ERROR", f"the item {item} cannot be restored: {outcome}")
            created += outcome == "created"
        return created

    async def notes(self, project: str, notes: Sequence[RestoredNote]) -> int:
        """Restores notes. Returns how many were not there."""
        parts = slices(notes, lambda note: (note.body,))
        replies: list[list[int]] = await self._side_by_side(_NOTES, project, parts)
        return sum(reply[0] for reply in replies)

    async def transitions(self, project: str, rows: Sequence[tuple[str, Sequence[object]]]) -> int:
        """Restores transitions, oldest first. Returns how many were not there."""
        written = 0
        for begin in range(0, len(rows), _ROWS):
            written += (await self._restore(_TRANSITIONS, project, rows[begin : begin + _ROWS]))[0]
        return written

    async def usage(self, project: str, rows: Sequence[tuple[str, str]]) -> None:
        """Restores sums of usage (``usage_entries``), if the project has no items."""
        for begin in range(0, len(rows), _ROWS):
            await self._restore(_USAGE, project, rows[begin : begin + _ROWS])

    async def finish(self, project: str, ends: Sequence[tuple[str, int]]) -> None:
        """Offers restored items; of each the time (ms) since which it is quarantined, 0 for none."""
        await self._side_by_side(_FINISH, project, slices(ends, lambda one: ()))

    async def _restore(self, script: Script[R], project: str, part: Sequence[object]) -> R:
        return await self._change_by_schema(script, project, NO_KEY, pack(part))

    async def _side_by_side(self, script: Script[R], project: str, parts: Iterable[Sequence[object]]) -> list[R]:
        """Slices that do not depend on each other: the store makes them durable together."""
        room = asyncio.Semaphore(_PARALLEL)  # more would wait for the store longer than calls may

        async def restore(part: Sequence[object]) -> R:
            async with room:
                return await self._restore(script, project, part)

        return await asyncio.gather(*map(restore, parts))
