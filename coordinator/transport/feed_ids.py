"""Limits listeners to what they may read, and checks the ids that they name: a stream about nothing would be empty for
ever."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coordinator.errors import ToolFailure, invalid
from coordinator.feed import Cursor, FeedReader, Filter
from coordinator.feed.events import Event
from coordinator.feed.filters import dashed
from coordinator.feed.kinds import NAMES
from coordinator.toolsets.caller import Caller
from coordinator.transport.feed_request import FeedRequest

_flow = msgspec.json.Decoder(tuple[str, list[str]]).decode
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


def limited(wanted: Filter, caller: Caller | None, toolsets: frozenset[str] | None) -> Filter:
    """The filter, limited to what a caller may read.

    Args:
        toolsets: those whose events the caller may read; None: all.
    """
    if caller is None or "workflow.admin" in caller.permissions:
        return wanted._replace(toolsets=toolsets)
    return wanted._replace(toolsets=toolsets, creator=caller.id, roles=caller.roles)


def _readable(what: str, wanted: Filter) -> bool:
    """Whether the caller may read a thing that is this."""
    if not what:
        return False
    if what.startswith("["):
        creator, roles = _flow(what)
        return _permits(wanted, "flows") and wanted.may_read_flow(creator, lambda: roles)
    return _permits(wanted, {"gateway": "gateway", "session": "sessions"}.get(what, "items"))


def _permits(wanted: Filter, toolset: str) -> bool:
    return wanted.toolsets is None or toolset in wanted.toolsets


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
