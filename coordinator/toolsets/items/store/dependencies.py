"""Dependency edges."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Iterable, Sequence
from random import uniform
from time import monotonic
from typing import NamedTuple

import msgspec

from coordinator.store import Script
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.dependencies.graph import Head, StoredEdge, edges_of
from coordinator.toolsets.items.rules.dependencies.levels import Move, Repair, added
from coordinator.toolsets.items.store.base import LIBRARY, READ_SLICE, SETTLE, SLICE, START, BaseStore, pack

HEAD_SLICE = 100


class NewEdge(NamedTuple):
    """An edge in the form of ``create_dependencies.lua`` and ``create_work_tree.lua``."""

    id: str
    source: str
    target: str
    code: str
    """B: the source blocks the target. I: the source is blocked by the target. R: they are related."""
    threshold: str
    """The code of the role that the blocker must reach, or '-' if none was given."""


class _Far(NamedTuple):
    """An edge that cannot be created before its items' levels are moved apart (``lua/dependencies/levels.lua``)."""

    position: int
    blocker: str
    blocked: str
    low: int
    """The blocker's level. It must be below ``high``, but is not."""
    high: int
    """The level of the blocked item."""


class Linked(msgspec.Struct, array_like=True):
    """What became of edges that were to be created."""

    refusals: list[tuple[int, str, str]]
    """Empty: all were created. Position, reason, and the end at fault: ``from``, ``to``, or '' for the edge itself."""
    edges: list[tuple[str, str, str, str]]
    """Dependency id, from, to, and the threshold as in ``NewEdge``."""
    far: list[_Far]
    """Empty; or the edge that prevented the creation. Then ``refusals`` covers only the edges before it."""


class Unlinked(msgspec.Struct, array_like=True):
    """What was deleted of edges."""

    deleted: int
    """How many, including those of earlier runs."""
    first: str
    second: str
    """The ids that the call was first made with."""
    done: bool


_LINK = Script(LIBRARY, "create_dependencies", Linked, rest=SETTLE)
_UNLINK = Script(LIBRARY, "delete_dependencies", Unlinked, rest=SETTLE)
_NEIGHBOURS = Script(LIBRARY, "read_neighbours", list[list[Move]])
_SHIFT = Script(LIBRARY, "shift_levels", tuple[int, bool])

_EDGES = Script(LIBRARY, "read_edges", tuple[int, str, list[tuple[str, list[str]]]])
_HEADS = Script(LIBRARY, "read_heads", list[Head])


class DependencyStore(BaseStore):
    """Dependency edges of any project."""

    async def link(self, project: str, request: IdempotencyKey, edges: Sequence[NewEdge]) -> Linked:
        """Creates edges, all or none; if none, ``refusals`` says why.

        Concurrent calls that link the same items in contradictory ways can undo each other's repairs of levels. So a
        repair is retried with a random exponential backoff, in which one of the calls can finish.
        """
        packed, cyclic, pauses = pack(edges), list[int](), dict[int, float]()
        while True:
            reply = await self._change(_LINK, project, request, packed, pack(cyclic))
            if not reply.far:
                return reply
            (far,) = reply.far
            refused = {position for position, _, _ in reply.refusals}
            before = [edge for n, edge in enumerate(edges[: far.position]) if n not in refused]
            pause = pauses.get(far.position, 0.0)
            await sleep(uniform(0, pause))
            began = monotonic()
            if await self._move_apart(project, far, before):
                pauses[far.position] = 2 * max(pause, monotonic() - began)
            else:
                cyclic.append(far.position)

    async def unlink(
        self, project: str, request: IdempotencyKey, mode: str, first: str, second: str = "", codes: str = "BIR"
    ) -> Unlinked:
        """Deletes edges by mode: ``id``, ``pair`` (between two items) or ``all`` (of an item, in slices)."""
        deleted = 0
        while True:
            reply = await self._change(_UNLINK, project, request, mode, first, second, codes, deleted)
            if reply.done:
                return reply
            deleted = reply.deleted

    async def _move_apart(self, project: str, far: _Far, before: Iterable[NewEdge]) -> bool:
        """Makes a large repair of levels in slices.

        Raising the blocked side and lowering the blocking side are tried in turn, as in ``levels.lua``; the one that
        finishes first is used. If the graph changes meanwhile, the moves made so far do no harm, and the next call
        makes the rest.

        Returns:
            False: the edge would close a cycle, together with stored edges and the edges ``before`` it.
        """
        order = [
            (edge.source, edge.target) if edge.code == "B" else (edge.target, edge.source)
            for edge in before
            if edge.code != "R"
        ]
        ways = [
            (Repair(far.blocked, far.low + 1, 1, far.blocker), pack(added(order, 1))),
            (Repair(far.blocker, far.high - 1, -1, far.blocked), pack(added(order, -1))),
        ]
        while True:
            for repair, further in ways:
                items = repair.wanted(SLICE)
                near = await self._store.run(_NEIGHBOURS, project, repair.step, pack(items), further)
                repair.look(items, near)
                if repair.cyclic:
                    return False
                if repair.done:
                    if not repair.torn:
                        await self._shift(project, repair)
                    return True

    async def _shift(self, project: str, repair: Repair) -> None:
        moves = repair.moves()
        while moves:
            part = [word for move in moves[: 4 * SLICE] for word in move]
            done, placed = await self._store.run(_SHIFT, project, repair.step, pack(part))
            if not placed:
                return
            del moves[:done]

    async def edges(
        self, project: str, items: Sequence[str], most: int, known: Sequence[str] | None = None
    ) -> tuple[dict[str, list[StoredEdge]], bool]:
        """The edges of items, and whether these are all; items that do not exist have no entry.

        Args:
            most: reading ends after this many edges.
            known: if given, a run with room left prefetches: it adds entries for items that blocking edges lead to,
                except for the known ones.
        """
        found: dict[str, dict[tuple[str, str], StoredEdge]] = {}
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
