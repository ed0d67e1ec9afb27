"""How many calls may be at work in the store at once: a limit that follows how long the store takes."""

from __future__ import annotations

import math

WINDOW_SECONDS = 0.1
"""The limit is thought over this often."""
TOLERANCE = 2.0
"""How much longer than usual the store may take before that counts as congestion."""
_DOWN, _UP = 0.2, 0.002
"""How fast the idea of what is usual follows: at once when the store is quicker, within minutes when it is slower."""


class AdaptiveLimit:
    """A concurrency limit by gradient: shrinks while answers take longer than they should, else grows.

    What they should take is the larger of ``target_ms`` and twice what is usual. Times below the
    target are left to the store: it is busy, and a shorter queue would not make it faster.

    Args:
        least, most: bounds of the limit.
        target_ms: what an answer may take in any case, in milliseconds.
        now: the present, in seconds.
    """

    def __init__(self, least: int, most: int, target_ms: float, now: float) -> None:
        self.configure(least, most, target_ms)
        self._limit = float(min(most, max(least, most // 4)))
        self._usual = 0.0
        self._began = now
        self._sum = 0.0
        self._count = 0
        self._peak = 0

    @property
    def value(self) -> int:
        """The limit now."""
        return int(self._limit)

    @property
    def usual_ms(self) -> float:
        """What the store takes usually, in milliseconds."""
        return self._usual * 1000

    def configure(self, least: int, most: int, target_ms: float) -> None:
        """Takes over other bounds."""
        self._least, self._most, self._target = least, max(least, most), target_ms / 1000
        if hasattr(self, "_limit"):
            self._limit = min(float(self._most), max(float(least), self._limit))

    def sample(self, seconds: float, in_flight: int, now: float) -> None:
        """Learns from an answer of the store.

        Args:
            seconds: what it took.
            in_flight: calls at work when it came, this one included.
        """
        self._sum += seconds
        self._count += 1
        if in_flight > self._peak:
            self._peak = in_flight
        if now - self._began >= WINDOW_SECONDS:
            self._think(now)

    def _think(self, now: float) -> None:
        took = self._sum / self._count
        if not self._usual:
            # What the first answers took may be far from usual.
            self._usual = min(took, self._target)
        weight = _DOWN if took < self._usual else _UP
        self._usual += weight * (took - self._usual)
        allowed = max(self._target, TOLERANCE * self._usual)
        if took > allowed:
            self._limit = max(self._least, self._limit * max(0.5, allowed / took))
        elif 2 * self._peak >= self._limit:
            # Only a limit that is made use of says anything about a larger one.
            self._limit = min(self._most, self._limit + max(1.0, math.sqrt(self._limit)))
        self._began, self._sum, self._count, self._peak = now, 0.0, 0, 0
