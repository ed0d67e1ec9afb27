"""The callers' side of shedding: when to retry a call, and how often.

A caller whose call was shed (kind ``shedding``) or that lost a race (kind ``transient``) repeats its call unchanged.
It waits for as long as the answer says, plus a random part, so that callers shed together do not retry together. If
the answer names no time, the pauses grow. All retries of a process come out of one ``Budget``; without it, the retries
alone could keep the server overloaded.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_before_delay, wait_random_exponential

from coordinator.http_dates import unix_seconds

T = TypeVar("T")
JITTER = 0.25
"""The random part of a pause: up to this share of the time that the answer named."""
RESERVE = 10.0
"""How many retries a budget has at first, and can save up."""
_UNCERTAIN = "store_unavailable"
"""The code of calls that are shed, and may have been carried out all the same."""


class Retryable(Exception):
    """A failed attempt that may succeed when it is repeated.

    Args:
        reason: a word or code, for people and counters.
        after: seconds that the refusing side asked to wait; 0 if it did not say.
        free: whether the attempt was no load for the other side, so that its repetition takes nothing of the budget.
        why: a sentence, for people.
        refused: whether nothing was done for it; else it may have been carried out.
    """

    def __init__(
        self, reason: str, after: float = 0.0, free: bool = False, why: str = "", refused: bool = False
    ) -> None:
        super().__init__(f"{reason}: {why}" if why else reason)
        self.reason = reason
        self.after = after
        self.free = free
        self.refused = refused


def retryable(structured: Any) -> Retryable | None:
    """The failure described by a failed call's structured content, if it is retryable; None: it is permanent."""
    error = structured.get("error") if isinstance(structured, Mapping) else None
    if not isinstance(error, Mapping) or error.get("kind") not in ("transient", "shedding"):
        return None
    after = error.get("retryAfterMs")
    seconds = after / 1000 if isinstance(after, int | float) and not isinstance(after, bool) else 0.0
    why = error.get("message")
    return Retryable(
        str(error.get("code")),
        seconds if 0 < seconds < math.inf else 0.0,
        why=why if isinstance(why, str) else "",
        refused=error["kind"] == "shedding" and error.get("code") != _UNCERTAIN,
    )


def retry_after(value: str | None, now: float) -> float:
    """The seconds that a ``Retry-After`` header asks to wait, given in seconds or as a date (RFC 9110); else 0."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), 86_400))
    try:
        return min(max(0.0, unix_seconds(text) - now), 86_400.0)
    except (ValueError, OverflowError):
        return 0.0


class Budget:
    """Limits retries, so that they do not prolong the overload that made calls fail.

    A token bucket of retries: each call adds a fraction of one, each second adds ``per_second``, and it holds ``most``.
    A retry that finds it empty waits. So there are never more than ``most + per_call * calls + per_second * seconds``
    retries.

    Args:
        clock: monotonic, in seconds.
        per_second: retries added each second; above 0.
        per_call: retries added by each call.
        most: retries at first, and at most.
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
        """A call is made for the first time."""
        if self._tokens < self._most:
            self._tokens = min(self._most, self._tokens + self._per_call)

    def retry(self, within: float = math.inf) -> float:
        """Takes a retry; returns the seconds until it is covered.

        Args:
            within: if it takes longer, nothing is taken and the answer is infinite: the caller has to give up.
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
    """How a process retries calls: tenacity's exponential backoff, within a budget.

    Args:
        budget: shared by all calls to one fleet or server.
        seconds: how long one call is repeated. The next attempt begins within it or not at all.
        noted: called with every retryable failure.
    """

    def __init__(
        self, budget: Budget, seconds: float, noted: Callable[[Retryable], None] = lambda failure: None
    ) -> None:
        self._budget = budget
        self.succeeded = budget.call
        """To be called when a call has succeeded at its first attempt."""
        self._seconds = seconds
        self._noted = noted
        self._backoff = wait_random_exponential(multiplier=0.05, max=2.0)

    async def go_on(self, failure: Retryable, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of an attempt, repeated as ``retrying`` says after a first one that has failed."""
        failures = [failure]

        async def again() -> T:
            if failures:
                raise failures.pop()
            return await attempt()

        return await self.retrying()(again)

    def retrying(self) -> AsyncRetrying:
        """For one call: ``await policy.retrying()(attempt, ...)``.

        An attempt raises ``Retryable`` if it may be repeated. The whole raises the last one when time is up.
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
        least = 0.0
        if isinstance(failure, Retryable):
            self._noted(failure)
            least = failure.after * random.uniform(1.0, 1.0 + JITTER)
        pause = max(least, self._backoff(state))
        if isinstance(failure, Retryable) and failure.free:
            return pause
        return pause + self._budget.retry(within=self._seconds - (state.seconds_since_start or 0.0) - pause)
