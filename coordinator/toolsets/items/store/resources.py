"""The resources of a project, for people."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import Script, Store
from coordinator.toolsets.items.rules.board import MAX_ROWS, window
from coordinator.toolsets.items.store.base import LIBRARY


class Use(NamedTuple):
    """An item that has a resource."""

    id: str
    """In the inner form."""
    title: str
    agent: str
    """Whose claim holds it; '': it is reserved for the item."""


class ResourceRow(NamedTuple):
    """A key, with what is below it."""

    key: str
    capacity: int
    per_minute: int
    """0: no limit."""
    left: float
    """Of the units per minute."""
    exclusive: int
    """Units that claims hold."""
    shared: int
    """Shared demands that claims hold."""
    demanded: int
    """Open items that demand it or something below it."""
    waiting: int
    """Those of them that are ready but for it, and that callers would have got."""
    holding: int
    """Claims that hold it, of those that were looked at."""
    holders: list[Use]
    """Some of them."""
    reserved: list[Use]


class ResourcePage(NamedTuple):
    """A page of resources, those that most items demand first."""

    now: int
    total: int
    more: bool
    """Whether there may be more than ``total``."""
    live: int
    """Live claims of the project."""
    looked: int
    """How many of them were looked at: those that end soonest."""
    rows: list[ResourceRow]


_READ = Script(LIBRARY, "read_resources", ResourcePage)


async def read_resources(
    store: Store, project: str, terms: bytes, offset: int = 0, limit: int = MAX_ROWS
) -> ResourcePage:
    """A page of the resources that the settings limit, that open items demand, and that claims hold.

    Args:
        terms: the settings to decide by (``SchemaConfig.terms``).

    Raises:
        ToolFailure: as ``Store.run`` says.
    """
    return await store.run(_READ, project, terms, *window(offset, limit))
