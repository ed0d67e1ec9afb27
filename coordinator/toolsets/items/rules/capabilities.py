"""Capabilities: what an agent can do, and what an item requires of the agent that takes it."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.errors import invalid
from coordinator.toolsets.items.rules.items import MAX_NAME, MAX_TAGS, TAG, TAG_SYNTAX

ADMIN = "items.admin"
"""The permission to see who holds which item."""


def capabilities(names: Sequence[str], field: str) -> list[str]:
    """The capabilities in order, each once.

    Raises:
        ToolFailure: VALIDATION_ERROR naming a malformed one, or if there are too many.
    """
    if len(names) > MAX_TAGS:
        raise invalid(field, f"must be at most {MAX_TAGS} capabilities")
    for number, name in enumerate(names):
        if not TAG.fullmatch(name):
            raise invalid(f"{field}[{number}]", f"'{name[:64]}' must be {TAG_SYNTAX}")
        if len(name) > MAX_NAME:
            raise invalid(f"{field}[{number}]", f"'{name[:64]}...' must be at most {MAX_NAME} characters")
    return sorted(set(names))
