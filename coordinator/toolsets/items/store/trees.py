"""Trees: creation in one step, completion in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from coordinator.store import Script, Store
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.actor import Attribution
from coordinator.toolsets.items.rules.items import NewItem
from coordinator.toolsets.items.rules.values import size
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, SLICE, BaseStore, pack, slices
from coordinator.toolsets.items.store.dependencies import NewEdge
from coordinator.toolsets.items.store.notes import StoredNote

COMPLETE_SLICE = 25
"""Most items that one run of ``complete_tree`` works on."""


class TreeReply(msgspec.Struct, array_like=True):
    """What became of a tree that was to be created."""

    reason: str
    """Why it was not created; '': it was."""
    depth: int
    """Of the root."""
    items: list[str]
    edges: list[tuple[str, str]]
    """Dependency id, and the threshold as in ``NewEdge``."""
    noted: str
    """The created notes (``Noted``) as JSON, because the script only passes them through."""


class _Completion(msgspec.Struct, array_like=True):
    """Progress of a completion. Results and plan are texts, because the script only passes them through."""

    done: bool
    position: int
    """Where the next run goes on."""
    results: str
    """Those of this run (``Completed``) as JSON."""
    skipped: list[str]
    """Ids of items that are left out because of others."""
    plan: str
    """Of the first run; '' of others."""


class Noted(NamedTuple):
    """A note that was created with a tree."""

    id: str
    item: str
    key: str
    role: str
    """Letter of the phase."""


class Completed(NamedTuple):
    """What became of an item that was to be completed."""

    id: str
    title: str
    outcome: str
    """``applied``, detail the label; ``gate``, missing notes and their phases; ``skipped``, why; ``waiting``, for how
    many; ``claimed``; ``not_found``."""
    detail: str | int | bool | tuple[list[str], list[str]]


_CREATE = Script(LIBRARY, "create_work_tree", TreeReply, rest=SETTLE)
_DESCENDANTS = Script(LIBRARY, "list_descendants", list[str])
_DEPENDENTS = Script(LIBRARY, "read_dependents", list[tuple[str, bool, list[str]]])
_COMPLETE = Script(LIBRARY, "complete_items", _Completion, rest=SETTLE)
_results = msgspec.json.Decoder(list[Completed]).decode
_noted = msgspec.json.Decoder(list[Noted]).decode
_encode = msgspec.json.Encoder().encode


def _weight(note: StoredNote) -> int:
    """The additional weight of a note. It makes slices of a tree's notes smaller, because another call may have to
    write a slice that was left undone before it does its own work."""
    return 4 + size(note.body) // 1000


async def descendants(store: Store, project: str, root: str, most: int) -> list[str]:
    """A snapshot of the ids below ``root``, level by level; if there are more than ``most``, only a part."""
    return await store.run(_DESCENDANTS, project, root, most)


class TreeStore(BaseStore):
    """Work trees of any project."""

    async def create(
        self,
        project: str,
        request: IdempotencyKey,
        specs: Sequence[NewItem],
        edges: Sequence[NewEdge],
        notes: Sequence[StoredNote],
    ) -> tuple[TreeReply, list[Noted]]:
        """Creates everything or nothing; ``specs`` begin with the root."""
        noted = _encode([Noted(note.id, note.item, note.key, note.role) for note in notes])
        parts = (pack(((self._events,), "notes", part)) for part in slices(notes, lambda note: note, _weight))
        reply = await self._change_by_schema(_CREATE, project, request, pack(specs), pack(edges), noted, *parts)
        return reply, _noted(reply.noted)

    async def descendants(self, project: str, root: str, most: int) -> list[str]:
        """As the function of this name."""
        return await descendants(self._store, project, root, most)

    async def dependents(self, project: str, items: Sequence[str]) -> dict[str, list[str]]:
        """The dependents of each item, read in slices; items that do not exist are left out."""
        found: dict[str, list[str]] = {}
        for start in range(0, len(items), SLICE):
            rows = await self._store.run(_DEPENDENTS, project, pack(items[start : start + SLICE]))
            found.update({item: blocked for item, exists, blocked in rows if exists})
        return found

    async def complete(
        self,
        project: str,
        request: IdempotencyKey,
        trigger: str,
        by: Attribution,
        plan: Sequence[str],
    ) -> list[Completed]:
        """Completes or cancels items in the order of ``plan``."""
        who, results = pack((by.actor, by.verification)), list[Completed]()
        run = _Completion(False, 1, "", [], "".join(plan))
        order, number = run.plan, 0
        while not run.done:
            run = await self._change_by_schema(
                _COMPLETE, project, request.slice(number), trigger, by.id, who, COMPLETE_SLICE,
                order, run.position, pack(run.skipped),
            )  # fmt: skip
            results += _results(run.results)
            order, number = run.plan or order, number + 1
        return results
