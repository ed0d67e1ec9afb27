"""Leader leases: the process that holds a lease runs a task for the whole fleet."""

from __future__ import annotations

import contextlib
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import StoreError
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

_HOLD: Script[Any] = Script(STORE, "hold_leader_lease", scope="fleet")


class LeaderLeases:
    """Takes and gives back leases."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def acquire(self, what: str, process: str, milliseconds: int) -> bool:
        """Takes or renews the lease, unless another process has it; returns whether this process leads.

        Raises:
            ToolFailure: as ``Store.run`` says.
        """
        return bool(await self._store.run(_HOLD, keys.FLEET, what, process, milliseconds))

    async def release(self, what: str, process: str) -> None:
        """Gives the lease back, if this process has it. Does not fail, because the lease lapses by itself."""
        with contextlib.suppress(ToolFailure, StoreError):
            await self._store.run(_HOLD, keys.FLEET, what, process, 0)
