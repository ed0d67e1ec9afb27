"""Makes failures of executors, one function for each error class; the class decides about retries (``Job.retries``)."""

from __future__ import annotations

from coordinator.steps.model import Failure

LONGEST = 2_000
"""Most characters of a message that are kept."""


def timeout(message: str) -> Failure:
    """The call took too long."""
    return Failure(message[:LONGEST], "timeout")


def transient(message: str, after_ms: int) -> Failure:
    """The call failed, and may succeed the next time."""
    return Failure(message[:LONGEST], "transient_error", after_ms=after_ms)


def rate_limited(message: str, after_ms: int) -> Failure:
    """The other side limits the rate of calls."""
    return Failure(message[:LONGEST], "rate_limited", after_ms=after_ms)


def unreachable(message: str) -> Failure:
    """The other side cannot be reached."""
    return Failure(message[:LONGEST], "connection_error")


def permanent(message: str) -> Failure:
    """The call failed, and a retry would fail, too."""
    return Failure(message[:LONGEST], "permanent_error")
