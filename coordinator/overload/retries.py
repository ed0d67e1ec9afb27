"""The other side of shedding: callers that come back when they were told to, and not more often than that helps.

A caller that is turned away (kind ``shedding``), or that lost a race (kind ``transient``), repeats its call
unchanged after the time that the answer names, a little later at random so that callers who were turned away
together do not come back together. Where no time is named the pauses grow. What all callers of a process repeat
comes out of one ``Budget``: without it, the repetitions of many would keep busy whoever turned them away.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_before_delay,
    wait_random_exponential,
)

from coordinator.http_dates import unix_seconds

JITTER = 0.25
"""A caller comes back up to this share of the time that it was told later."""
RESERVE = 10.0
"""Retries that a budget has at first, and may save up."""


class Retryable(Exception):
    """A failed attempt that may succeed when it is repeated.

    Args:
        reason: a word or code, for people and counters.
        after: seconds that the refusing side asked to wait; 0 if it did not say.
    """

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after


def retryable(structured: Any) -> Retryable | None:
    """The failure that the structured content of a failed call tells of, if it is retryable; None: it is permanent."""
    error = structured.get("error") if isinstance(structured, Mapping) else None
    if not isinstance(error, Mapping) or error.get("kind") not in ("transient", "shedding"):
        return None
    after = error.get("retryAfterMs")
    seconds = after / 1000 if isinstance(after, int | float) and not isinstance(after, bool) else 0.0
    return Retryable(str(error.get("code")), seconds if 0 < seconds < math.inf else 0.0)


def retry_after(value: str | None, now: float) -> float:
    """Seconds that a ``Retry-After`` header asks to wait: it says so in seconds or as a date (RFC 9110); else 0.

    Args:
        now: seconds since 1970.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), 86_400))
    try:
        return min(max(0.0, unix_seconds(text) - now), 86_400.0)
    except (ValueError, OverflowError):
        return 0.0


class Budget:
    """Limits repeated attempts, so that many callers do not add to what made the first one fail.

    A token bucket: each call adds a fraction of a retry, time adds some more, and it holds ``most``. A retry
    that finds it empty waits; so in any time there are no more than ``most + per_call * calls + per_second *
    seconds`` of them.

    Args:
        clock: the present, in seconds; monotonic.
        per_second: retries that time earns; above 0.
        per_call: retries that a call earns.
        most: retries to begin with, and to save up.
    """

    def __init__(
        self, clock: Callable[[], float], per_second: float, per_call: float = 0.2, most: float = RESERVE
    ) -> None:
        self._clock = clock
        self._per_second = per_second
        self._per_call = per_call
        self._most = most
        self._tokens = most
        self._looked = clock()

    def call(self) -> None:
        """A call is made, for the first time."""
        self._tokens = min(self._most, self._tokens + self._per_call)

    def retry(self, within: float = math.inf) -> float:
        """Takes a retry; returns the seconds until it is covered.

        Args:
            within: if that takes longer, nothing is taken and the answer is infinite: the caller gives up.
        """
        now = self._clock()
        self._tokens = min(self._most, self._tokens + (now - self._looked) * self._per_second)
        self._looked = now
        wait = max(0.0, (1 - self._tokens) / self._per_second)
        if wait > within:
            return math.inf
        self._tokens -= 1
        return wait


class RetryPolicy:
    """How a process repeats calls: tenacity's exponential backoff, within a budget.

    Args:
        budget: shared by all calls to one fleet or server.
        seconds: how long one call is repeated. The next attempt begins within it or not at all.
        noted: told of every retryable failure.
    """

    def __init__(
        self, budget: Budget, seconds: float, noted: Callable[[Retryable], None] = lambda failure: None
    ) -> None:
        self._budget = budget
        self._seconds = seconds
        self._noted = noted
        self._backoff = wait_random_exponential(multiplier=0.05, max=2.0)

    def retrying(self) -> AsyncRetrying:
        """For one call: ``await policy.retrying()(attempt, ...)``.

        An attempt that may be repeated raises ``Retryable``, and so does the whole when it is not repeated any more.
        """
        self._budget.call()
        return AsyncRetrying(
            retry=retry_if_exception_type(Retryable),
            wait=self._wait,
            stop=stop_before_delay(self._seconds),
            reraise=True,
        )

    def _wait(self, state: RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome is not None else None
        asked = 0.0
        if isinstance(failure, Retryable):
            self._noted(failure)
            asked = failure.after * random.uniform(1.0, 1.0 + JITTER)
        pause = max(asked, self._backoff(state))
        left = self._seconds - (state.seconds_since_start or 0.0) - pause
        return pause + self._budget.retry(left) if left > 0 else math.inf
