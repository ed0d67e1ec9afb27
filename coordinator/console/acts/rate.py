"""How fast one person may change things: nobody clicks faster, but a page that has gone wrong does."""

from __future__ import annotations

import time
from collections.abc import Callable

from coordinator.errors import ToolFailure

PER_SECOND = 10
_KNOWN = 4_096


class Rate:
    """Counts the changes of each person in this process: ``PER_SECOND`` at most, in any second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent: dict[str, float] = {}
        """When each would have an allowance of a whole second again."""

    def check(self, who: str) -> None:
        """Counts a change. Raises ToolFailure: actor_quota."""
        now = self._clock()
        full = max(self._spent.get(who, now), now) + 1 / PER_SECOND
        if full > now + 1:
            raise ToolFailure(
                "actor_quota", f"you make more than {PER_SECOND} changes a second", retry_after_ms=1_000 // PER_SECOND
            )
        if len(self._spent) >= _KNOWN:
            self._spent = {key: until for key, until in self._spent.items() if until > now}
        self._spent[who] = full
