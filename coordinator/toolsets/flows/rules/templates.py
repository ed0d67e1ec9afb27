"""Templates in step arguments: ``{{input.key}}``, and by option ``{{steps.name.result.path}}`` (seed 003).

A text that is nothing but a token becomes the value itself, whatever its JSON type; a token
inside a longer text becomes text (texts as they are, everything else as JSON). What a token
brings in is not searched for tokens again, so input may hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

_TOKEN = re.compile(r"\{\{((?:(?!\}\}).)*)\}\}", re.DOTALL)
_encode = msgspec.json.Encoder().encode


class Reference(NamedTuple):
    """What one token asks for."""

    step: str
    """The name of the step whose result is meant; empty for the input."""
    path: str
    """What follows the namespace; empty: all of it (a whole result)."""


class Absent(Exception):
    """A token asks for something that is not there; the text says what."""


def tokens(value: Any, place: str = "args") -> Iterator[tuple[str, str]]:
    """Every token within arguments: where it stands, and the text between its braces."""
    if isinstance(value, str):
        for match in _TOKEN.finditer(value):
            yield place, match[1].strip()
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from tokens(member, f"{place}.{key}")
    elif isinstance(value, list):
        for position, member in enumerate(value):
            yield from tokens(member, f"{place}[{position}]")


def reference(token: str) -> Reference | None:
    """What a token (without its braces) asks for; None if that is nothing known.

    A step's name may hold dots: it ends at the first ``.result``.
    """
    space, dot, rest = token.partition(".")
    if space == "input" and dot and rest:
        return Reference("", rest)
    if space == "steps" and dot:
        name, mark, path = rest.partition(".result")
        if name and mark and (not path or path.startswith(".")) and path != ".":
            return Reference(name, path[1:])
    return None


def resolve(value: Any, given: Mapping[str, Any], results: Mapping[str, Any] | None = None) -> Any:
    """Arguments with every token replaced.

    Args:
        given: the workflow's input.
        results: results of steps by their names, where tokens may ask for these.

    Raises:
        Absent: a token asks for what is not there.
    """
    if isinstance(value, str):
        whole = _TOKEN.fullmatch(value)
        if whole is not None:
            return _look_up(whole[1].strip(), given, results or {})
        return _TOKEN.sub(lambda match: _as_text(_look_up(match[1].strip(), given, results or {})), value)
    if isinstance(value, dict):
        return {key: resolve(member, given, results) for key, member in value.items()}
    if isinstance(value, list):
        return [resolve(member, given, results) for member in value]
    return value


def reach(value: Any, path: str) -> Any:
    """The part of ``value`` at a dotted path; list elements by their position from 0.

    A key that itself holds dots is found as it is written.

    Raises:
        KeyError: there is none.
    """
    if not path:
        return value
    if isinstance(value, dict) and path in value:
        return value[path]
    for dot in (position for position, letter in enumerate(path) if letter == "."):
        try:
            return reach(_member(value, path[:dot]), path[dot + 1 :])
        except KeyError:
            continue
    return _member(value, path)


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value[name]
    if isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(value):
        return value[int(name)]
    raise KeyError(name)


def _look_up(token: str, given: Mapping[str, Any], results: Mapping[str, Any]) -> Any:
    asked = reference(token)
    if asked is None:
        raise Absent(f"{{{{{token}}}}} means nothing")
    try:
        if asked.step:
            return reach(results[asked.step], asked.path)
        return reach(given, asked.path)
    except KeyError:
        where = f"the result of step {asked.step!r}" if asked.step else "the input"
        raise Absent(f"{{{{{token}}}}}: {where} has no {asked.path!r}") from None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()
