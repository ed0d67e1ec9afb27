"""How many items are held back, and by what."""

from __future__ import annotations

from typing import Literal

from coordinator.store import Script, Store
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.base import LIBRARY, pack

_COUNT = Script(LIBRARY, "count_held_back", tuple[dict[str, int] | Literal[False], int])
_OFFERED = Selector()


async def count_held_back(
    store: Store, terms: bytes, project: str, selector: Selector = _OFFERED
) -> tuple[dict[str, int], int]:
    """How many items are held back, by the fields of ``contract.claims.HeldBack`` that are not 0; and how many open
    items are overdue.

    Args:
        terms: of the project (``Schemas.terms``).
        selector: which items would be offered otherwise, to an agent with its capabilities; default: to one without.

    Raises:
        ToolFailure: as ``Store.run`` says.
    """
    counts, overdue = await store.run(_COUNT, project, terms, pack(selector))
    return counts or {}, overdue
