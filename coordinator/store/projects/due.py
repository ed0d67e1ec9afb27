"""Projects in which something ends by time, and when. Processes take those that are due, one process each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from coordinator.store import keys
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

_pack = msgspec.msgpack.Encoder().encode


class Due(NamedTuple):
    """The projects that are due; times in ms."""

    now: int
    taken: list[tuple[str, int]]
    """Projects that this process has to look after, and until when no other one does."""
    next_end: int
    """When something ends in any other project; 0: nothing does."""


Note = tuple[str, int, bool]
"""A project, when something in it ends, in ms, and whether this has not been noted before."""
Finished = tuple[str, int, int]
"""A project that was taken, until when, and when the next thing in it ends; 0: nothing does."""

_TAKE = Script(STORE, "take_due", Due, scope="fleet")


class DueProjects:
    """Raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(
        self, pause_ms: int, most: int, notes: Sequence[Note] = (), finished: Sequence[Finished] = ()
    ) -> Due:
        """Notes when things end, and takes up to ``most`` projects that are due, for ``pause_ms``."""
        return await self._store.run(_TAKE, keys.FLEET, pause_ms, most, _pack(notes), _pack(finished))
