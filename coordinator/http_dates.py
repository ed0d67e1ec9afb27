"""Dates in HTTP headers, in the three forms that HTTP has (RFC 9110, 5.6.7)."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def unix_seconds(text: str) -> float:
    """The moment that a date names.

    Raises:
        ValueError, OverflowError: it names none.
    """
    date = parsedate_to_datetime(text)
    # The oldest form names no zone, and means the same as the others.
    return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
