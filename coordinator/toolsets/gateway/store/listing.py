"""Lists of instances, for operators."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from coordinator.store import Script, Store, keys
from coordinator.toolsets.gateway.store.instances import LIBRARY

MOST = 200
"""How many instances a page has at most."""


class InstanceRow(Struct, array_like=True, frozen=True):
    """An instance in a list. Times are ms of the store's clock."""

    id: str
    definition: str
    state: str
    status: str
    """``r`` running, ``e`` ended."""
    version: int
    outcome: str
    """How it ended; empty: it has not."""
    creator: str
    started_at: int
    deadline: int
    """0: none."""
    transition: str
    """The transition in progress; empty: none, or what follows the start or the end of its time."""
    operation: str
    """The operation in progress; empty: none."""
    since: int
    """When that began; 0: there is none."""
    approvals: list[str]
    changed_at: int
    """When it last changed: its state, its approvals, or the end of an operation."""


class InstancePage(NamedTuple):
    now: int
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[InstanceRow]


_LIST = Script(LIBRARY, "list_instances", InstancePage)


async def list_instances(
    store: Store,
    project: str,
    *,
    definition: str = "",
    state: str = "",
    status: Literal["", "r", "e"] = "",
    after: str = "",
    limit: int = 50,
) -> InstancePage:
    """Instances by their last change, the last one first. One round trip.

    Args:
        definition, state, status: only those; empty: any. A call looks at 500 instances, so with one of these a page
            may be shorter, even empty, although it is not the last one.
        after: ``InstancePage.next`` of the page before. An instance that changes meanwhile moves to the first page.
        limit: at most so many, and ``MOST``.

    Raises ToolFailure as ``Store.run`` says.
    """
    return await store.run(_LIST, project, definition, state, status, after, max(1, min(limit, MOST)))


async def count_instances(store: Store, project: str) -> int:
    """How many instances are kept. Raises ToolFailure as ``Store.command`` says."""
    count: int = await store.command("ZCARD", keys.gate_index.key(project))
    return count
