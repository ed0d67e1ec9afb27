"""Reads a project's stream from a position on, and judges whether events are missing before what it reads."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from coordinator.feed.cursor import START, Cursor, Entry, entry_of, epoch_of
from coordinator.feed.events import Gap, Reason
from coordinator.store import Script, Store
from coordinator.store.libraries.build import Library

_MOST_IN_A_MS = 10**15
"""More entries than there can be in a millisecond."""

Fields = list[str]
"""Fields and values in turn."""
Row = tuple[str, Fields]
"""An entry by its id."""

LIBRARY = Library("coordinator.feed")


class _Reply(msgspec.Struct, frozen=True, array_like=True):
    """A part of the stream, and what a position in it is worth."""

    history: str
    """The id of this server's history."""
    last: str
    first: str
    """Of the entries that are kept; empty: there are none."""
    trimmed: bool
    """Whether entries were ever trimmed."""
    found: bool
    """Whether the position is that of an entry."""
    rows: list[Row]
    known: list[str]
    """As in ``Slice``."""


_READ = Script(LIBRARY, "read_feed", _Reply)


class Slice(NamedTuple):
    """What was read."""

    epoch: str
    """The history of the server that answered."""
    position: Entry
    """Where delivery goes on: the position asked for, unless there is a gap."""
    gap: Gap | None
    rows: list[Row]
    last: Entry
    """The last id of the stream so far."""
    known: list[str]
    """What each id is: '' unknown; 'root' or the parent of an item; 'session'; 'gateway'; or of a flow the JSON of who
    created it and the roles that may approve its gates."""


async def read(store: Store, at: Cursor, count: int, ids: tuple[str, ...] = ()) -> Slice:
    """Reads up to ``count`` entries after a position.

    Raises:
        ToolFailure: the store does not answer, or another server has taken its place.
    """
    position, connects = f"{at.entry[0]}-{at.entry[1]}", store.link(at.project).connects
    reply = await store.run(_READ, at.project, position, count, *ids)
    epoch, last, rows = epoch_of(reply.history), entry_of(reply.last), reply.rows
    first = entry_of(reply.first) if reply.first else None
    reason = _missing(at, epoch, last, first, reply.trimmed, reply.found)
    if reason is None:
        return Slice(epoch, at.entry, None, rows, last, reply.known)
    if reason != "trimmed":
        # A former primary that nobody has told yet lacks what its successor has. It must not move listeners back.
        await store.link(at.project).confirm()
        if connects != store.link(at.project).connects:
            return await read(store, at, count, ids)  # perhaps it was that one that answered
    # After the last entry that is certain to be known, as far as there is one: what is there already comes once.
    goes_on = (_before(first) if first else last) if reason == "trimmed" else min(at.entry, last)
    gap = Gap(reason, str(Cursor(at.project, epoch, goes_on)))
    if goes_on != at.entry:
        rows = (await read(store, Cursor(at.project, epoch, goes_on), count)).rows if count else []
    return Slice(epoch, goes_on, gap, rows, last, reply.known)


def _before(entry: Entry) -> Entry:
    """A position between an entry and any other one before it."""
    ms, number = entry
    return (ms, number - 1) if number else (ms - 1, _MOST_IN_A_MS)


def _missing(at: Cursor, epoch: str, last: Entry, first: Entry | None, trimmed: bool, found: bool) -> Reason | None:
    """Why events may be missing after a position; None: none are.

    The server appends the same entries in the same order everywhere, so if the entry at the position is there, so was
    all that came before it, whatever server answers now.
    """
    if found or at.entry == last or not at.epoch:
        return None
    if at.entry > last:
        return "lost" if at.epoch == epoch else "failover"
    if at.entry == START:
        return "trimmed" if trimmed else None
    if first is None or at.entry < _before(first):
        return "trimmed"
    if at.entry < first:
        return None
    return "failover" if at.epoch != epoch else None
