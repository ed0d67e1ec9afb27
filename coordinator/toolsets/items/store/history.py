"""The history of an item: its transitions, as far as they are kept (``events_max``)."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import Script, ScriptFailure, Store
from coordinator.toolsets.items.rules.ids import no_such_item
from coordinator.toolsets.items.store.base import LIBRARY, Changed
from coordinator.toolsets.pages import stream_entry

HISTORY_ROWS = 50
"""How many transitions a page has at most."""


class History(NamedTuple):
    """A page of an item's transitions, newest first."""

    changes: list[Changed]
    entries: list[str]
    """The name of each."""
    next: str
    """The entry with which the next page begins; '' at the end."""
    trimmed: bool
    """Whether there were older ones that are not kept any more."""


_HISTORY = Script(LIBRARY, "read_history", History)


async def read_history(store: Store, project: str, item: str, start: str = "", limit: int = HISTORY_ROWS) -> History:
    """The transitions of an item (inner form), from an entry on.

    Args:
        start: ``next`` of an earlier page; '': the last transition.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND; VALIDATION_ERROR for a malformed ``start``; and as ``Store.run`` says.
    """
    stream_entry(start, "start")
    try:
        return await store.run(_HISTORY, project, item, start, min(max(limit, 1), HISTORY_ROWS))
    except ScriptFailure:
        raise no_such_item("itemId") from None
