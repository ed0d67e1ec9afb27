"""Reads slices of the indexes, of the edges and of the transition stream, for the read tools.

None of these scripts writes. Each does a bounded amount of work, so a long answer takes several runs. Between runs,
other calls are served and items may change, so every run checks again that the items still belong to the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from coordinator.store import Script, ScriptFailure
from coordinator.toolsets.items.rules.graph import Edge, Head, edges_of
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.store.base import LIBRARY, BaseStore, Changed, Path, pack
from coordinator.toolsets.items.store.measures import Abandoned, read_abandoned

READ_SLICE = 50
"""How many items one run reads."""
HEAD_SLICE = 100
STREAM_SLICE = 100
MAX_ROWS = 10_000
"""How many rows of the transition stream one call looks at, including those of deleted items."""
START = "0"


class BlockerRow(NamedTuple):
    """A blocker as ``blocked_items.lua`` reports it."""

    field: str
    """The field of the edge: its code and the blocker's id."""
    title: str
    role: int
    mark: str
    """The stored threshold (``rules.graph.given_threshold``)."""
    satisfied: bool


class Status(NamedTuple):
    """Reply of ``next_status.lua``."""

    role: int
    returns: bool
    schema: Filled
    blockers: list[tuple[str, int, int]]
    """The unsatisfied blockers: id, role, role that they must reach."""


class Ranked(NamedTuple):
    """One class of the reply of ``ranked_ids.lua``."""

    size: int
    """How many items the class has."""
    flat: list[str]
    """Ids and scores in turn, best first."""

    @property
    def cut(self) -> bool:
        """Whether the class has more items than are listed."""
        return 2 * self.size > len(self.flat)


class Listed(NamedTuple):
    """One entry of the reply of ``list_items.lua``."""

    id: str
    title: str
    role: int
    filled: Filled
    ancestors: Path


class Claim(NamedTuple):
    """A claim, live or expired; times in ms."""

    holder: str
    claimed: int
    expires: int
    first_claimed: int
    expired: bool


class Context(NamedTuple):
    """Reply of ``item_context.lua``; False stands for absent."""

    title: str
    role: int
    tags: str | bool
    depth: int
    filled: Filled
    ancestors: Path
    claim: Claim | bool
    blockers: list[tuple[str, int, int]]
    """As in ``Status``."""


class Blocked(NamedTuple):
    """One entry of the reply of ``blocked_items.lua``; False stands for absent."""

    id: str
    title: str
    role: int
    priority: int
    complexity: int | bool
    summary: str | bool
    tags: str | bool
    ancestors: Path
    blockers: list[BlockerRow]


class Row(NamedTuple):
    """One entry of the reply of ``recent_transitions.lua``."""

    item: str
    change: Changed


_EDGES = Script(LIBRARY, "read_edges", tuple[int, str, list[tuple[str, list[str]]]])
_HEADS = Script(LIBRARY, "read_heads", list[Head])
_STATUS = Script(LIBRARY, "next_status", Status)
_CONTEXT = Script(LIBRARY, "item_context", Context)
_RANKED = Script(LIBRARY, "ranked_ids", list[Ranked])
_LIST = Script(LIBRARY, "list_items", tuple[int, list[Listed]])
_BLOCKED = Script(LIBRARY, "blocked_items", tuple[int, str, list[Blocked]])
_CLAIMS = Script(LIBRARY, "claim_counts", tuple[int, int])
_TRANSITIONS = Script(LIBRARY, "recent_transitions", tuple[str, list[Row]])


class ReadStore(BaseStore):
    """Reads of any project."""

    async def edges(
        self, project: str, items: Sequence[str], most: int, known: Sequence[str] | None = None
    ) -> tuple[dict[str, list[Edge]], bool]:
        """The edges of items, and whether these are all; items that do not exist have no entry.

        Args:
            most: reading ends after so many edges.
            known: if given, a run with room left reads ahead: it adds entries for items that blocking edges lead to,
                except for the known ones.
        """
        found: dict[str, dict[tuple[str, str], Edge]] = {}
        follow, packed = int(known is not None), pack(known or ())
        position, cursor, left = 0, START, most
        while position < len(items) and left > 0:
            part = pack(items[position : position + READ_SLICE])
            finished, cursor, entries = await self._store.run(_EDGES, project, cursor, follow, part, packed)
            position += finished
            for item, flat in entries:
                held = found.setdefault(item, {})
                for edge in edges_of(flat):
                    held[edge.code, edge.other] = edge
                left -= len(flat) // 2
        return {item: list(held.values()) for item, held in found.items()}, position == len(items)

    async def heads(self, project: str, items: Iterable[str]) -> dict[str, Head]:
        """Title, role and priority of items, by id; items that do not exist have no entry."""
        ids = list(dict.fromkeys(items))
        found: dict[str, Head] = {}
        for start in range(0, len(ids), HEAD_SLICE):
            heads = await self._store.run(_HEADS, project, pack(ids[start : start + HEAD_SLICE]))
            found.update((head.id, head) for head in heads)
        return found

    async def status(self, project: str, item: str) -> Status:
        """What decides the item's next transition, read at one moment.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND.
        """
        try:
            return await self._store.run(_STATUS, project, item)
        except ScriptFailure:
            raise no_such_item("itemId") from None

    async def context(self, project: str, item: str, ancestors: bool) -> Context:
        """One item with its notes and its claim.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND.
        """
        try:
            return await self._store.run(_CONTEXT, project, item, self.schemas.current.version, int(ancestors))
        except ScriptFailure:
            raise no_such_item("itemId") from None

    async def ranked(self, project: str, parent: str, classes: str, limit: int) -> list[Ranked]:
        """The best ``limit`` items of each class, among the parent's children or ('') all items.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND for the parent.
        """
        try:
            return await self._store.run(_RANKED, project, parent, classes, limit)
        except ScriptFailure:
            raise no_such_item("parentId") from None

    async def listed(self, project: str, roles: Iterable[int], items: Sequence[str], ancestors: bool) -> list[Listed]:
        """The items that (still) have one of the roles; those in role blocked come without their notes."""
        codes, config, position = "".join(map(str, roles)), self.schemas.current.version, 0
        found: list[Listed] = []
        while position < len(items):
            part = pack(items[position : position + READ_SLICE])
            finished, entries = await self._store.run(_LIST, project, codes, config, int(ancestors), part)
            position += finished
            found += entries
        return found

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

    async def abandoned(self, project: str, limit: int) -> Abandoned:
        """What is abandoned, at most ``limit`` items of it by id."""
        return await read_abandoned(self._store, project, limit)

    async def claims(self, project: str) -> tuple[int, int]:
        """How many claims are live, and how many have expired but are still on their items."""
        return await self._store.run(_CLAIMS, project)

    async def transitions(self, project: str, since: int, limit: int) -> tuple[list[Row], bool]:
        """Up to ``limit`` role changes at or after ``since`` (ms) of existing items, newest first.

        The flag says whether reading ended early, because it had looked at ``MAX_ROWS`` rows.
        """
        rows: list[Row] = []
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


def _joined(before: Blocked, more: Blocked) -> Blocked:
    """An item with its blockers from two runs; a blocker that is in both counts once."""
    blockers = {blocker.field: blocker for blocker in (*before.blockers, *more.blockers)}
    return more._replace(blockers=list(blockers.values()))
