"""Turns: what one process of the fleet does for all of them, as long as it goes on asking for the turn."""

from __future__ import annotations

import contextlib
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import StoreError
from coordinator.store.scripts import Script
from coordinator.store.store import Store

_HOLD: Script[Any] = Script("coordinator.store", "hold_turn", scope="fleet")


class Turns:
    """Who has the turn. Raises ToolFailure as ``Store.run`` says, where a method does not say otherwise."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def turn(self, what: str, process: str, milliseconds: int) -> bool:
        """Whether it is this process that does something for all, for so long; asked again it keeps the turn."""
        return bool(await self._store.run(_HOLD, keys.FLEET, what, process, milliseconds))

    async def leave(self, what: str, process: str) -> None:
        """Gives the turn away, if it is this process's; raises nothing, since the turn lapses by itself as well."""
        with contextlib.suppress(ToolFailure, StoreError):
            await self._store.run(_HOLD, keys.FLEET, what, process, 0)
