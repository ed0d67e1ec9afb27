"""How deep values may be nested: what is deeper could be stored, but not be sent to every client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 100
"""Of contexts, and of schemas of downstream servers. Encoders of MCP libraries give up at some 200."""


def too_deep(value: Any) -> bool:
    """Whether objects and lists are nested deeper than ``MAX_DEPTH``; never deeper into it than needed."""
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
