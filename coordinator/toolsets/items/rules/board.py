"""Checks what is asked of a board or list, and translates it into ranges of the ranked index."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from coordinator.errors import invalid
from coordinator.toolsets.items.contract.query import QueryItems
from coordinator.toolsets.items.rules.query import search
from coordinator.toolsets.items.rules.roles import one_of

MAX_ROWS = 100
"""How many rows a page has at most."""
_STATES = {
    "": "qQ1pkwWa2xXlrRA3mbB4ntT",
    "claimed": "QWRB",
    "unclaimed": "q1pkwa2xXlrA3mb4ntT",
    "available": "qkwalrAmbntT",
    "waiting": "1p2xX34",
}
STATES = tuple(filter(None, _STATES))
_AFTER = re.compile(r"(\d{1,16}:\d{1,16}:[0-9a-f]{0,32})?")


class Wanted(NamedTuple):
    """What a board or list shows, as a person asks for it; '' for any. Items have to meet all of it."""

    role: str = ""
    tags: str = ""
    """Separated by commas: any of them."""
    type: str = ""
    priority: str = ""
    state: str = ""
    """``claimed``; ``unclaimed``; of these ``available``, or ``waiting`` for a dependency, its children or the end of a
    back-off."""
    holder: str = ""
    """The agent whose claim the item has, live or expired."""
    parent: str = ""
    """Full id in the inner form."""
    ancestor: str = ""
    """As above: items below it, at any depth."""
    text: str = ""
    """In title or summary."""

    def packable(self) -> dict[str, Any]:
        """In the form of ``board_page.lua``.

        Raises:
            ToolFailure: VALIDATION_ERROR naming the field and what is allowed.
        """
        asked = QueryItems(
            operation="search", role=self.role or None, tags=self.tags or None, type=self.type or None,
            priority=self.priority or None, query=self.text or None,
        )  # fmt: skip
        found = search(asked, self.parent).packable()
        letters = _STATES[self.state and one_of(self.state, STATES, "state")]
        found["classes"] = "".join(letter for letter in found["classes"] if letter in letters)
        found["holder"], found["ancestor"] = self.holder, self.ancestor
        if self.ancestor:
            found["conditions"]["an"] = self.ancestor
        return found


def window(offset: int, limit: int) -> tuple[int, int]:
    """Where a page begins and how many rows it has, brought into their bounds."""
    return max(offset, 0), min(max(limit, 1), MAX_ROWS)


def position(after: str) -> str:
    """A position that an earlier page ended with, checked.

    Raises:
        ToolFailure: VALIDATION_ERROR.
    """
    if not _AFTER.fullmatch(after):
        raise invalid("after", "must be the `next` of an earlier page")
    return after
