"""Limits listeners to what they may read, and checks the ids that they name: a stream about nothing would be empty for
ever."""

from __future__ import annotations

import msgspec

from coordinator.errors import ToolFailure, invalid
from coordinator.feed import Cursor, FeedReader, Filter
from coordinator.feed.cursor import START
from coordinator.feed.events import Event
from coordinator.feed.filters import dashed
from coordinator.feed.kinds import NAMES
from coordinator.feed.position import Slice
from coordinator.toolsets.caller import Caller
from coordinator.transport.feed.request import FeedRequest

_flow = msgspec.json.Decoder(tuple[str, list[str]]).decode
_INNER = 32
"""Digits of an item's id in the store."""
_TOP = "name the item at the top of its tree"


async def check_ids(reader: FeedReader, request: FeedRequest, wanted: Filter, position: Slice) -> Cursor:
    """Checks ids and roots, and returns where the listener begins.

    Args:
        position: the one that was asked for, and what ``request.named`` are.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND: an id is unknown, or that of something that the caller may not read.
            VALIDATION_ERROR: a root is no root. Neither for a listener that goes on from a cursor and is still to hear
            of it, as of what was deleted or moved meanwhile, or to hear that events are missing.
    """
    at = Cursor(request.project, position.epoch, position.position)
    known = dict(zip(request.named, position.known, strict=True))
    ids = [id_ for id_ in request.ids if not any(_readable(known[form], wanted) for form in id_)]
    roots = [root for root in wanted.roots if not (known[root] == "root" and _readable("root", wanted))]
    for root in roots:
        if known[root] and len(known[root]) != _INNER:
            raise invalid("root", f"'{dashed(root)}' is not an item; {_TOP}")
    if request.after is not None and (ids or roots):
        if position.gap is not None and request.after.entry != START:
            return at  # it was to hear of them before the gap, perhaps
        everything = wanted._replace(kinds=frozenset(NAMES), ids=frozenset(), roots=frozenset())
        ids, roots = await _without_those_ahead(reader, at, everything, ids, roots)
    if ids:
        raise _absent("id", ids[0][-1])
    for root in roots:
        with_parent = f"'{dashed(root)}' is an item with a parent; {_TOP}"
        raise invalid("root", with_parent) if known[root] else _absent("root", dashed(root))
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


async def _without_those_ahead(
    reader: FeedReader, at: Cursor, wanted: Filter, ids: list[tuple[str, ...]], roots: list[str]
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Those ids and roots that no event after a position is about that passes a filter."""
    # Alone: it looks at the stream, also where the reader of the process has not read that far.
    listener = reader.listen(at, wanted, alone=True)
    try:
        while listener.behind and (ids or roots):
            events = [item for item in await listener.take() if isinstance(item, Event)]
            names = {name for event in events for name in event.ids}
            ids = [id_ for id_ in ids if names.isdisjoint(id_)]
            roots = list(set(roots) - {event.root for event in events})
        return ids, roots
    finally:
        reader.close(listener)


def _absent(field: str, name: str) -> ToolFailure:
    problem = f"{field}: there is no '{name}' in this project, or none that you may read"
    return ToolFailure("RESOURCE_NOT_FOUND", problem)
