"""get_context: reads slices of the indexes and of the transition stream.

None of these scripts writes. Each does a bounded amount of work, so a long answer takes several runs. Between runs,
other calls are served and items may change, so every run checks again that the items still belong to the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator.store import Script, ScriptFailure
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.store.agents.presence import Agents, read_agents
from coordinator.toolsets.items.store.attempts import AttemptRecord
from coordinator.toolsets.items.store.base import LIBRARY, READ_SLICE, Changed, Path, pack
from coordinator.toolsets.items.store.held_counts import count_held_back
from coordinator.toolsets.items.store.included import Included
from coordinator.toolsets.items.store.measures.items import Abandoned, read_abandoned
from coordinator.toolsets.items.store.query import Said
from coordinator.toolsets.items.store.ranked import RankedStore

STREAM_SLICE = 100
MAX_ROWS = 10_000
"""How many rows of the transition stream one call reads, including those of deleted items."""


class ListRow(NamedTuple):
    id: str
    title: str
    role: int
    filled: Filled
    ancestors: Path


class ItemClaim(NamedTuple):
    """A claim, live or expired; times in ms."""

    holder: str
    claimed: int
    expires: int
    first_claimed: int
    expired: bool


class Context(NamedTuple):
    """An item as an agent needs it; False stands for absent."""

    title: str
    role: int
    tags: str | bool
    depth: int
    filled: Filled
    """What decides which notes the item needs."""
    ancestors: Path
    claim: ItemClaim | bool
    blockers: list[tuple[str, int, int]]
    """The unsatisfied blockers: id, role, role that they must reach."""
    attempts: AttemptRecord
    included: Included | bool = False
    said: Said = {}
    held: str = ""
    """What its claim holds of resources, as ``lua/resources/demands.lua`` stores it."""


class RoleChange(NamedTuple):
    item: str
    change: Changed


_CONTEXT = Script(LIBRARY, "item_context", Context)
_LIST = Script(LIBRARY, "list_items", tuple[int, list[ListRow]])
_CLAIMS = Script(LIBRARY, "claim_counts", tuple[int, int])
_TRANSITIONS = Script(LIBRARY, "recent_transitions", tuple[str, list[RoleChange]])


class ContextStore(RankedStore):
    """What is going on in any project."""

    async def context(self, project: str, item: str, ancestors: bool, include: str = "") -> Context:
        """One item with its notes and its claim.

        Args:
            include: letters of what to add.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND.
        """
        try:
            config = self.schemas.current.version
            return await self._store.run(_CONTEXT, project, item, config, int(ancestors), include)
        except ScriptFailure:
            raise no_such_item("itemId") from None

    async def listed(self, project: str, roles: Iterable[int], items: Sequence[str], ancestors: bool) -> list[ListRow]:
        """The items that (still) have one of the roles; those in role blocked come without their notes."""
        codes, config, position = "".join(map(str, roles)), self.schemas.current.version, 0
        found: list[ListRow] = []
        while position < len(items):
            part = pack(items[position : position + READ_SLICE])
            finished, entries = await self._store.run(_LIST, project, codes, config, int(ancestors), part)
            position += finished
            found += entries
        return found

    async def abandoned(self, project: str, limit: int) -> Abandoned:
        """The abandoned items, at most ``limit`` listed."""
        return await read_abandoned(self._store, project, limit)

    async def agents(self, project: str, offset: int, limit: int) -> Agents:
        """A page of the agents, last seen first."""
        return await read_agents(self._store, project, offset, limit)

    async def claims(self, project: str) -> tuple[int, int]:
        """How many claims are live, and how many have expired but are still on their items."""
        return await self._store.run(_CLAIMS, project)

    async def held_back(self, project: str) -> tuple[dict[str, int], int]:
        """How many items are held back from an agent without capabilities, by reason, and how many are overdue."""
        return await count_held_back(self._store, self.schemas.current.terms(project), project)

    async def transitions(self, project: str, since: int, limit: int) -> tuple[list[RoleChange], bool]:
        """Up to ``limit`` role changes at or after ``since`` (ms) of existing items, newest first.

        The flag tells whether reading ended early, after ``MAX_ROWS`` rows.
        """
        rows: list[RoleChange] = []
        before, looked_at = "+", 0
        while len(rows) < limit:
            if looked_at >= MAX_ROWS:
                return rows, True
            last, part = await self._store.run(_TRANSITIONS, project, since, before, STREAM_SLICE)
            rows += part
            looked_at += STREAM_SLICE
            if not last:
                break
            before = f"({last}"
        return rows[:limit], False
