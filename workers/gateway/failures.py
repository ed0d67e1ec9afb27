"""Makes failures of executors, one function for each error class; the class decides about retries (``Job.retries``)."""

from __future__ import annotations

from coordinator.steps.model import STATE_LOST, Failure, Outcome

_BROKEN = ("timeout", "transient_error", "rate_limited", "connection_error")
LONGEST = 2_000
"""Most characters of a message that are kept."""


def timeout(message: str) -> Failure:
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


def state_lost(message: str) -> Failure:
    """What the owner of a state has done so far is gone, so the call was not made. No policy retries that."""
    return Failure(message[:LONGEST], STATE_LOST, retryable=False)


def permanent(message: str) -> Failure:
    """The call failed, and a retry would fail, too."""
    return Failure(message[:LONGEST], "permanent_error")


class Misconfigured(Failure, frozen=True):
    """No call of a connection can succeed as it is configured."""


def misconfigured(message: str) -> Failure:
    """The same as ``permanent``, for every call of the connection."""
    return Misconfigured(message[:LONGEST], "permanent_error")


def problem_of(outcome: Outcome) -> str:
    """Why a connection does not work, by the outcome of a call; empty: it does, or the call says nothing about it."""
    if isinstance(outcome, Failure) and (outcome.type in _BROKEN or isinstance(outcome, Misconfigured)):
        return outcome.message
    return ""
