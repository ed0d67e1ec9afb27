"""Finds the names in lines of Lua, and substitutes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_TOKEN = re.compile(r"""--.*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*""")
KNOWN_LINES = 20_000
"""For how many lines the names found are cached."""


def substitute(line: str, values: Mapping[str, str]) -> str:
    """The line with names replaced by their values, except in comments, strings and field names."""
    if values.keys().isdisjoint(words(line)):
        return line
    parts: list[str] = []
    done = 0
    for start, end, name in _names(line):
        if name in values:
            parts += (line[done:start], values[name])
            done = end
    return "".join((*parts, line[done:]))


@lru_cache(KNOWN_LINES)
def words(line: str) -> frozenset[str]:
    """The names in a line; field names are left out."""
    return frozenset(name for _, _, name in _names(line))


# Cached because scripts share most of their lines (those of includes), and each line is looked at several times.
@lru_cache(KNOWN_LINES)
def _names(line: str) -> tuple[tuple[int, int, str], ...]:
    """The names in a line with their places; field names are left out."""
    found: list[tuple[int, int, str]] = []
    for match in _TOKEN.finditer(line):
        word, start = match[0], match.start()
        before = line[:start].rstrip() if start and line[start - 1] in ":. " else ""
        field = before.endswith(":") or (before.endswith(".") and not before.endswith(".."))
        if (word[0].isalpha() or word[0] == "_") and not field:
            found.append((start, match.end(), word))
    return tuple(found)
