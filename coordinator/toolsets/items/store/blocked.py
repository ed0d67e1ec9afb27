"""get_blocked_items: a read in slices.

Items may change between two runs, so every run checks again that its items are still blocked.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from coordinator.store import Script
from coordinator.toolsets.items.store.base import LIBRARY, READ_SLICE, START, Path, pack
from coordinator.toolsets.items.store.query import Said
from coordinator.toolsets.items.store.ranked import RankedStore


class BlockerRow(NamedTuple):
    """An item that blocks another one."""

    field: str
    """The field of the edge: its code and the blocker's id."""
    title: str
    role: int
    mark: str
    """The stored threshold (``rules.graph.given_threshold``)."""
    satisfied: bool


class Blocked(NamedTuple):
    """A blocked item, with some of its blockers."""

    id: str
    role: int
    said: Said
    ancestors: Path
    blockers: list[BlockerRow]


_BLOCKED = Script(LIBRARY, "blocked_items", tuple[int, str, list[Blocked]])


class BlockedStore(RankedStore):
    """The blocked items of any project."""

    async def blocked(
        self, project: str, items: Iterable[str], most: int, details: bool, ancestors: bool
    ) -> tuple[list[Blocked], bool]:
        """The items that are blocked, at most ``most``, and whether these are all."""
        waiting, cursor = list(items), START
        found: dict[str, Blocked] = {}
        while waiting and (len(found) < most or cursor != START):
            part = pack(waiting[:READ_SLICE])
            finished, cursor, entries = await self._store.run(
                _BLOCKED, project, cursor, int(details), int(ancestors), part
            )
            del waiting[:finished]
            for entry in entries:
                before = found.get(entry.id)
                found[entry.id] = entry if before is None else _joined(before, entry)
        return list(islice(found.values(), most)), not waiting and len(found) <= most


def _joined(before: Blocked, more: Blocked) -> Blocked:
    """An item with its blockers from two runs; a blocker in both counts once."""
    blockers = {blocker.field: blocker for blocker in (*before.blockers, *more.blockers)}
    return more._replace(blockers=list(blockers.values()))
