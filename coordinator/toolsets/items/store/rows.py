"""Rows of items in lists that people read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from coordinator.store import Script, Store
from coordinator.toolsets.items.store.base import LIBRARY, pack
from coordinator.toolsets.items.store.due_times import DueTimes

STATES = ("ready", "held", "abandoned", "waiting", "parent", "", "parent")
"""By code: free; held by a claim; abandoned, and free; waiting for a dependency or a time, or a template; free but for
its open children, or abandoned but for these."""


class Row(NamedTuple):
    """An item, as ``lua/boards/rows.lua`` packs it; False: absent. Times in ms, 0: never."""

    id: str
    """In the inner form."""
    title: str
    role: int
    state: int
    """A code of ``STATES``; a claim that has just expired is still ``held``."""
    label: str | bool
    priority: int
    complexity: int | bool
    tags: str | bool
    type: str | bool
    requires: str | bool
    """The capabilities that an agent needs for it, separated by commas."""
    parent: str | bool
    depth: int
    """How many ancestors it has."""
    created: int
    role_changed: int
    modified: int
    holder: str
    """Whose claim, live or expired, is on the item; '' for none."""
    claimed: int
    """When the holder claimed it first."""
    renewed: int
    """When the holder claimed or renewed it last."""
    expires: int
    """When the claim ends or ended; the claim is live if that is after the ``now`` of the reply."""
    fence: int
    """Of the last claim, 0 if there was none."""
    attempts: int
    """How many count."""
    most_attempts: int | bool
    """How many it may have, 0: any number; False: the settings decide (``SchemaConfig.most_attempts``)."""
    held_until: int
    """Until when it is held back: in back-off, or by its notBefore."""
    quarantined: bool
    blockers: int
    """Unsatisfied ones."""
    children: int
    ended_children: int
    """Those of them that are terminal."""
    due_times: DueTimes | Literal[False]
    demanded: str = ""
    """What it demands of resources, as ``lua/resources/demands.lua`` stores it."""
    holds: str = ""
    """What of these its claim holds."""
    used: str = ""
    """The sum of its usage, as ``lua/usage/sums.lua`` stores it; '' for none."""
    used_below: str = ""
    """That of the items below it."""
    budget: str = ""
    """Its limits, as ``lua/usage/budgets.lua`` stores them; '' for none."""
    spent: str = ""
    """The nearest item whose budget is spent, of it and those above it; '' for none."""
    container: bool = False
    """Whether it is never offered, whatever its children."""


_ROWS = Script(LIBRARY, "rows_by_ids", tuple[int, list[Row]])


async def rows_by_ids(store: Store, project: str, ids: Sequence[str]) -> tuple[int, list[Row]]:
    """The store's time in ms, and the rows of those of at most 100 items (inner form) that exist, in the order given.

    Raises ToolFailure as ``Store.run`` says.
    """
    return await store.run(_ROWS, project, pack(ids))
