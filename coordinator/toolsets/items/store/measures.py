"""Figures about a project's items, for metrics."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from coordinator.store import Script, Store
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.store.base import PACKAGE

EMPTY_SECONDS = 3_600
"""How long a project without items goes on being looked at: well above ``project_list.NOTED_SECONDS``."""
PROJECTS = 1_000
"""Projects that are looked at: those changed last."""
ENDS = {"c": "completed", "r": "released", "e": "expired"}
"""How a claim ended, by the letter that ``include/holds.lua`` counts it under."""


_ONE = 2**44
"""One claim in the numbers of ``include/holds.lua``; below it are ms."""


class Held(NamedTuple):
    """Claims that have ended in one way."""

    end: str
    counts: dict[int, int]
    """How many, by bucket from 0."""
    seconds: float
    """How long they were held, together."""


class Lost(NamedTuple):
    """Claims that failed while another claim was held that has ended since."""

    counts: dict[int, int]
    """Claims by number of losers, in buckets; bucket 0 is for claims that nobody else tried."""
    losers: int
    """The losers of all these claims."""


class Measures(NamedTuple):
    """What ``measure_items.lua`` found."""

    roles: dict[str, int]
    """Items by role."""
    oldest_seconds: float
    """Age of the oldest item that is ready in the queue; 0: there is none."""
    held: list[Held]
    """Claims that have ended since somebody looked."""
    lost: Lost
    """The same claims, by who wanted the items meanwhile."""


class _Reply(msgspec.Struct, array_like=True):
    now: int
    roles: list[int]
    oldest: int
    ended: list[str]


_MEASURE = Script(PACKAGE, "measure_items", _Reply)


class MeasureStore:
    """Figures about the items of any project. Raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def measure(self, project: str) -> Measures:
        """A project's figures. Each claim that has ended is reported once."""
        reply = await self._store.run(_MEASURE, project)
        roles = dict(zip(ROLE_NAMES, reply.roles, strict=True))
        oldest = max(0.0, (reply.now - reply.oldest) / 1000) if reply.oldest else 0.0
        counts: dict[str, dict[int, int]] = {end: {} for end in ENDS.values()}
        seconds = dict.fromkeys(counts, 0.0)
        contended: dict[int, int] = {}
        losers = ended = 0
        for field, packed in zip(reply.ended[::2], reply.ended[1::2], strict=True):
            kind, bucket, (count, amount) = field[0], int(field[1:]), divmod(int(packed), _ONE)
            if kind == "l":
                contended[bucket] = count
                losers += amount
            else:
                counts[ENDS[kind]][bucket - 1] = count
                seconds[ENDS[kind]] += amount / 1000
                ended += count
        # Each claim that ends is counted by how it did, and once more only if there was somebody else.
        if (alone := ended - sum(contended.values())) > 0:
            contended[0] = alone
        held = [Held(end, found, seconds[end]) for end, found in counts.items() if found]
        return Measures(roles, oldest, held, Lost(contended, losers))
