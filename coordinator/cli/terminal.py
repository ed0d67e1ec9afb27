"""Helpers of commands that print for a person at a terminal."""

from __future__ import annotations

import getpass
from typing import Any

import msgspec

absent: set[str] = set()
"""Those of stdin, stdout and stderr that this process was started without."""


def printable(text: str) -> str:
    """Text of callers, tools and servers for a terminal: nothing in it can move the cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Such as ``1 worker`` or ``2 workers``; ``plural`` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def print_json(value: Any) -> None:
    """Prints a value as indented JSON."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def operator() -> str:
    """Who is at the terminal, for the record."""
    try:
        return f"operator {getpass.getuser()}"
    except (OSError, KeyError):
        return "operator"
