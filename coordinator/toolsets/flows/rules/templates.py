"""Templates in step arguments: ``{{input.key}}``, and by option ``{{steps.name.result.path}}``.

A text that consists of a single token becomes the value itself, of whatever JSON type. A token
inside a longer text becomes text: a text as it is, any other value as JSON. Inserted values are
not searched for tokens again, so input may contain any text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from coordinator.toolsets.flows.rules.limits import MAX_ARGS_BYTES, MAX_TOKEN

_LONGEST_PLACE = 100
_MOST_TRIED = 500
"""How many ways to split one path are tried, at most. Keys may contain dots, so there can be very many."""
_NOTHING: Any = object()
_encode = msgspec.json.Encoder().encode


class Reference(NamedTuple):
    """The value that a token refers to."""

    step: str
    """The name of the step whose result is used; empty: the input is used."""
    path: str
    """The path within the result or the input; empty: the whole result."""


class TemplateError(Exception):
    """A template cannot be replaced. The text says why."""


class Absent(TemplateError):
    """A token refers to a value that does not exist."""


class TooLarge(TemplateError):
    """The values of the tokens are too large for one call."""

    def __init__(self) -> None:
        super().__init__(f"the arguments have more than {MAX_ARGS_BYTES} bytes when their templates are replaced")


def tokens(value: Any, place: str = "args") -> Iterator[tuple[str, str]]:
    """Every token in some arguments, as pairs of its place and the text between its braces."""
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
    """Splits a text into tokens (without their braces) and the texts between them, in a single pass."""
    at = 0
    while (begin := text.find("{{", at)) >= 0 and (end := text.find("}}", begin + 2)) >= 0:
        if begin > at:
            yield text[at:begin], False
        yield text[begin + 2 : end], True
        at = end + 2
    if at < len(text):
        yield text[at:], False


def reference(token: str) -> Reference | None:
    """Parses a token (without its braces); None if it is malformed.

    A step's name may contain dots: it ends at the first ``.result``.
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


def resolve(value: Any, variables: Mapping[str, Any], results: Mapping[str, Any] | None = None) -> Any:
    """Replaces every token in some arguments.

    Args:
        variables: the workflow's input.
        results: the results of steps by name; None if tokens may not use them.

    Raises:
        Absent: a token refers to a value that does not exist.
        TooLarge: the values are too large for one call.
    """
    return _Values(variables, results or {}).resolve(value)


def check_size(value: Any, variables: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Checks whether arguments become too large by the input that their tokens insert.

    Args:
        sizes: a cache of the sizes of tokens, for several calls with the same input.

    Raises:
        TooLarge: they become too large.
    """
    values = _Values(variables, {}, sizes)
    for _, token in tokens(value):
        target = reference(token)
        if target is not None and not target.step:
            values.count(token)


def reach(value: Any, path: str) -> Any:
    """The part of ``value`` at a dotted path. Elements of lists are named by their position, from 0.

    A key that itself contains dots is found, too.

    Raises:
        KeyError: there is no such part, or it is not found within ``_MOST_TRIED`` splits of the path.
    """
    member = _reach(value, path, iter(range(_MOST_TRIED)))
    if member is _NOTHING:
        raise KeyError(path)
    return member


def _reach(value: Any, path: str, tries: Iterator[int]) -> Any:
    if not path:
        return value
    if isinstance(value, dict) and path in value:
        return value[path]
    dot = path.find(".")
    while dot >= 0 and next(tries, None) is not None:
        member = _member(value, path[:dot])
        if member is not _NOTHING and (inner := _reach(member, path[dot + 1 :], tries)) is not _NOTHING:
            return inner
        dot = path.find(".", dot + 1)
    return _member(value, path)


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, _NOTHING)
    if isinstance(value, list) and name.isascii() and name.isdigit() and len(name) < 10 and int(name) < len(value):
        return value[int(name)]
    return _NOTHING


class _Values:
    """Looks up the values of tokens, and limits their total size."""

    def __init__(
        self, variables: Mapping[str, Any], results: Mapping[str, Any], sizes: dict[str, int] | None = None
    ) -> None:
        self._given = variables
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
        """The value of a token. Its size counts towards the limit."""
        replacement = self._look_up(token)
        size = self._sizes.get(token)
        if size is None:
            size = self._sizes[token] = len(_encode(replacement))
        self._left -= size
        if self._left < 0:
            raise TooLarge
        return replacement

    def _look_up(self, token: str) -> Any:
        target = reference(token)
        if target is None:
            raise Absent(f"{{{{{token[:80]}}}}} means nothing")
        if target.step and target.step not in self._results:
            raise Absent(f"{{{{{token}}}}}: step {target.step!r} did not run")
        try:
            return reach(self._results[target.step] if target.step else self._given, target.path)
        except KeyError:
            where = f"the result of step {target.step!r}" if target.step else "the input"
            raise Absent(f"{{{{{token}}}}}: {where} has no {target.path!r}") from None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()
