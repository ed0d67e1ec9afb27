"""Limits listeners to what they may read, and checks the ids that they name: a stream about nothing would be empty for
ever."""

from __future__ import annotations

import msgspec

from coordinator.errors import ToolFailure, invalid
from coordinator.feed import Cursor, FeedReader, Filter
from coordinator.feed.events import Event
from coordinator.feed.filters import dashed
from coordinator.feed.kinds import NAMES
from coordinator.feed.position import Slice
from coordinator.toolsets.caller import Caller
from coordinator.transport.feed_request import FeedRequest

_flow = msgspec.json.Decoder(tuple[str, list[str]]).decode
_INNER = 32
"""Digits of an item's id in the store."""
_TOP = "name the item at the top of its tree"


async def check_ids(reader: FeedReader, asked: FeedRequest, wanted: Filter, found: Slice) -> Cursor:
    """Checks ids and roots, and returns where the listener begins.

    Args:
        found: the position that was asked for, and what ``asked.named`` are.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND: an id is unknown, or that of something that the caller may not read.
            VALIDATION_ERROR: a root is no root. Neither for a listener that goes on from a cursor and is still to hear
            of it, as of what was deleted or moved meanwhile, or to hear that events are missing.
    """
    at = Cursor(asked.project, found.epoch, found.position)
    known = dict(zip(asked.named, found.known, strict=True))
    everything = wanted._replace(kinds=frozenset(NAMES), ids=frozenset(), roots=frozenset())

    async def is_ahead(about: Filter) -> bool:
        return asked.after is not None and (found.gap is not None or await _is_ahead(reader, at, about))

    for one in asked.ids:
        about = everything._replace(ids=frozenset(one))
        if not any(_readable(known[form], wanted) for form in one) and not await is_ahead(about):
            raise _absent("id", one[-1])
    for root in wanted.roots:
        what = known[root]
        if what == "root" and _readable(what, wanted):
            continue
        moved = len(what) == _INNER
        if what and not moved:
            raise invalid("root", f"'{dashed(root)}' is not an item; {_TOP}")
        if not await is_ahead(everything._replace(roots=frozenset((root,)))):
            with_parent = f"'{dashed(root)}' is an item with a parent; {_TOP}"
            raise invalid("root", with_parent) if moved else _absent("root", dashed(root))
    return at


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
    # Alone: it looks at the stream, also where the reader of the process has not read that far.
    listener = reader.listen(at, wanted, alone=True)
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
