"""Converts the times that callers give (ISO-8601) into the store's milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from coordinator.errors import invalid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


SAID = "must be an ISO-8601 time with a zone, for example 2026-01-01T12:00:00Z"


def instant(text: str, field: str, *, up: bool = False, said: str = SAID) -> int:
    """Milliseconds since 1970 of an ISO-8601 time with a zone; fractions are cut off, or rounded ``up``.

    Args:
        said: what a refusal says is allowed.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field, for anything else.
    """
    try:
        moment: datetime | None = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise invalid(field, said)
    ms, rest = divmod(moment - _EPOCH, timedelta(milliseconds=1))
    return ms + (up and bool(rest))


def interval(after: str | None, before: str | None, name: str) -> tuple[int | None, int | None]:
    """The bounds ``<name>After`` and ``<name>Before`` in ms, inclusive; None if a bound is blank or absent.

    Raises:
        ToolFailure: VALIDATION_ERROR for a malformed time or an empty range.
    """
    low = instant(text, f"{name}After", up=True) if (text := (after or "").strip()) else None
    high = instant(text, f"{name}Before") if (text := (before or "").strip()) else None
    if low is not None and high is not None and low > high:
        raise invalid(f"{name}After", f"must not be later than {name}Before")
    return low, high
