"""How many calls may be at work in the store at once: a limit that follows how long the store takes."""

from __future__ import annotations

import math

WINDOW_SECONDS = 0.1
"""How often the limit is adjusted."""
TOLERANCE = 2.0
"""How many times as long as usual the store may take before that counts as congestion."""
_DOWN, _UP = 0.2, 0.002
"""Weights of a new average in the moving average of what is usual: that follows a store that becomes quicker at once,
one that becomes slower within minutes."""
LAG_SECONDS = 0.001
"""How long calls may wait for the event loop, on average, before fewer are let in."""
_LAGS_PER_ANSWER = 4
"""How often an answer of the store waits for the event loop at most: to be sent, to be read and to be acted on."""
FOREIGN_SECONDS = 0.012
"""``ENOUGH`` calls make no longer waits for the event loop: calls turned away, or other processes, take the CPU."""
ENOUGH = 64
"""Calls that a process has at work at once without any of them getting late."""
FEWEST = 16
"""Calls that keep a process and its store busy. While many calls are turned away no more are admitted, because the
same event loop has to answer the others, and soon."""
MANY = 0.1
"""Share of calls turned away above which this is an overload; below it is a burst."""


class AdaptiveLimit:
    """A concurrency limit by gradient: shrinks while answers take longer than they should, else grows.

    What they should take is the larger of ``target_ms`` and twice what is usual. Times below the
    target are left to the store: it is busy, and a shorter queue would not make it faster. It shrinks
    also while calls wait too long for this process's event loop: then its own CPU is the bottleneck. Where
    they wait longer than that many calls explain, other processes have the CPU, and it takes more calls to make
    use of what is left.

    What is usual is learned from answers that were slow without this process's doing: while few of
    the calls that it might let in were at work, or no fewer can be let in. Otherwise a queue that
    lasts would become what is usual, and then a longer one.

    Waits of this process's own making take it down to ``ENOUGH``, or to ``FEWEST`` while many calls are turned away.

    Args:
        least, most: bounds of the limit.
        target_ms: what an answer may take in any case, in milliseconds.
        now: the present, in seconds.
    """

    value: int
    """The limit now."""

    def __init__(self, least: int, most: int, target_ms: float, now: float) -> None:
        self._set(max(most // 4, ENOUGH))
        self.configure(least, most, target_ms)
        self._usual = 0.0
        self._began = now
        self._sum = 0.0
        self._count = 0
        self._peak = 0
        self._lag_sum = 0.0
        self._lag_count = 0
        self.turned_away = 0
        """Calls that were not let in since the limit was last adjusted."""

    def configure(self, least: int, most: int, target_ms: float) -> None:
        """Takes over other bounds."""
        self._least, self._most, self._target = least, max(least, most), target_ms / 1000
        self._set(min(self._most, max(least, self._limit)))

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
            self._adjust(now)

    def sample_lag(self, seconds: float) -> None:
        """Learns from a call that waited so long for the event loop."""
        self._lag_sum += seconds
        self._lag_count += 1

    def _adjust(self, now: float) -> None:
        lag = self._lag_sum / self._lag_count if self._lag_count else 0.0
        # Waiting for the event loop is not the store's doing.
        took = max(0.0, self._sum / self._count - _LAGS_PER_ANSWER * lag)
        if not self._usual:
            # What the first answers took may be far from usual.
            self._usual = min(took, self._target)
        if took < self._usual:
            self._usual += _DOWN * (took - self._usual)
        elif 2 * self._peak < self._limit or self._limit <= self._least:
            self._usual += _UP * (took - self._usual)
        excess = took / max(self._target, TOLERANCE * self._usual)
        if excess > 1:
            self._set(max(self._least, self._limit * max(0.5, 1 / excess)))
        elif LAG_SECONDS < lag < FOREIGN_SECONDS and self._limit >= (enough := self._enough):
            self._set(max(enough, self._limit * max(0.5, LAG_SECONDS / lag)))
        elif 2 * self._peak >= self._limit:
            # Only a limit that is made use of says anything about a larger one.
            self._set(min(self._most, self._limit + max(1.0, math.sqrt(self._limit))))
        self._began, self._sum, self._count, self._peak = now, 0.0, 0, 0
        self._lag_sum, self._lag_count, self.turned_away = 0.0, 0, 0

    @property
    def _enough(self) -> int:
        many = self.turned_away > MANY * (self.turned_away + self._count)
        return max(self._least, FEWEST if many else ENOUGH)

    def _set(self, limit: float) -> None:
        self._limit = float(limit)
        self.value = int(limit)
