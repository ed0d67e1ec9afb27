"""Reads for waiting reads of items: ``watch_items.lua``, and counts of trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.feed.cursor import entry_of, epoch_of
from coordinator.feed.subjects import Moment, Reading, SubjectSource
from coordinator.store import Script, Store
from coordinator.toolsets.items.store.base import LIBRARY
from coordinator.toolsets.waiting.reads import marked


class _Reading(NamedTuple):
    """What a condition on an item says now."""

    version: str
    holds: int
    """``_UNKNOWN``: to be counted."""
    names: tuple[str, ...]
    """Whose changes matter."""
    root: str
    """The root of the item, if items that come into the tree matter; else ''."""


_WATCH = Script(LIBRARY, "watch_items", tuple[str, str, list[_Reading | bool]])
_COUNT = Script(LIBRARY, "count_below", tuple[list[int], list[str]])
_PLACES = 500
"""Items whose children one slice counts."""
_UNKNOWN = 2


class WatchedItems:
    """Conditions on items of any project; a key is an item's id, a blank and the condition."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.source = SubjectSource("items", self._read, lambda key: (key.partition(" ")[0],))

    async def counts(self, project: str, item: str) -> list[int]:
        """How many items below an item have each role, by role code. A large tree takes several slices."""
        counts, places = [0] * 5, [f"{item} 0 1"]
        # The depth matters only as a bound: that of the item itself may change meanwhile.
        while places:
            part, places = places[:_PLACES], places[_PLACES:]
            found, further = await self._store.run(_COUNT, project, *part)
            counts = [one + more for one, more in zip(counts, found, strict=True)]
            places += further
        return counts

    async def _read(self, project: str, asked: Sequence[tuple[str, Reading | None]]) -> Moment:
        words: list[str] = []
        for key, before in asked:
            item, _, condition = key.partition(" ")
            witness = before.names[0] if before is not None and len(before.names) > 1 else ""
            words += (item, condition, witness)
        history, last, found = await self._store.run(_WATCH, project, *words)
        readings = [
            None if isinstance(one, bool) else await self._reading(project, key, one)
            for (key, _), one in zip(asked, found, strict=True)
        ]
        return Moment(epoch_of(history), entry_of(last), readings)

    async def _reading(self, project: str, key: str, found: _Reading) -> Reading:
        version, holds, names, root = found
        if holds == _UNKNOWN:
            # Thousands of items that have ended, each of which may have others below it: counted in slices.
            counts = await self.counts(project, key.partition(" ")[0])
            holds = sum(counts) == counts[3]
        return Reading(marked(version), bool(holds), names, root)
