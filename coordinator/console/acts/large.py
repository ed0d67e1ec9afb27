"""Changes of so many things that a name has to be typed first. Pages ask for it; it is checked here, whoever asks."""

from __future__ import annotations

from typing import Any

from coordinator.store import Store
from coordinator.toolsets.items import FULL, descendants, to_inner

MANY = 20
"""Items that are changed without a name; ``MANY`` in static/actions.js."""
_LISTS = ("items", "item_ids", "notes", "dependencies", "transitions")


def untyped(typed: object, name: str, what: str) -> str:
    """The refusal of a large change of ``what`` whose name was not typed; empty: it was."""
    return "" if typed == name else f"Type {name} to go on: this changes {what}."


async def is_large_tree(store: Store, project: str, root: str) -> bool:
    """Whether more than ``MANY`` items are below one, which is named in the inner form."""
    return len(await descendants(store, project, root, MANY)) > MANY


async def untyped_items(store: Store, project: str, meant: Any, typed: object) -> str:
    """The refusal of a call that changes more than ``MANY`` items without the project's name; empty: there is none."""
    large = any(len(getattr(meant, name, None) or ()) > MANY for name in _LISTS)
    if not large and (root := getattr(meant, "root_id", None)):
        inner = to_inner(root)
        large = len(inner) < FULL or await is_large_tree(store, project, inner)
    return untyped(typed, project, f"more than {MANY} items") if large else ""
