"""Cursors: positions in the feed of a project, as listeners keep them.

A cursor is ``<tag>-<ms>-<seq>``: the id of the last entry that the listener is past, and a tag: eight hex digits for
the project and as many for the history of the server that made the id. After a failover ids look valid although the
history may differ, so a position of another history is checked against the stream (``position.py``).
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2s
from typing import NamedTuple

from coordinator.errors import invalid

Entry = tuple[int, int]
"""The id of an entry of a stream: server time in ms, and a number within it."""

START: Entry = (0, 0)
"""Before the first entry."""
OLDEST = "oldest"
"""Given as a cursor: from the first event that is still kept."""

_CURSOR = re.compile(r"([0-9a-f]{8})([0-9a-f]{8})-(\d{1,16})-(\d{1,16})")
_RULE = f"must be a cursor, as the feed gave it (the id of an event), or '{OLDEST}'"


class Cursor(NamedTuple):
    """Where a listener is."""

    project: str
    epoch: str
    """The history that the entry belongs to; empty: any."""
    entry: Entry

    def __str__(self) -> str:
        return f"{prefix(self.project, self.epoch)}{self.entry[0]}-{self.entry[1]}"


def prefix(project: str, epoch: str) -> str:
    """What the cursors of a project and a history begin with."""
    return f"{_digest(project)}{epoch}-"


def epoch_of(replication_id: str) -> str:
    """The epoch of a server's history."""
    return _digest(replication_id)


def parse(text: str, project: str, field: str = "after") -> Cursor:
    """A cursor that a listener gives.

    Raises:
        ToolFailure: VALIDATION_ERROR: it is malformed, or belongs to another project.
    """
    if text == OLDEST:
        return Cursor(project, "", START)
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise invalid(field, _RULE)
    if match[1] != _digest(project):
        raise invalid(field, f"is a cursor of another project; that of '{project}' comes with each of its events")
    return Cursor(project, match[2], (int(match[3]), int(match[4])))


def entry_of(text: str) -> Entry:
    """The id of an entry, as the server writes it."""
    ms, _, number = text.partition("-")
    return int(ms), int(number)


@lru_cache(maxsize=1024)
def _digest(text: str) -> str:
    return blake2s(text.encode(), digest_size=4).hexdigest()
