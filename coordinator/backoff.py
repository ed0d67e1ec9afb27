"""Pauses between attempts that fail. (What repeats calls as a whole uses tenacity: ``coordinator.client.retries``.)"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Exponential backoff with jitter.

    Args:
        first: the first pause, in seconds; each further one is twice as long.
        most: the longest, in seconds.
        spread: the least and the greatest factor of jitter. So those that failed together do not come back together.
        jitter: returns a number from 0 to 1.
        stable: what has worked for so many seconds begins with the first pause again.
    """

    first: float
    most: float
    spread: tuple[float, float] = (0.5, 1.0)
    jitter: Callable[[], float] = random.random
    stable: float = 1.0
    _failures: int = field(default=0, init=False)

    def after(self, failures: int) -> float:
        """Seconds to pause after a failure, when so many were in a row before it."""
        least, greatest = self.spread
        # The exponent is bounded: a float overflows after a thousand failures.
        return min(self.first * 2.0 ** min(failures, 30), self.most) * (least + (greatest - least) * self.jitter())

    def next(self, worked_seconds: float = 0.0) -> float:
        """As ``after``, for the next failure in a row.

        Args:
            worked_seconds: how long it had worked before.
        """
        if worked_seconds >= self.stable:
            self._failures = 0
        self._failures += 1
        return self.after(self._failures - 1)
