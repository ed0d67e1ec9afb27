"""Rows of items in lists that people read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from coordinator.store import Script, Store
from coordinator.toolsets.items.fields import LETTERS
from coordinator.toolsets.items.store.base import LIBRARY, pack

STATES = ("ready", "held", "abandoned", "waiting", "parent", "", "parent")
"""By code: free; held by a claim; abandoned, and free; waiting for a dependency or a time, or a template; free but for
its open children, or abandoned but for these."""


class ItemRow(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename=LETTERS):
    """An item, as ``lua/boards/rows.lua`` packs it: what it says, as it is stored, '' for nothing, and its state. Times
    in ms, 0: never."""

    id: str
    """In the inner form."""
    title: str
    role: int
    state: int
    """A code of ``STATES``; a claim that has just expired is still ``held``."""
    status_label: str = ""
    priority: int
    complexity: int | None = None
    tags: str = ""
    type: str = ""
    requires: str = ""
    assignee: str = ""
    resources: str = ""
    budget: str = ""
    usage: str = ""
    container: str = ""
    not_before: str = ""
    due_at: str = ""
    overdue: bool = False
    recurs: str = ""
    recurrence_of: str = ""
    parent_id: str = ""
    depth: int
    """How many ancestors it has."""
    created: int
    role_changed: int
    modified: int
    holder: str = ""
    """Whose claim, live or expired, is on the item; '' for none."""
    claimed: int = 0
    """When the holder claimed it first."""
    renewed: int = 0
    """When the holder claimed or renewed it last."""
    expires: int = 0
    """When the claim ends or ended; the claim is live if that is after the ``now`` of the reply."""
    fence: int = 0
    """Of the last claim, 0 if there was none."""
    holds: str = ""
    """What of its resources its claim holds."""
    attempts: int = 0
    """How many count."""
    max_attempts: int | None = None
    """How many it may have, 0: any number; None: the settings decide (``SchemaConfig.most_attempts``)."""
    held_until: int = 0
    """Until when it is held back: in back-off, or by its notBefore."""
    quarantined: bool = False
    blockers: int = 0
    """Unsatisfied ones."""
    children: int
    ended_children: int
    """Those of them that are terminal."""
    used_below: str = ""
    """The sum of the usage of the items below it."""
    spent: str = ""
    """The nearest item whose budget is spent, of it and those above it."""


_ROWS = Script(LIBRARY, "rows_by_ids", tuple[int, list[ItemRow]])


async def rows_by_ids(store: Store, project: str, ids: Sequence[str]) -> tuple[int, list[ItemRow]]:
    """The store's time in ms, and the rows of those of at most 100 items (inner form) that exist, in the order given.

    Raises ToolFailure as ``Store.run`` says.
    """
    return await store.run(_ROWS, project, pack(ids))
