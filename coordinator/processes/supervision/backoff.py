"""The backoff before a dead process is restarted."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Exponential backoff with jitter, for one process slot.

    Args:
        first: the first delay, in seconds.
        most: the longest delay, in seconds.
        stable: a process that was ready for so many seconds resets the backoff.
        jitter: returns a number from 0 to 1. A delay is shortened by up to a half, so that processes that died together
            do not restart together.
    """

    first: float = 0.1
    most: float = 10.0
    stable: float = 1.0
    jitter: Callable[[], float] = random.random
    _failures: int = field(default=0, init=False)

    def delay(self, ready_seconds: float) -> float:
        """Seconds until the next start.

        Args:
            ready_seconds: how long the process that ended had been ready; 0 if it never was.
        """
        if ready_seconds >= self.stable:
            self._failures = 0
        # The exponent is bounded: a float overflows after a thousand failures.
        longest = min(self.first * 2.0 ** min(self._failures, 30), self.most)
        self._failures += 1
        return longest * (1 - self.jitter() / 2)
