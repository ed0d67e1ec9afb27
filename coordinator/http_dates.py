"""Dates in HTTP headers, in the three forms that HTTP has (RFC 9110, 5.6.7)."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def unix_seconds(text: str) -> float:
    """Converts a date to Unix time.

    Raises:
        ValueError, OverflowError: the text is not a date.
    """
    date = parsedate_to_datetime(text)
    # The asctime form has no time zone; like the others it is UTC.
    return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
