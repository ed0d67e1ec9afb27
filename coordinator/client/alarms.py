"""Alarms of an event loop that are mostly dropped before their time comes, as those for answers that do come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable


class Alarms:
    """What is to be called when something has not happened in time. To set or drop one costs hardly anything: one timer
    of the loop serves all, and what is dropped leaves it as it is."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._set: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def set(self, what: Hashable, seconds: float, late: Callable[[], object]) -> None:
        """Calls ``late`` after that time, unless ``what`` is dropped before. Replaces an earlier alarm for it."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        at = self._loop.time() + seconds
        self._set[what] = at, late
        if self._timer is None or at < self._rings_at:
            self._ring_at(self._loop, at)

    def drop(self, what: Hashable) -> None:
        """No alarm for it any more, if there is one."""
        self._set.pop(what, None)

    def close(self) -> None:
        """Drops all."""
        self._set.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring_at(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at, self._timer = at, loop.call_at(at, self._ring, loop)

    def _ring(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        # A timer may come a little early, by the clock that the loop reads now and then.
        now = max(loop.time(), self._rings_at)
        due = [what for what, (at, _) in self._set.items() if at <= now]
        for what in due:
            if what in self._set:  # what was called before may have dropped it
                self._set.pop(what)[1]()
        if self._set and self._timer is None:
            self._ring_at(loop, min(at for at, _ in self._set.values()))
