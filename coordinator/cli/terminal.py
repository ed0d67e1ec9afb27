"""Helpers of commands that print for a person at a terminal."""

from __future__ import annotations

import getpass
from typing import Any

import msgspec

absent: set[str] = set()
"""Which of stdin, stdout and stderr were closed when this process started."""


def printable(text: str) -> str:
    """Text from outside, made safe for a terminal: without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 worker``, ``2 workers``. ``plural`` is needed if the plural is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def print_json(value: Any) -> None:
    """Prints a value as indented JSON."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def operator() -> str:
    """The user at the terminal, for the record."""
    try:
        return f"operator {getpass.getuser()}"
    except (OSError, KeyError):
        return "operator"
