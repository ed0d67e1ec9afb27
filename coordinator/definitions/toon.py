"""Reads and writes TOON, with the package ``toon-format``.

Real files often break a rule of the notation. They are still read if their meaning is clear, and each broken rule is
reported as a note.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import toon_format
from toon_format import ToonDecodeError

_INDENTED = "unexpected indentation"
# ToonDecodeError is a ValueError. Python raises a plain one for a length with thousands of digits.
_FAILURES = (ValueError, RecursionError)
_LONG_LENGTH = re.compile(r"\[\d{4301}")
_BRACKETS = re.compile(r"^\s*(?:- )?(?P<key>[\w.$\"-]+): \[\]\s*$")


class Note(NamedTuple):
    """A broken rule that did not prevent reading."""

    line: int | None
    """From 1; None if it does not concern a single line."""
    message: str


class Document(NamedTuple):
    """The content of a file, and notes on it."""

    data: Any
    notes: tuple[Note, ...]


class Unreadable(Exception):
    """A text that cannot be read as TOON.

    Args:
        line: from 1; None if unknown.
    """

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def read(text: str) -> Document:
    """Decodes a text.

    The text is first read strictly. If that fails, it is read without the checks of lengths, of repeated
    keys (the last one counts) and of blank lines. If that fails because of a line that must not be indented,
    only the lines before it are read.

    Raises:
        Unreadable: all of these failed.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    notes = tuple(_written_as_yaml(text))
    try:
        return Document(toon_format.loads(text), notes)
    except _FAILURES as error:
        strict = _described(error, text)
    try:
        return Document(toon_format.loads(text, strict=False), (*notes, _forgiven(strict)))
    except _FAILURES as error:
        loose = _described(error, text)
    if loose.line is None or loose.line < 2 or _INDENTED not in loose.message.lower():
        raise Unreadable(loose.line, loose.message)
    lines = text.split("\n")
    try:
        data = toon_format.loads("\n".join(lines[: loose.line - 1]), strict=False)
    except _FAILURES:
        raise Unreadable(loose.line, loose.message) from None
    rest = sum(bool(line.strip()) for line in lines[loose.line - 1 :])
    cut = Note(loose.line, f"{loose.message}; the rest ({rest} lines) is ignored")
    return Document(data, (*(note for note in notes if (note.line or 0) < loose.line), cut))


def write(value: Any) -> str:
    """Writes a value as TOON that readers of every revision understand. There is no line break at the end.

    Tables have scalar values only, and an empty list is ``key[0]:``, as in revision 2 of the notation. The package
    itself writes shorter forms of a later revision, which agents and servers that know these tools may not read.

    Raises:
        TypeError: the value has a type that JSON does not have.
    """
    if isinstance(value, dict):
        return "\n".join(_fields(value))
    if isinstance(value, list | tuple):
        return "\n".join(_array("", list(value)))
    return toon_format.dumps(value)


def _fields(value: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, inner in value.items():
        if isinstance(inner, dict):
            lines += [f"{_key(key)}:", *_indented(_fields(inner))]
        elif isinstance(inner, list | tuple):
            lines += _array(_key(key), list(inner))
        else:
            lines.append(toon_format.dumps({key: inner}))
    return lines


def _array(key: str, value: list[Any], tables: bool = True) -> list[str]:
    """The lines of a list: a single line, a table, or an item for each entry."""
    head = f"{key}[{len(value)}]"
    if all(map(_plain, value)):
        return [f"{head}: {_row(value)}" if value else f"{head}:"]
    columns = list(value[0]) if tables and isinstance(value[0], dict) else []
    if columns and all(
        isinstance(entry, dict) and entry.keys() == value[0].keys() and all(map(_plain, entry.values()))
        for entry in value
    ):
        rows = [_row([entry[column] for column in columns]) for entry in value]
        return [f"{head}{{{','.join(map(_key, columns))}}}:", *_indented(rows)]
    return [f"{head}:", *_indented([line for entry in value for line in _item(entry)])]


def _item(value: Any) -> list[str]:
    """The lines of a list entry, which begins with a hyphen."""
    if _plain(value):
        return [f"- {toon_format.dumps(value)}"]
    if not isinstance(value, dict):
        # A list inside a list has no key, and a table needs one.
        head, *rest = _array("", list(value), tables=False)
        return [f"- {head}", *rest]
    if not value:
        return ["-"]
    head, *rest = _fields(value)
    return [f"- {head}", *_indented(rest)]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _row(values: list[Any]) -> str:
    """Scalar values, separated by commas."""
    return toon_format.dumps(values).partition("]: ")[2] if values else ""


def _key(key: str) -> str:
    return toon_format.dumps({key: 0})[: -len(": 0")]


def _plain(value: Any) -> bool:
    return not isinstance(value, dict | list | tuple)


def _described(error: Exception, text: str) -> Note:
    if isinstance(error, ToonDecodeError):
        return Note(error.line, error.msg)
    if isinstance(error, RecursionError):
        return Note(None, "nested too deeply")
    found = _LONG_LENGTH.search(text)
    return Note(None if found is None else text.count("\n", 0, found.start()) + 1, "a length has too many digits")


def _forgiven(strict: Note) -> Note:
    last = "; the last one counts" if "uplicate key" in strict.message else "; read without this check"
    return Note(strict.line, strict.message + last)


def _written_as_yaml(text: str) -> list[Note]:
    """Notes on empty lists that are written as in YAML, which other readers of TOON take for text."""
    found = []
    if ": []" in text:
        for number, line in enumerate(text.split("\n"), 1):
            if match := _BRACKETS.match(line):
                found.append(Note(number, f"{match['key']}: [] is not TOON, but read as an empty list"))
    return found
