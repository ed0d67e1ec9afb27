"""Paths into what a workflow knows: ``$.context.coverage``, ``$.arguments.files[0]``, ``$.workflow.input.service``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

MISSING: Any = object()
"""What a path leads to where there is nothing."""

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
"""What a path may begin with, and the field of ``Scope`` that it means."""


class Scope(NamedTuple):
    """What paths can lead to. ``output`` is there for output mappings only."""

    context: Mapping[str, Any] = {}
    arguments: Mapping[str, Any] = {}
    input: Mapping[str, Any] = {}
    output: Any = MISSING


class Path(NamedTuple):
    """A parsed path."""

    root: str
    """A field of ``Scope``; empty: none that is known."""
    segments: tuple[str | int, ...]

    def find(self, scope: Scope) -> Any:
        """What the path leads to, else ``MISSING``."""
        value = getattr(scope, self.root) if self.root else MISSING
        for segment in self.segments:
            value = _member(value, segment)
            if value is MISSING:
                return MISSING
        return value


@lru_cache(maxsize=4096)
def parse(text: str) -> Path | None:
    """The path that a text as a whole is; None: it is none."""
    match = _PATH.fullmatch(text)
    return made(match["rest"]) if match else None


def made(rest: str) -> Path:
    """The path with what follows its ``$``; nothing there means the whole output."""
    segments: list[str | int] = [int(index) if index else name for name, index in _SEGMENT.findall(rest)]
    if not segments:
        return Path("output", ())
    for length in (1, 2):
        root = ROOTS.get(tuple(map(str, segments[:length])))
        if root is not None:
            return Path(root, tuple(segments[length:]))
    return Path("", ())


def is_path(value: Any) -> bool:
    """Whether a value of the configuration stands for what a path leads to."""
    return isinstance(value, str) and (value == "$" or value.startswith(("$.", "$[")))


def resolve(value: Any, scope: Scope, absent: Any = None, literal: Callable[[str], str] = str) -> Any:
    """A value of the configuration with every text that is a path replaced, however deep.

    Nothing is replaced inside longer texts.

    Args:
        absent: what a path to nothing becomes.
        literal: what becomes of texts that are no paths; never asked about what a path leads to.
    """
    if isinstance(value, str):
        path = parse(value) if is_path(value) else None
        if path is None:
            return literal(value)
        found = path.find(scope)
        return absent if found is MISSING else found
    if isinstance(value, dict):
        return {key: resolve(entry, scope, absent, literal) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(entry, scope, absent, literal) for entry in value]
    return value


def present(stated: Mapping[str, Any], scope: Scope, literal: Callable[[str], str] = str) -> dict[str, Any]:
    """A mapping of the configuration with what its paths lead to.

    An entry whose path leads nowhere is left out; deeper inside of an entry such a path becomes null.
    """
    found = {key: resolve(value, scope, MISSING, literal) for key, value in stated.items()}
    return {key: _without(value) for key, value in found.items() if value is not MISSING}


def _without(value: Any) -> Any:
    """A value whose paths to nothing are null."""
    if value is MISSING:
        return None
    if isinstance(value, dict):
        return {key: _without(entry) for key, entry in value.items()}
    return [_without(entry) for entry in value] if isinstance(value, list) else value


def _member(value: Any, segment: str | int) -> Any:
    """One step; arrays take ``[n]`` and ``.n``, objects names."""
    if isinstance(value, Mapping):
        return value.get(segment, MISSING) if isinstance(segment, str) else MISSING
    if isinstance(value, list | tuple):
        if isinstance(segment, str):
            if not (segment.isascii() and segment.isdigit() and len(segment) <= _MAX_INDEX_DIGITS):
                return MISSING
            segment = int(segment)
        return value[segment] if segment < len(value) else MISSING
    return MISSING
