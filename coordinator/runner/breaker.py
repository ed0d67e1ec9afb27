"""Pauses claiming when attempts fail in a row, or the provider refuses; then tries one item before the rest."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf

from coordinator.backoff import Backoff
from coordinator.runner.outcomes import STOPPING, Outcome

FAILURES = 5
"""So many attempts in a row that did not succeed pause the runner; one refusal of the provider does."""
FIRST_SECONDS, MOST_SECONDS = 30.0, 900.0
_MOST_STATED = 6 * 3600.0
"""A longer time that a provider names is not believed at once: one item is tried then."""


class Breaker:
    """The breaker of one runner.

    Args:
        now: seconds of a clock that never goes back.
        jitter: from 0 to 1; makes pauses up to a tenth longer, so that runners do not come back together.
    """

    def __init__(self, now: Callable[[], float], jitter: Callable[[], float] = random.random) -> None:
        self._now = now
        self._jitter = jitter
        self._row = 0
        self._pauses = 0
        self._until = 0.0
        self._opened = self._lost = -inf
        """When the last pause began, and when a lost claim was counted last."""
        self._trying = False
        self.reason = ""
        """Why it is open; empty: it is not."""

    @property
    def open(self) -> bool:
        """Whether claiming is paused, or a single item is being tried."""
        return bool(self.reason)

    def wait(self) -> float:
        """Seconds until the next claim may be made; 0: now. While one item is being tried, this is for ever."""
        if not self.open:
            return 0.0
        if self._trying:
            return inf
        return max(self._until - self._now(), 0.0)

    def claiming(self) -> None:
        """A claim is about to be made: if the breaker is open, it is the one that is tried."""
        self._trying = self.open

    def idle(self) -> None:
        """The claim has found nothing, so nothing was tried."""
        self._trying = False

    def record(self, outcome: Outcome, began: float = inf) -> bool:
        """Takes the outcome of an attempt; True: this has opened the breaker, or kept it open.

        Args:
            began: when the attempt began; default: after the end of all others. Of several that ran side by side, all
                claims are lost at once, as when this process stands still: that counts as one. And a pause is doubled
                only by what began after it.
        """
        tried, self._trying = self._trying, False
        if outcome.kind == "later" and outcome.reason == STOPPING:
            return False
        if outcome.kind == "done":
            self._row = self._pauses = 0
            self._until, self.reason = 0.0, ""
            return False
        now = self._now()
        if outcome.kind == "lost":
            if began < self._lost:
                return self.open
            self._lost = now
        self._row += 1
        if not (outcome.pauses or self._row >= FAILURES or tried):
            return False
        stated = min(outcome.retry_after_seconds or 0.0, _MOST_STATED) if outcome.pauses else 0.0
        if self.open and began < self._opened:
            self._until = max(self._until, now + stated * (1 + self._jitter() / 10))
            return True
        pause = max(Backoff(FIRST_SECONDS, MOST_SECONDS, (1.0, 1.0)).after(self._pauses), stated)
        self._pauses += 1
        self._opened, self._until = now, now + pause * (1 + self._jitter() / 10)
        in_row = f"{self._row} attempts in a row did not succeed, the last one: " if self._row >= FAILURES else ""
        self.reason = f"{in_row}{outcome.reason}"
        return True
