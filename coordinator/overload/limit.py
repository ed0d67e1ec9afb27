"""A limit of concurrent calls to the store that follows its response time."""

from __future__ import annotations

import math

WINDOW_SECONDS = 0.1
"""How often the limit is adjusted."""
TOLERANCE = 2.0
"""The store is congested when it takes longer than this many times the usual time."""
_DOWN, _UP = 0.2, 0.002
"""Weights of a new average in the moving average of the usual time. The usual time falls at once when the store becomes
quicker, and rises within minutes when it becomes slower."""
LAG_SECONDS = 0.001
"""How long calls may wait for the event loop, on average, before fewer are admitted."""
_LAGS_PER_ANSWER = 4
"""How often at most an answer of the store waits for the event loop (to be sent, to be read, to be acted on)."""
FOREIGN_SECONDS = 0.012
"""``ENOUGH`` calls in progress do not make others wait longer than this for the event loop. If they do wait longer, the
CPU goes to shedding calls or to other processes."""
ENOUGH = 64
"""How many calls a process can have in progress without making any of them late."""
FEWEST = 16
"""How many calls keep a process and its store busy. While many calls are shed, the limit may fall to this, because the
same event loop has to shed the others, and soon."""
MANY = 0.1
"""If a larger share of the calls is shed, this is an overload; else it is a burst."""


class AdaptiveLimit:
    """A concurrency limit by gradient: shrinks while answers take longer than they should, else grows.

    An answer should take no longer than ``target_ms``, or twice the usual time if that is longer. Below the target the
    limit does not shrink: the store is just busy, and fewer calls would not make it faster.

    The limit also shrinks while calls wait too long for this process's event loop, because then its CPU is the
    bottleneck: down to ``ENOUGH``, or to ``FEWEST`` while many calls are shed. If they wait longer than this
    process's own calls can explain, other processes have the CPU; then the limit does not shrink, because it takes
    more calls to make use of the CPU that is left.

    The usual time rises only while slow answers are not this process's own doing: when few of the calls that it may
    admit are in progress, or when it cannot admit fewer. Otherwise a lasting queue would become usual, and then a
    longer one.

    Args:
        least, most: bounds of the limit.
        target_ms: what an answer may take in any case, in milliseconds.
        now: the present, in seconds.
    """

    value: int

    def __init__(self, least: int, most: int, target_ms: float, now: float) -> None:
        self._set(max(most // 4, ENOUGH))
        self.configure(least, most, target_ms)
        self.usual = 0.0
        """Seconds that calls usually take, where the store is not the reason; 0: nothing is known."""
        self._began = now
        self._sum = 0.0
        self._count = 0
        self._peak = 0
        self._lag_sum = 0.0
        self._lag_count = 0
        self.rejected = 0
        """Calls shed since the limit was last adjusted."""

    def configure(self, least: int, most: int, target_ms: float) -> None:
        self._least, self._most, self._target = least, max(least, most), target_ms / 1000
        self._set(min(self._most, max(least, self._limit)))

    def sample(self, seconds: float, in_flight: int, now: float) -> None:
        """Learns from an answer of the store.

        Args:
            seconds: how long it took.
            in_flight: calls in progress when it came, this one included.
        """
        self._sum += seconds
        self._count += 1
        if in_flight > self._peak:
            self._peak = in_flight
        if now - self._began >= WINDOW_SECONDS:
            self._adjust(now)

    def sample_lag(self, seconds: float) -> None:
        """Learns from how long a call waited for the event loop."""
        self._lag_sum += seconds
        self._lag_count += 1

    def _adjust(self, now: float) -> None:
        lag = self._lag_sum / self._lag_count if self._lag_count else 0.0
        # The time spent waiting for the event loop is not the store's.
        took = max(0.0, self._sum / self._count - _LAGS_PER_ANSWER * lag)
        if not self.usual:
            # The first answers may be unusually slow.
            self.usual = min(took, self._target)
        if took < self.usual:
            self.usual += _DOWN * (took - self.usual)
        elif 2 * self._peak < self._limit or self._limit <= self._least:
            self.usual += _UP * (took - self.usual)
        excess = took / max(self._target, TOLERANCE * self.usual)
        if excess > 1:
            self._set(max(self._least, self._limit * max(0.5, 1 / excess)))
        elif LAG_SECONDS < lag < FOREIGN_SECONDS and self._limit >= (enough := self._enough):
            self._set(max(enough, self._limit * max(0.5, LAG_SECONDS / lag)))
        elif 2 * self._peak >= self._limit:
            # Only a limit that is used up shows that a larger one may be fine.
            self._set(min(self._most, self._limit + max(1.0, math.sqrt(self._limit))))
        self._began, self._sum, self._count, self._peak = now, 0.0, 0, 0
        self._lag_sum, self._lag_count, self.rejected = 0.0, 0, 0

    @property
    def _enough(self) -> int:
        """Down to where a lagging event loop may take the limit."""
        many = self.rejected > MANY * (self.rejected + self._count)
        return max(self._least, FEWEST if many else ENOUGH)

    def _set(self, limit: float) -> None:
        self._limit = float(limit)
        self.value = int(limit)
