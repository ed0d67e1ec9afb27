"""The jobs of a project that has left its store, in the queues there: no worker may serve their pool."""

from __future__ import annotations

from typing import Any

from coordinator.steps.handoff import RQ_PREFIX, Handoff
from coordinator.steps.store import LIBRARY
from coordinator.store import Script, Store, keys

_REMOVE: Script[Any] = Script(LIBRARY, "remove_jobs", scope="queue")
PAGE = 500
"""How many jobs one call looks at, which is a matter of milliseconds even in a long queue."""


async def remove_jobs(store: Store, project: str) -> int:
    """Removes them from the queues in the store itself; returns how many.

    It goes from the end of each queue to its head, where workers take jobs meanwhile: so none is passed over.

    Raises:
        ToolFailure, ServerError: as ``Store.run`` says; some may be left.
    """
    engine, count = Handoff(direct=True, events_max=0).queue_side(), 0
    for key in await store.command_of(keys.QUEUE, "SMEMBERS", f"{RQ_PREFIX}:queues"):
        queue = key.removeprefix(f"{RQ_PREFIX}:queue:".encode())
        last, seen = -1, PAGE
        while seen == PAGE:
            seen, removed = await store.run(_REMOVE, keys.QUEUE, engine, project, queue, last, PAGE)
            count += removed
            last -= seen - removed
    return count
