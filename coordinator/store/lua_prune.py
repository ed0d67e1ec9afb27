"""Removes the included functions and constants that a flattened script never uses.

Includes are written for readers, and a script needs only a few functions of each. Without pruning, the server would
hold all of them once per script, and Lua allows at most 200 local names in one place.

A removable declaration begins in the first column of an included file: ``local function name`` up to its ``end`` in the
first column, or ``local NAME = ...`` up to a closing bracket there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from coordinator.store import lua_names

_FUNCTION = re.compile(r"local function ([A-Za-z_]\w*)")
_VALUES = re.compile(r"local ([A-Za-z_]\w*(?:, *[A-Za-z_]\w*)*) *(?:=|--|$)")


class Piece(NamedTuple):
    """A part of a script that is kept or left out as a whole."""

    names: tuple[str, ...]
    """The names that it declares; empty: it is always kept."""
    span: range
    """Its lines."""


def prune(lines: Sequence[str], prunable: Sequence[bool]) -> list[int]:
    """The indices of the lines to keep; ``prunable`` says which lines come from includes."""
    found = pieces(lines, prunable)
    owners: dict[str, list[int]] = {}
    needed: set[int] = set()
    for number, piece in enumerate(found):
        for name in piece.names:
            owners.setdefault(name, []).append(number)
        if not piece.names:
            needed.add(number)
    waiting = list(needed)
    while waiting:
        for word in set().union(*(lua_names.words(lines[at]) for at in found[waiting.pop()].span)):
            for number in owners.get(word, ()):
                if number not in needed:
                    needed.add(number)
                    waiting.append(number)
    return [at for number in sorted(needed) for at in found[number].span]


def pieces(lines: Sequence[str], prunable: Sequence[bool]) -> list[Piece]:
    """The text in pieces, in order."""
    found: list[Piece] = []
    at = staying = 0
    while at < len(lines):
        names, end = _declaration(lines, at) if prunable[at] else ((), at + 1)
        if names:
            if staying < at:
                found.append(Piece((), range(staying, at)))
            found.append(Piece(names, range(at, end)))
            staying = end
        at = end
    if staying < at:
        found.append(Piece((), range(staying, at)))
    return found


@lru_cache(lua_names.KNOWN_LINES)
def _declared(line: str) -> tuple[str, ...]:
    """The names that a line declares for the whole file."""
    if function := _FUNCTION.match(line):
        return (function[1],)
    if values := _VALUES.match(line):
        return tuple(name.strip() for name in values[1].split(","))
    return ()


def _declaration(lines: Sequence[str], at: int) -> tuple[tuple[str, ...], int]:
    line, names = lines[at], _declared(lines[at])
    if _FUNCTION.match(line):
        return names, at + 1 if _ends(line) else _end(lines, at, "end")
    return names, _end(lines, at, "}") if names and line.rstrip().endswith("{") else at + 1


def _ends(line: str) -> bool:
    """Whether a function that begins in the line ends there too."""
    return line.split("--", 1)[0].rstrip().endswith(" end")


def _end(lines: Sequence[str], at: int, closing: str) -> int:
    for end in range(at + 1, len(lines)):
        if lines[end].rstrip() == closing:
            return end + 1
    return len(lines)
