"""Checks the ids that a listener names: a stream about nothing would be empty for ever."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.errors import ToolFailure, invalid
from coordinator.feed import Cursor, FeedReader, Filter
from coordinator.feed.events import Event
from coordinator.feed.filters import dashed
from coordinator.feed.kinds import NAMES
from coordinator.transport.feed_request import FeedRequest

_INNER = 32
"""Digits of an item's id in the store."""


async def check_ids(
    reader: FeedReader, asked: FeedRequest, wanted: Filter, at: Cursor, known: Mapping[str, str]
) -> None:
    """Checks ids and roots.

    Args:
        at: where the listener begins.
        known: what each id is (``position.Slice``).

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND: an id is unknown, or that of something that the caller may not read; unless a
            listener that goes on from a cursor is still to hear of it, as of what was deleted meanwhile.
            VALIDATION_ERROR: a root is no root.
    """
    everything = wanted._replace(kinds=frozenset(NAMES), ids=frozenset(), roots=frozenset())
    for one in asked.ids:
        if not any(_readable(known[form], wanted) for form in one) and not (
            asked.after is not None and await _is_ahead(reader, at, everything._replace(ids=frozenset(one)))
        ):
            raise _absent("id", one[-1])
    for root in wanted.roots:
        if known[root] == "root" and _readable("root", wanted):
            continue
        if known[root]:
            why = "is an item with a parent" if len(known[root]) == _INNER else "is not an item"
            raise invalid("root", f"'{dashed(root)}' {why}; name the item at the top of its tree")
        if asked.after is None or not await _is_ahead(reader, at, everything._replace(roots=frozenset((root,)))):
            raise _absent("root", dashed(root))


def _readable(what: str, wanted: Filter) -> bool:
    """Whether the caller may read a thing that is this."""
    if not what:
        return False
    toolset, _, owner = what.partition(" ") if what.startswith(("flows ", "gateway ")) else ("items", "", "")
    if what == "session":
        toolset = "sessions"
    if wanted.toolsets is not None and toolset not in wanted.toolsets:
        return False
    return toolset != "flows" or wanted.creator is None or owner == wanted.creator


async def _is_ahead(reader: FeedReader, at: Cursor, wanted: Filter) -> bool:
    """Whether an event for this filter comes after a position."""
    listener = reader.listen(at, wanted)
    try:
        while listener.behind:
            if any(isinstance(item, Event) for item in await listener.take()):
                return True
        return False
    finally:
        reader.close(listener)


def _absent(field: str, name: str) -> ToolFailure:
    problem = f"{field}: there is no '{name}' in this project, or none that you may read"
    return ToolFailure("RESOURCE_NOT_FOUND", problem)
