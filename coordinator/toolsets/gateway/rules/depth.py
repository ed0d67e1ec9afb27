"""Limits the nesting of values: deeper ones could be stored, but not sent to every client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 100
"""For contexts, and for schemas of downstream servers. Encoders of MCP libraries give up at about 200."""


def too_deep(value: Any) -> bool:
    """Whether objects and lists are nested deeper than ``MAX_DEPTH``. Levels below that are not visited."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, Mapping):
                inner += one.values()
            elif isinstance(one, list | tuple):
                inner += one
        if not inner:
            return False
        level = [one for one in inner if isinstance(one, Mapping | list | tuple)]
        if not level:
            return False
    return True
