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
from coordinator.toolsets.items.rules.levels import Move, Repair, added
from coordinator.toolsets.items.store.base import PACKAGE, SETTLE, SLICE, BaseStore, pack


class NewEdge(NamedTuple):
    """An edge as ``create_dependencies.lua`` and ``create_work_tree.lua`` take it."""

    id: str
    source: str
    target: str
    code: str
    """B: the source blocks the target, I: it is blocked by it, R: they are related."""
    threshold: str
    """Code of the role from which on the blocker no longer blocks, or '-' where none was given."""


class _Far(NamedTuple):
    """An edge between items whose levels have to be moved apart first."""

    position: int
    blocker: str
    blocked: str
    low: int
    """The blocker's level, which is not below ``high``."""
    high: int


class Linked(msgspec.Struct, array_like=True):
    """Reply of ``create_dependencies.lua``."""

    refusals: list[tuple[int, str, str]]
    """Position, reason, and which end is the cause: ``from``, ``to``, or '' where it is the edge itself."""
    edges: list[tuple[str, str, str]]
    """Dependency id, from, to."""
    far: list[_Far]
    """None, or one for which no edge was created; the refusals are of edges before it then."""


class Unlinked(msgspec.Struct, array_like=True):
    """Reply of ``delete_dependencies.lua``."""

    deleted: int
    """With those of the runs before."""
    first: str
    second: str
    """The ids that the first of equal calls was made with."""
    done: bool


_LINK = Script(PACKAGE, "create_dependencies", Linked, rest=SETTLE)
_UNLINK = Script(PACKAGE, "delete_dependencies", Unlinked, rest=SETTLE)
_NEIGHBOURS = Script(PACKAGE, "read_neighbours", list[list[Move]])
_SHIFT = Script(PACKAGE, "shift_levels", tuple[int, bool])


class DependencyStore(BaseStore):
    """Dependency edges of any project."""

    async def link(self, project: str, request: IdempotencyKey, edges: Sequence[NewEdge]) -> Linked:
        """Creates edges, all or none; the refusals say why none.

        Calls that join the same items in ways that exclude each other undo each other's repairs. Before one is made
        again there is a pause, longer every time and at random, in which one of them comes to its end.
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
        """Deletes edges by mode ``id``, ``pair`` or ``all``; all of an item in bounded slices."""
        deleted = 0
        while True:
            reply = await self._change(_UNLINK, project, request, mode, first, second, codes, deleted)
            if reply.done:
                return reply
            deleted = reply.deleted

    async def _move_apart(self, project: str, far: _Far, before: Iterable[NewEdge]) -> bool:
        """Makes a large repair in slices; False where the edge closes a cycle, with stored edges and those ``before``.

        Both ways are tried in turn, as ``lua/include/levels.lua`` does. If the graph changes meanwhile, the
        moves made so far do no harm, and the next call does the rest.
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
