"""Helpers of commands that print for a person at a terminal."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

absent: set[str] = set()
"""Which of stdin, stdout and stderr were closed when this process started."""

say = partial(print, flush=True)
"""Prints a line at once, for a person who waits."""


def print_json(value: Any, indent: int = 2) -> None:
    """Prints a value as JSON; indent -1: on one line.

    Control and invisible characters are escaped, and those that the encoding of the output does not have.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    encoding = sys.stdout.encoding or "utf-8"
    taken = text.encode(encoding, "replace").decode(encoding)
    escaped = (
        char if char == "\n" or (char == other and char.isprintable()) else json.dumps(char)[1:-1]
        for char, other in zip(text, taken, strict=True)
    )
    print("".join(escaped))


def print_as(value: Any, lines: Iterable[str], as_json: bool) -> None:
    """Prints a value as JSON, or what it says to people, line by line."""
    if as_json:
        print_json(value)
        return
    for line in lines:
        print(line)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Lines with the cells of rows below each other.

    Args:
        right: the columns whose cells end below each other; those of the others begin there.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        pairs = enumerate(zip(row, widths, strict=True))
        yield "  ".join(cell.rjust(width) if n in right else cell.ljust(width) for n, (cell, width) in pairs).rstrip()


def operator() -> str:
    """The user at the terminal, for the record."""
    name = user()
    return f"operator {name}" if name else "operator"


def user() -> str:
    """The name of the user at the terminal; empty if it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
