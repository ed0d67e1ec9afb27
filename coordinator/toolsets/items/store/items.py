"""Items themselves: create, update, delete."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

import msgspec

from coordinator.store import Script
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.items.rules.ids import new_ids
from coordinator.toolsets.items.rules.items import Fields, NewItem
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, SLICE, WEIGHT, BaseStore, pack, slices


class Created(NamedTuple):
    """What became of an item that was to be created."""

    outcome: str
    """``created``, or the reason why it was not."""
    depth: int
    """0 if it was not created."""
    id: str


class Deleted(msgspec.Struct, array_like=True):
    """Progress, or the result."""

    done: bool
    position: int
    """Where the next step goes on among ``ids``, from 1."""
    deleted: int
    """How many items of the list."""
    descendants: int
    """How many others, which were below them."""
    failures: list[tuple[int, str, int]]
    """Position, reason, and how many children the item has."""
    met: list[str]
    """The ids of the list whose items were deleted."""
    ids: list[str]
    """The list; empty when done."""


class Updated(msgspec.Struct, array_like=True):
    """What became of an item that was to be updated."""

    outcome: str
    """``updated``, or the reason why it was not: with the field after ``changed``, the demands after ``busy``."""
    id: str
    modified: int
    requires_verification: bool


_CREATE = Script(LIBRARY, "create_items", tuple[int, list[Created]], rest=SETTLE)
_UPDATE = Script(LIBRARY, "update_items", list[Updated], rest=SETTLE)
_DELETE = Script(LIBRARY, "delete_items", Deleted, rest=SETTLE)


def _tags(text: object) -> int:
    """The additional weight of tags."""
    return str(text).count(",")


def _work(fields: Fields) -> int:
    """The additional weight of an update. A move fills a slice: the subtree may be large."""
    return SLICE * WEIGHT if "pa" in fields else _tags(fields.get("g"))


class ItemStore(BaseStore):
    """Work items of any project."""

    async def create(self, project: str, request: IdempotencyKey, specs: Sequence[NewItem]) -> list[Created]:
        """Creates items in bounded slices. They keep their order, in which their ids rise."""
        created, results, last = 0, list[Created](), ""
        for number, part in enumerate(
            slices(specs, lambda spec: spec.fields.values(), lambda spec: _tags(spec.fields.get("g")))
        ):
            if last >= part[0].id:  # an interrupted call created the last slice before, with ids of its own
                ids = new_ids(len(specs) - len(results), after=last)
                part = [spec._replace(id=item) for spec, item in zip(part, ids, strict=False)]
            args = request.slice(number), created, pack(part)
            created, replies = await self._change_by_schema(_CREATE, project, *args)
            results += replies
            last = replies[-1].id
        return results

    async def update(
        self, project: str, request: IdempotencyKey, changes: Sequence[tuple[str, Fields]]
    ) -> list[Updated]:
        """Updates items in bounded slices."""
        parts = slices(changes, lambda change: change[1].values(), lambda change: _work(change[1]))
        return await self._change_in_slices(_UPDATE, project, request, parts)

    async def delete(
        self, project: str, request: IdempotencyKey, ids: Sequence[str], recursive: bool, seconds: float
    ) -> Deleted:
        """Deletes items, subtrees too if ``recursive``, a bounded number per script run.

        Args:
            seconds: after this time no further run begins. The result is then not ``done``, and an equal
                call continues from there.
        """
        state: bytes | str = ""
        packed, end = pack(ids), monotonic() + seconds
        while True:
            progress = await self._change_by_schema(_DELETE, project, request, int(recursive), SLICE, packed, state)
            if progress.done or monotonic() >= end:
                return progress
            state = pack(progress)
