"""What the read tools ask for: slices of the indexes, the edges and the transition stream.

None of these scripts writes. Each does a bounded amount of work, so a long answer takes several
runs, between which other calls go on and items change: every run checks again what it was sent for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from coordinator.store import Script, ScriptFailure
from coordinator.toolsets.items.rules.graph import Edge, Head, edges_of
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.store.base import PACKAGE, BaseStore, Path, pack

READ_SLICE = 50
"""Items that one run is asked for."""
HEAD_SLICE = 100
STREAM_SLICE = 100
MAX_ROWS = 10_000
"""Rows of the transition stream that one call looks at; those of deleted items are among them."""
START = "0"


class BlockerRow(NamedTuple):
    """A blocker as ``include/pages.lua`` reports it."""

    field: str
    """Of the edge: its code and the blocker's id."""
    title: str
    role: int
    mark: str
    """The threshold."""
    satisfied: bool


class Status(NamedTuple):
    """Reply of ``next_status.lua``."""

    role: int
    returns: bool
    schema: Filled
    blockers: list[tuple[str, int, int]]
    """Unsatisfied ones: id, role, role that is waited for."""


class Ranked(NamedTuple):
    """One class of ``ranked_ids.lua``: its size, and ids and ranks in turn, best first."""

    size: int
    flat: list[str]

    @property
    def cut(self) -> bool:
        """Whether there are more."""
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
    from_role: int
    to_role: int
    trigger: str
    at: int
    actor: str
    verification: str


_EDGES = Script(PACKAGE, "read_edges", tuple[int, str, list[tuple[str, list[str]]]])
_HEADS = Script(PACKAGE, "read_heads", list[Head])
_STATUS = Script(PACKAGE, "next_status", Status)
_CONTEXT = Script(PACKAGE, "item_context", Context)
_RANKED = Script(PACKAGE, "ranked_ids", list[Ranked])
_LIST = Script(PACKAGE, "list_items", tuple[int, list[Listed]])
_BLOCKED = Script(PACKAGE, "blocked_items", tuple[int, str, list[Blocked]])
_CLAIMS = Script(PACKAGE, "claim_counts", tuple[int, int])
_TRANSITIONS = Script(PACKAGE, "recent_transitions", tuple[str, list[Row]])


class ReadStore(BaseStore):
    """Reads of any project."""

    async def edges(
        self, project: str, items: Sequence[str], most: int, known: Sequence[str] | None = None
    ) -> tuple[dict[str, list[Edge]], bool]:
        """The edges of items, and whether those are all; items that do not exist have no entry.

        Ends early once ``most`` edges have been read. With ``known``, a run that has room left goes on
        to items that blocking edges lead to, other than the known ones, and they have entries too.
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
        """What is shown of items that an answer refers to, by id; without those that do not exist."""
        ids = list(dict.fromkeys(items))
        found: dict[str, Head] = {}
        for start in range(0, len(ids), HEAD_SLICE):
            heads = await self._store.run(_HEADS, project, pack(ids[start : start + HEAD_SLICE]))
            found.update((head.id, head) for head in heads)
        return found

    async def status(self, project: str, item: str) -> Status:
        """What decides the item's next transition, as of one moment.

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
        """Those of the items that have one of the roles, blocked ones without their notes."""
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
        """Up to ``most`` of the items that are blocked, and whether those are all."""
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

    async def claims(self, project: str) -> tuple[int, int]:
        """How many claims are live, and how many have expired without being released."""
        return await self._store.run(_CLAIMS, project)

    async def transitions(self, project: str, since: int, limit: int) -> tuple[list[Row], bool]:
        """Up to ``limit`` role changes at or after ``since`` (ms), newest first, of items that exist.

        The flag says whether the search ended only because ``MAX_ROWS`` rows had been looked at.
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
    """An item with two pages of its blockers; one that is on both counts once."""
    blockers = {blocker.field: blocker for blocker in (*before.blockers, *more.blockers)}
    return more._replace(blockers=list(blockers.values()))
