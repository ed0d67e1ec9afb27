"""Failures of executors by class."""

from __future__ import annotations

from coordinator.steps.model import Failure

LONGEST = 2_000


def timeout(message: str) -> Failure:
    """It took too long."""
    return Failure(message[:LONGEST], "timeout")


def transient(message: str, after_ms: int = 0) -> Failure:
    """It may work the next time."""
    return Failure(message[:LONGEST], "transient_error", after_ms=after_ms)


def rate_limited(message: str, after_ms: int = 0) -> Failure:
    """It is asked too often."""
    return Failure(message[:LONGEST], "rate_limited", after_ms=after_ms)


def unreachable(message: str) -> Failure:
    """Nobody answers."""
    return Failure(message[:LONGEST], "connection_error")


def permanent(message: str) -> Failure:
    """It will not work."""
    return Failure(message[:LONGEST], "permanent_error", retryable=False)
