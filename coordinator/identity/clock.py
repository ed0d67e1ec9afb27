"""The fleet's time: that of the Redis server, so that every process finds the same token expired."""

from __future__ import annotations

import time


class FleetClock:
    """Redis time between two looks at it, carried on by this machine's monotonic clock."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Unix seconds."""
        return time.monotonic() + self._offset

    def set(self, milliseconds: int) -> None:
        """Takes over the time of the Redis server, in Unix milliseconds."""
        self._offset = milliseconds / 1000 - time.monotonic()
