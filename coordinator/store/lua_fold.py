"""Puts the values of constants into the places of a flattened script that name them.

A script's text runs from the top at each call. A constant that functions use is captured by each of
them, every time; written into its place, it costs nothing. What counts as one: ``local NAME = value``
or ``local A, B = 1, 2`` in the first column, names in capitals, values plain numbers or strings, and the
name is used for nothing else. The names of keys are put in place in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

_TOKEN = re.compile(r"""--.*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*""")
_DECLARATION = re.compile(r"local ([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = ([^-].*?|-\d.*?)\s*(?:--.*)?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?: ?[-+*^] ?\d+)*")
_STRING = re.compile(r"'[^'\\,]*'|\"[^\"\\,]*\"")
_BINDING = re.compile(r"\bfunction\b[^(]*\(([^)]*)\)|\blocal (?!function)([^=]*)|\bfor (.*?) (?:in|=) ")
_OTHER_USE = re.compile(r"=(?!=)|[:[]|\.(?!\.)")
_PLAIN = re.compile(r"\d+|'.*'|\".*\"")
KNOWN_LINES = 20_000


def constants(lines: Sequence[str]) -> tuple[list[str], list[int]]:
    """The lines with every constant in its places, and the indices of those that are left.

    A name that is declared again means the latter from there on, as in Lua.
    """
    declared = {at: found for at, line in enumerate(lines) if (found := _declared(line))}
    other = _used_otherwise(lines, declared)
    text: list[str] = []
    kept: list[int] = []
    known: dict[str, str] = {}
    for at, line in enumerate(lines):
        found = declared.get(at, {})
        if found and not other & found.keys():
            known.update(found)
        else:
            text.append(put(line, known))
            kept.append(at)
    return text, kept


def put(line: str, values: Mapping[str, str]) -> str:
    """A line of Lua with names replaced by what they stand for, but in comments, strings and field names."""
    if values.keys().isdisjoint(words(line)):
        return line
    made: list[str] = []
    done = 0
    for start, end, name in names(line):
        if name in values:
            made += (line[done:start], values[name])
            done = end
    return "".join((*made, line[done:]))


# Scripts have most of their lines, those of includes, in common, and each is looked at several times.
@lru_cache(KNOWN_LINES)
def names(line: str) -> tuple[tuple[int, int, str], ...]:
    """The names in a line of Lua with their places; field names are left out."""
    found: list[tuple[int, int, str]] = []
    for match in _TOKEN.finditer(line):
        word, start = match[0], match.start()
        before = line[:start].rstrip() if start and line[start - 1] in ":. " else ""
        field = before.endswith(":") or (before.endswith(".") and not before.endswith(".."))
        if (word[0].isalpha() or word[0] == "_") and not field:
            found.append((start, match.end(), word))
    return tuple(found)


@lru_cache(KNOWN_LINES)
def words(line: str) -> frozenset[str]:
    """The names in a line of Lua; field names are left out."""
    return frozenset(name for _, _, name in names(line))


def bound_names(lines: Iterable[str]) -> Iterator[str]:
    """Names of variables and parameters, each time that one is bound; those of functions are left out."""
    for line in lines:
        yield from _bound(line)


@lru_cache(KNOWN_LINES)
def _bound(line: str) -> tuple[str, ...]:
    bindings = [binding[1] or binding[2] or binding[3] or "" for binding in _BINDING.finditer(line)]
    return tuple(name for binding in bindings for name in re.findall(r"\w+", binding))


def _declared(line: str) -> dict[str, str]:
    """The constants that a line declares, each with its value as it can stand in any place."""
    match = _DECLARATION.fullmatch(line)
    if match is None:
        return {}
    found, values = match[1].split(", "), [value.strip() for value in match[2].split(",")]
    if len(found) != len(values) or not all(_NUMBER.fullmatch(v) or _STRING.fullmatch(v) for v in values):
        return {}
    return {name: v if _PLAIN.fullmatch(v) else f"({v})" for name, v in zip(found, values, strict=True)}


def _used_otherwise(lines: Sequence[str], declared: Mapping[int, Mapping[str, str]]) -> set[str]:
    """Names of constants that are assigned to, or mean something else somewhere."""
    others = [line for at, line in enumerate(lines) if at not in declared]
    other = set(bound_names(others))
    for line in others:
        other |= _assigned(line)
    return other


@lru_cache(KNOWN_LINES)
def _assigned(line: str) -> frozenset[str]:
    """Names in a line that it assigns to, or uses as a table."""
    return frozenset(name for _, end, name in names(line) if _OTHER_USE.match(line[end:].lstrip()))
