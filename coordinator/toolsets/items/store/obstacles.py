"""What keeps items from being claimed, and has claims end soon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from coordinator.store import Script, Store
from coordinator.toolsets.items.store.base import LIBRARY, pack


class Obstacle(NamedTuple):
    """Of an item."""

    busy: str
    """What it demands and others hold, as ``demands.lua`` has it; '': nothing, or the item is not ready."""
    spent: dict[str, Any] | Literal[False]
    """The spent budget (``rules/usage/budgets.py``) that keeps everybody from it, or stops the claim on it; False:
    none."""


FREE = Obstacle("", False)
"""Of an item that nothing keeps."""
_READ = Script(LIBRARY, "read_obstacles", tuple[int, list[Obstacle | Literal[False]]])


async def read_obstacles(store: Store, project: str, terms: bytes, ids: Sequence[str]) -> dict[str, Obstacle]:
    """What keeps each of at most 100 items (inner form) that exist.

    Args:
        terms: the settings to decide by (``SchemaConfig.terms``).

    Raises:
        ToolFailure: as ``Store.run`` says.
    """
    _, found = await store.run(_READ, project, terms, pack(ids))
    return {item: one for item, one in zip(ids, found, strict=True) if one}
