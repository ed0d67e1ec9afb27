"""Lists of sessions, for operators."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from coordinator.store import Script, Store
from coordinator.toolsets.sessions.store.sessions import LIBRARY

MOST = 200
"""How many sessions a page has at most."""


class SessionRow(msgspec.Struct, array_like=True, frozen=True):
    """A session in a list. Times are ms of the store's clock."""

    id: str
    workflow: str
    activity: str
    """Empty before the first one."""
    checkpoint: str
    """The open checkpoint; empty: none."""
    yielded_at: int
    """Since when it is open; 0: none is."""
    item: str
    """The bound work item, as 32 hex digits; empty: none."""
    holder: str
    """The actor whose claim on the item was shown; empty: no item is bound."""
    agent: str
    """The agent of the last call."""
    completed: bool
    parent: str
    """The session that started it; empty: none."""
    changed_at: int
    """When it last changed. Calls that only read count to within a fiftieth of the time that sessions are kept."""


class SessionPage(NamedTuple):
    """A page of a list."""

    now: int
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[SessionRow]


_LIST = Script(LIBRARY, "list_sessions", SessionPage)


async def list_sessions(
    store: Store, project: str, *, only_open: bool = False, after: str = "", limit: int = 50
) -> SessionPage:
    """Sessions by their last change, the last one first. One round trip.

    Args:
        only_open: only those with an open checkpoint.
        after: ``SessionPage.next`` of the page before. A session that changes meanwhile moves to the first page.
        limit: at most so many, and ``MOST``. A page may be shorter although it is not the last one.

    Raises ToolFailure as ``Store.run`` says.
    """
    return await store.run(_LIST, project, int(only_open), after, max(1, min(limit, MOST)))
