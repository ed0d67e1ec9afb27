"""Claims, and items that are held back, as lists that people read."""

from __future__ import annotations

from typing import Literal, NamedTuple

from coordinator.store import Script, Store
from coordinator.toolsets.items.rules.board import MAX_ROWS, window
from coordinator.toolsets.items.store.base import LIBRARY
from coordinator.toolsets.items.store.boards.rows import ItemRow

ClaimList = Literal["ending", "held", "expiring", "stalled"]
"""All claims, the one that ends soonest first, or the one held longest first; those that end within a minute; those
without a sign of life for half their TTL."""
HeldBackList = Literal["abandoned", "quarantined", "retries", "postponed", "due", "overdue", "recurring"]
"""Abandoned items; those in quarantine; those in back-off; those not ready before a time; open ones that are due at a
time, and those of them of which it has passed; templates."""


class LiveClaim(NamedTuple):
    row: ItemRow
    known_as: str
    """What its agent is, as ``Agent.known_as``."""
    sign: int
    """When the claim was placed or renewed, or the item changed last, in ms."""
    stalled: bool


class Claims(NamedTuple):
    now: int
    live: int
    """All live claims of the project."""
    expiring: int
    """Those of them that end within a minute."""
    looked: int
    """How many were looked at: if fewer than ``live``, those that end soonest, and the list may lack others."""
    total: int
    """How many are in the list."""
    claims: list[LiveClaim]


class HeldBack(NamedTuple):
    """A page of a list of items that are held back."""

    now: int
    total: int
    """How many are in the list."""
    rows: list[ItemRow]
    times: list[int]
    """Since when each is in the list; of those that wait for a time or are due, that time. In ms."""


_CLAIMS = Script(LIBRARY, "list_claims", Claims)
_HELD_BACK = Script(LIBRARY, "list_held_back", HeldBack)


async def read_claims(store: Store, project: str, which: ClaimList, offset: int = 0, limit: int = MAX_ROWS) -> Claims:
    """A page of a list of live claims, in one read. Raises ToolFailure as ``Store.run`` says."""
    return await store.run(_CLAIMS, project, which, *window(offset, limit))


async def read_held_back(
    store: Store, project: str, which: HeldBackList, offset: int = 0, limit: int = MAX_ROWS
) -> HeldBack:
    """A page of a list of items that are held back, those longest in it first. Raises ToolFailure as ``Store.run``
    says."""
    return await store.run(_HELD_BACK, project, which, *window(offset, limit))
