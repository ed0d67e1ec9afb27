"""get_next_item and get_next_status: recommendations."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

from coordinator.store import Script, ScriptFailure
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.rules.schema import Filled
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE, BaseStore, Path, pack, unfinished
from coordinator.toolsets.items.store.held_counts import count_held_back
from coordinator.toolsets.items.store.query import Said
from coordinator.toolsets.metrics import RESTARTS_OF_OPERATIONS
from coordinator.toolsets.tool import COMPLETIONS_MOST, Completed


class Next(NamedTuple):
    """An item that may be taken next."""

    id: str
    role: int
    said: Said
    claimed: bool
    ancestors: Path


class NextStatus(NamedTuple):
    """What decides about the next transition of an item."""

    role: int
    returns: bool
    """Whether a blocked item has a role to return to."""
    schema: Filled
    """Without notes."""
    blockers: list[tuple[str, int, int]]
    """The unsatisfied blockers: id, role, role that they must reach."""
    template: bool = False
    not_before: int = 0
    """In ms; 0: it does not say."""
    now: int = 0
    """In ms."""


_NEXT = Script(LIBRARY, "next_items", tuple[list[Next], bool, str], rest=SETTLE)
_STATUS = Script(LIBRARY, "next_status", NextStatus)
_LIKE = Script(LIBRARY, "ids_like", tuple[list[str], bool])


class NextStore(BaseStore):
    """Recommendations of any project."""

    async def next(
        self, project: str, selector: Selector, limit: int, include_claimed: bool, ancestors: bool
    ) -> list[Next]:
        """The best items for a selector; ``include_claimed`` adds claimed items and those below claimed ones.

        A search that times out returns what it has found.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND for the selector's parent or ancestor; ``deadline_exceeded`` if a search
                times out without results.
        """
        packed, after, again, late = pack(selector), "", False, perf_counter() + self.seconds
        rows: list[Next] = []
        while True:
            left, several = limit - len(rows), bool(after)
            try:
                found, more, after = await self._store.run(
                    _NEXT, project, *self._terms(project), int(include_claimed), packed, left, int(ancestors), after
                )
            except ScriptFailure as failure:
                if failure.code != "NOT_FOUND":
                    raise
                raise no_such_item(f"{failure.detail}Id") from None
            rows += found
            if not more:
                if rows or again or not several:
                    return rows
                again = True  # search once more: items may have become ready behind the cursor (as claim_next does)
            elif not after:  # claims have expired, and their items may be better: start over
                RESTARTS_OF_OPERATIONS.labels("get_next_item").inc()
                rows.clear()
            if perf_counter() > late:
                if rows:
                    return rows
                raise unfinished()

    async def held_back(self, project: str, selector: Selector) -> dict[str, int]:
        """How many items a selector would match but for what holds them back, by reason."""
        return (await count_held_back(self._store, self.schemas.current.terms(project), project, selector))[0]

    async def status(self, project: str, item: str) -> NextStatus:
        """The inputs of the item's next transition, as a consistent snapshot.

        Raises:
            ToolFailure: RESOURCE_NOT_FOUND.
        """
        try:
            return await self._store.run(_STATUS, project, item)
        except ScriptFailure:
            raise no_such_item("itemId") from None

    async def like(self, project: str, digits: str) -> Completed:
        """Ids (inner form) that begin with these hex digits; with fewer than two, of some of the best items."""
        return Completed(*await self._store.run(_LIKE, project, digits, COMPLETIONS_MOST))
