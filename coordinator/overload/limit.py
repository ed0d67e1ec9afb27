"""How many calls may be at work in the store at once: a limit that follows how long the store takes."""

from __future__ import annotations

import math

WINDOW_SECONDS = 0.1
"""The limit is thought over this often."""
TOLERANCE = 2.0
"""How much longer than usual the store may take before that counts as congestion."""
_DOWN, _UP = 0.2, 0.002
"""How fast the idea of what is usual follows: at once when the store is quicker, within minutes when it is slower."""
LAG_SECONDS = 0.001
"""How long a call may wait for its turn in this process before fewer are let in."""
_TURNS = 4
"""Waits of that length in what an answer of the store takes: to be sent, to be read and to be acted on, at most."""
FOREIGN_SECONDS = 0.012
"""Waits that are longer than ``ENOUGH`` calls make: calls that are turned away, or other processes, take the CPU."""
ENOUGH = 64
"""Calls that a process has at work at once without any of them getting late."""
FEWEST = 16
"""Calls that keep a process and its store busy. No more of them while many others are turned away: those are told so
by the same event loop, and soon."""
MANY = 0.1
"""Share of the calls that have to be turned away for an overload; fewer is a burst."""


class AdaptiveLimit:
    """A concurrency limit by gradient: shrinks while answers take longer than they should, else grows.

    What they should take is the larger of ``target_ms`` and twice what is usual. Times below the
    target are left to the store: it is busy, and a shorter queue would not make it faster. It shrinks
    also while calls wait too long for their turn in this process: then its own CPU is what they share. Where
    they wait longer than that many calls explain, others have the CPU, and it takes more calls to make use of
    what is left.

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
        self._lags = 0.0
        self._turns = 0
        self.turned_away = 0
        """Calls that were not let in since this was last thought over."""

    @property
    def usual_ms(self) -> float:
        """What the store takes usually, in milliseconds."""
        return self._usual * 1000

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
            self._think(now)

    def turn(self, lag: float) -> None:
        """Learns from a call that waited so many seconds for its turn in this process."""
        self._lags += lag
        self._turns += 1

    def _think(self, now: float) -> None:
        lag = self._lags / self._turns if self._turns else 0.0
        # What was waited for in this process is not the store's doing.
        took = max(0.0, self._sum / self._count - _TURNS * lag)
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
        self._lags, self._turns, self.turned_away = 0.0, 0, 0

    @property
    def _enough(self) -> int:
        many = self.turned_away > MANY * (self.turned_away + self._count)
        return max(self._least, FEWEST if many else ENOUGH)

    def _set(self, limit: float) -> None:
        self._limit = float(limit)
        self.value = int(limit)
