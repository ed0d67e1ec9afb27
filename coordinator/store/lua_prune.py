"""Leaves out of a flattened script the included functions and constants that it never uses.

A script's text runs from the top at each call: every ``local function`` makes a closure and
every constant table is built anew, at a fraction of a microsecond each. Includes are written
to be read, so a script would pay for a whole file where it needs one function.

What can be left out begins in the first column of an included file: ``local function name``
up to its ``end`` in the first column, or ``local NAME = ...`` up to a closing bracket there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FUNCTION = re.compile(r"local function ([A-Za-z_]\w*)")
_VALUES = re.compile(r"local ([A-Za-z_]\w*(?:, *[A-Za-z_]\w*)*) *=")
_WORD = re.compile(r"[A-Za-z_]\w*")


def kept(lines: Sequence[str], prunable: Sequence[bool]) -> list[int]:
    """The indices of the lines to keep; ``prunable`` says which lines come from includes."""
    chunks = _chunks(lines, prunable)
    owners: dict[str, list[int]] = {}
    for number, (names, _) in enumerate(chunks):
        for name in names:
            owners.setdefault(name, []).append(number)
    needed = {number for number, (names, _) in enumerate(chunks) if not names}
    waiting = list(needed)
    while waiting:
        for word in _words(lines, chunks[waiting.pop()][1]):
            for number in owners.get(word, ()):
                if number not in needed:
                    needed.add(number)
                    waiting.append(number)
    return [at for number in sorted(needed) for at in chunks[number][1]]


def _words(lines: Sequence[str], span: range) -> set[str]:
    return {word for at in span for word in _WORD.findall(lines[at].split("--", 1)[0])}


def _chunks(lines: Sequence[str], prunable: Sequence[bool]) -> list[tuple[tuple[str, ...], range]]:
    """The text in pieces: (names it declares, lines); pieces that must stay declare none."""
    chunks: list[tuple[tuple[str, ...], range]] = []
    at = 0
    while at < len(lines):
        names, end = _declaration(lines, at) if prunable[at] else ((), at + 1)
        chunks.append((names, range(at, end)))
        at = end
    return chunks


def _declaration(lines: Sequence[str], at: int) -> tuple[tuple[str, ...], int]:
    line = lines[at]
    if function := _FUNCTION.match(line):
        return (function[1],), at + 1 if _closes(line, "end") else _end(lines, at, "end")
    if values := _VALUES.match(line):
        names = tuple(name.strip() for name in values[1].split(","))
        return names, _end(lines, at, "}") if line.rstrip().endswith("{") else at + 1
    return (), at + 1


def _closes(line: str, word: str) -> bool:
    return line.split("--", 1)[0].rstrip().endswith(f" {word}")


def _end(lines: Sequence[str], at: int, closing: str) -> int:
    for end in range(at + 1, len(lines)):
        if lines[end].rstrip() == closing:
            return end + 1
    return len(lines)
