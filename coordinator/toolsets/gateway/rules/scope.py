"""Paths into a workflow's data: ``$.context.coverage``, ``$.arguments.files[0]``, ``$.workflow.input.service``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

MISSING: Any = object()
"""The value of a path that leads to nothing."""

_PATH = re.compile(r"\$(?P<rest>(?:\.[\w-]+|\[\d{1,9}\])*)")
_SEGMENT = re.compile(r"\.([\w-]+)|\[(\d+)\]")

_MAX_INDEX_DIGITS = 9

ROOTS: Mapping[tuple[str, ...], str] = {
    ("context",): "context",
    ("arguments",): "arguments",
    ("workflow", "input"): "input",
    ("input",): "input",
    ("output",): "output",
}
"""The beginnings of paths, and the field of ``Scope`` that each means."""


class Scope(NamedTuple):
    """The data that paths can refer to. Only output mappings have an ``output``."""

    context: Mapping[str, Any] = {}
    arguments: Mapping[str, Any] = {}
    input: Mapping[str, Any] = {}
    output: Any = MISSING


class Path(NamedTuple):
    root: str
    """A field of ``Scope``; empty if the path begins with none of them."""
    segments: tuple[str | int, ...]

    def find(self, scope: Scope) -> Any:
        """The value that the path leads to, or ``MISSING``."""
        value = getattr(scope, self.root) if self.root else MISSING
        for segment in self.segments:
            value = _member(value, segment)
            if value is MISSING:
                return MISSING
        return value


@lru_cache(maxsize=4096)
def parse(text: str) -> Path | None:
    """Parses a text as a path; None if the whole text is not a path."""
    match = _PATH.fullmatch(text)
    return made(match["rest"]) if match else None


def made(rest: str) -> Path:
    """Builds a path from the text after its ``$``. An empty text means the whole output."""
    segments: list[str | int] = [int(index) if index else name for name, index in _SEGMENT.findall(rest)]
    if not segments:
        return Path("output", ())
    for length in (1, 2):
        root = ROOTS.get(tuple(map(str, segments[:length])))
        if root is not None:
            return Path(root, tuple(segments[length:]))
    return Path("", ())


def is_path(value: Any) -> bool:
    """Whether a value of the configuration is meant as a path."""
    return isinstance(value, str) and (value == "$" or value.startswith(("$.", "$[")))


def resolve(value: Any, scope: Scope, absent: Any = None, literal: Callable[[str], str] = str) -> Any:
    """Replaces every text that is a path, at any depth of a configured value, with the path's value.

    Paths inside longer texts are not replaced.

    Args:
        absent: replaces a path that leads to nothing.
        literal: converts texts that are not paths. It is not applied to the values of paths.
    """
    if isinstance(value, str):
        path = parse(value) if is_path(value) else None
        if path is None:
            return literal(value)
        inner = path.find(scope)
        return absent if inner is MISSING else inner
    if isinstance(value, dict):
        return {key: resolve(entry, scope, absent, literal) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(entry, scope, absent, literal) for entry in value]
    return value


def present(stated: Mapping[str, Any], scope: Scope, literal: Callable[[str], str] = str) -> dict[str, Any]:
    """Replaces the paths in a mapping of the configuration with their values.

    An entry whose path leads to nothing is left out. Deeper inside an entry such a path becomes null.
    """
    values = {key: resolve(value, scope, MISSING, literal) for key, value in stated.items()}
    return {key: _without(value) for key, value in values.items() if value is not MISSING}


def _without(value: Any) -> Any:
    """Replaces ``MISSING`` with null."""
    if value is MISSING:
        return None
    if isinstance(value, dict):
        return {key: _without(entry) for key, entry in value.items()}
    return [_without(entry) for entry in value] if isinstance(value, list) else value


def _member(value: Any, segment: str | int) -> Any:
    """Follows one segment of a path. Arrays accept ``[n]`` and ``.n``, objects accept names."""
    if isinstance(value, Mapping):
        return value.get(segment, MISSING) if isinstance(segment, str) else MISSING
    if isinstance(value, list | tuple):
        if isinstance(segment, str):
            if not (segment.isascii() and segment.isdigit() and len(segment) <= _MAX_INDEX_DIGITS):
                return MISSING
            segment = int(segment)
        return value[segment] if segment < len(value) else MISSING
    return MISSING
