"""TOON, read as forgivingly as real files need it, and written.

A file that breaks a rule of the notation is read all the same where what it means is clear;
each such rule is told as a note. Both ends use the package ``toon-format``.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import toon_format
from toon_format import ToonDecodeError

_INDENTED = "unexpected indentation"
_BRACKETS = re.compile(r"^\s*(?:- )?(?P<key>[\w.$\"-]+): \[\]\s*$")


class Note(NamedTuple):
    """Something odd that did not stop the reading."""

    line: int | None
    """From 1; None where it concerns no single line."""
    message: str


class Document(NamedTuple):
    """What a file says."""

    data: Any
    notes: tuple[Note, ...]


class Unreadable(Exception):
    """A text that cannot be read as TOON.

    Args:
        line: from 1, where known.
    """

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def read(text: str) -> Document:
    """Decodes a text.

    Strictly first; else without the checks on lengths, repeated keys (the last one counts)
    and blank lines; else only what stands before a line that is indented without reason.

    Raises:
        Unreadable: none of these gives anything.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    notes = tuple(_written_as_yaml(text))
    try:
        return Document(toon_format.loads(text), notes)
    except (ToonDecodeError, RecursionError) as error:
        strict = _described(error)
    try:
        return Document(toon_format.loads(text, strict=False), (*notes, _forgiven(strict)))
    except (ToonDecodeError, RecursionError) as error:
        loose = _described(error)
    if loose.line is None or loose.line < 2 or _INDENTED not in loose.message.lower():
        raise Unreadable(loose.line, loose.message)
    lines = text.split("\n")
    try:
        data = toon_format.loads("\n".join(lines[: loose.line - 1]), strict=False)
    except (ToonDecodeError, RecursionError):
        raise Unreadable(loose.line, loose.message) from None
    rest = sum(bool(line.strip()) for line in lines[loose.line - 1 :])
    cut = Note(loose.line, f"{loose.message}; not read from here on ({rest} lines)")
    return Document(data, (*(note for note in notes if (note.line or 0) < loose.line), cut))


def write(value: Any) -> str:
    """The value as TOON; None becomes ``null``. Without a line break at the end.

    Raises:
        TypeError: a value of a type that JSON does not know.
    """
    return toon_format.dumps(value)


def _described(error: Exception) -> Note:
    if isinstance(error, ToonDecodeError):
        return Note(error.line, error.msg)
    return Note(None, "nested too deeply")


def _forgiven(strict: Note) -> Note:
    last = "; the last one counts" if "uplicate key" in strict.message else "; read without this check"
    return Note(strict.line, strict.message + last)


def _written_as_yaml(text: str) -> list[Note]:
    """Lists that other readers of TOON take for text."""
    found = []
    if ": []" in text:
        for number, line in enumerate(text.split("\n"), 1):
            if match := _BRACKETS.match(line):
                found.append(
                    Note(number, f"{match['key']}: [] is not TOON's way to write it, but read as an empty list")
                )
    return found
