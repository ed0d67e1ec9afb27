"""How numbers, times and texts of others are shown to people."""

from __future__ import annotations

import datetime as dt


def printable(text: str) -> str:
    """Untrusted text without control characters, safe for a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 worker``, ``2 workers``. ``plural`` is for irregular plurals."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def moment(ms: int) -> str:
    """A time in UTC, given in ms since 1970."""
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
