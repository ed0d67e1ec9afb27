"""Templates in step arguments: ``{{input.key}}``, and by option ``{{steps.name.result.path}}`` (seed 003).

A text that is nothing but a token becomes the value itself, whatever its JSON type; a token
inside a longer text becomes text (texts as they are, everything else as JSON). What a token
brings in is not searched for tokens again, so input may hold any text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from coordinator.toolsets.flows.rules.limits import MAX_ARGS_BYTES, MAX_TOKEN

_LONGEST_PLACE = 100
_MOST_TRIED = 500
"""Ways to split one path that are tried: with keys that hold dots, there can be as many as the value has members."""
_NOTHING: Any = object()
_encode = msgspec.json.Encoder().encode


class Reference(NamedTuple):
    """What one token asks for."""

    step: str
    """The name of the step whose result is meant; empty for the input."""
    path: str
    """What follows the namespace; empty: all of it (a whole result)."""


class TemplateError(Exception):
    """Arguments cannot be made; the text says why."""


class Absent(TemplateError):
    """A token asks for something that is not there."""


class TooLarge(TemplateError):
    """What the tokens bring in is too much for one call."""

    def __init__(self) -> None:
        super().__init__(f"the arguments have more than {MAX_ARGS_BYTES} bytes when their templates are replaced")


def tokens(value: Any, place: str = "args") -> Iterator[tuple[str, str]]:
    """Every token within arguments: where it stands, and the text between its braces."""
    if isinstance(value, str):
        for part, is_token in _parts(value):
            if is_token:
                yield place, part.strip()
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from tokens(member, _below(place, f".{key[:_LONGEST_PLACE]}"))
    elif isinstance(value, list):
        for position, member in enumerate(value):
            yield from tokens(member, _below(place, f"[{position}]"))


def _below(place: str, part: str) -> str:
    return place + part if len(place) < _LONGEST_PLACE else place


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The tokens of a text, without their braces, and what stands between them; one pass, whatever the text."""
    at = 0
    while (begin := text.find("{{", at)) >= 0 and (end := text.find("}}", begin + 2)) >= 0:
        if begin > at:
            yield text[at:begin], False
        yield text[begin + 2 : end], True
        at = end + 2
    if at < len(text):
        yield text[at:], False


def reference(token: str) -> Reference | None:
    """What a token (without its braces) asks for; None if that is nothing known.

    A step's name may hold dots: it ends at the first ``.result``.
    """
    if len(token) > MAX_TOKEN:
        return None
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
        TooLarge: the tokens bring in more than one call may carry.
    """
    return _Values(given, results or {}).resolve(value)


def check_size(value: Any, given: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Whether arguments that ask for the input only may become too large.

    Args:
        sizes: what is known of tokens so far, for further calls with the same input.

    Raises:
        TooLarge: they do.
    """
    values = _Values(given, {}, sizes)
    for _, token in tokens(value):
        asked = reference(token)
        if asked is not None and not asked.step:
            values.count(token)


def reach(value: Any, path: str) -> Any:
    """The part of ``value`` at a dotted path; list elements by their position from 0.

    A key that itself holds dots is found as it is written.

    Raises:
        KeyError: there is none, or it is not found by ``_MOST_TRIED`` splits.
    """
    found = _reach(value, path, iter(range(_MOST_TRIED)))
    if found is _NOTHING:
        raise KeyError(path)
    return found


def _reach(value: Any, path: str, tries: Iterator[int]) -> Any:
    if not path:
        return value
    if isinstance(value, dict) and path in value:
        return value[path]
    dot = path.find(".")
    while dot >= 0 and next(tries, None) is not None:
        member = _member(value, path[:dot])
        if member is not _NOTHING and (found := _reach(member, path[dot + 1 :], tries)) is not _NOTHING:
            return found
        dot = path.find(".", dot + 1)
    return _member(value, path)


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, _NOTHING)
    if isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(value):
        return value[int(name)]
    return _NOTHING


class _Values:
    """What tokens stand for, as far as one call may carry it."""

    def __init__(
        self, given: Mapping[str, Any], results: Mapping[str, Any], sizes: dict[str, int] | None = None
    ) -> None:
        self._given = given
        self._results = results
        self._sizes = {} if sizes is None else sizes
        self._left = MAX_ARGS_BYTES

    def resolve(self, value: Any) -> Any:
        if isinstance(value, str):
            parts = list(_parts(value))
            if len(parts) == 1 and parts[0][1]:
                return self.count(parts[0][0].strip())
            return "".join(_as_text(self.count(part.strip())) if is_token else part for part, is_token in parts)
        if isinstance(value, dict):
            return {key: self.resolve(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self.resolve(member) for member in value]
        return value

    def count(self, token: str) -> Any:
        """What a token stands for; counts it."""
        found = self._look_up(token)
        size = self._sizes.get(token)
        if size is None:
            size = self._sizes[token] = len(_encode(found))
        self._left -= size
        if self._left < 0:
            raise TooLarge
        return found

    def _look_up(self, token: str) -> Any:
        asked = reference(token)
        if asked is None:
            raise Absent(f"{{{{{token[:80]}}}}} means nothing")
        if asked.step and asked.step not in self._results:
            raise Absent(f"{{{{{token}}}}}: step {asked.step!r} did not run")
        try:
            return reach(self._results[asked.step] if asked.step else self._given, asked.path)
        except KeyError:
            where = f"the result of step {asked.step!r}" if asked.step else "the input"
            raise Absent(f"{{{{{token}}}}}: {where} has no {asked.path!r}") from None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()
