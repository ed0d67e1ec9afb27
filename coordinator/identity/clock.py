"""The fleet's time: that of the Redis server, so that every process finds the same token expired."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from coordinator.errors import ToolFailure
from coordinator.store import ServerError

LOOK_SECONDS = 30.0
"""How often the Redis server is asked."""


class FleetClock:
    """The Redis server's time when it was last asked, advanced by this machine's monotonic clock.

    Args:
        ask: gives the time of the Redis server in Unix milliseconds (``Store.time``); None: use this machine's time.
    """

    def __init__(self, ask: Callable[[], Awaitable[int]] | None = None) -> None:
        self._ask = ask
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Unix seconds."""
        return time.monotonic() + self._offset

    def set(self, milliseconds: int) -> None:
        """Sets the clock to the time of the Redis server, in Unix milliseconds."""
        self._offset = milliseconds / 1000 - time.monotonic()

    async def look(self) -> None:
        """Sets the clock to the time of the Redis server, if that answers."""
        if self._ask is not None:
            with contextlib.suppress(ToolFailure, ServerError):  # the offset of the last look is good meanwhile
                self.set(await self._ask())

    async def follow(self) -> None:
        """Calls ``look`` every ``LOOK_SECONDS``, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()
