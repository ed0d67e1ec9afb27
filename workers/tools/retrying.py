"""Retries calls of tools that were shed, before the step's attempt fails.

Only calls that had no effect are retried: the other side shed them, or they lost a race there. For other
failures the step's retry policy decides. All calls to one server share a budget, so that retries do not worsen its
overload. A step that would have to wait too long fails, and its failure says when to retry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from coordinator.client.retries import Budget, Retryable, RetryPolicy
from coordinator.steps.model import Failure, Outcome

SECONDS = 20.0
"""How long a call is retried; the step's own timeout may end it before."""
PER_CALL, PER_SECOND = 0.1, 0.5
"""How many retries each call, and each second, adds to the budget."""


class RetryableFailure(Retryable):
    """A call had no effect, and the same call may succeed later."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.type, failure.after_ms / 1000)
        self.failure = failure


class Retrying:
    def __init__(self) -> None:
        self._policy = RetryPolicy(Budget(monotonic, PER_SECOND, PER_CALL), SECONDS)

    async def __call__(self, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Calls ``attempt`` until it does not raise ``RetryableFailure``, as long as budget and time allow."""
        try:
            outcome: Outcome = await self._policy.retrying()(attempt)
        except RetryableFailure as last:
            return last.failure
        return outcome
