"""Events as listeners get them: thin envelopes around ids, in JSON and as frames of an event stream (SSE)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from coordinator.feed.cursor import Entry
from coordinator.feed.kinds import KINDS, Kind, toolset_of, uuid

Reason = Literal["failover", "lost", "trimmed"]
"""Why events are missing. failover: another server's history goes on here, which may lack some; lost: the store has
lost its last events, or was flushed; trimmed: they were older than the project keeps."""

_encode = msgspec.json.Encoder().encode
_roles = msgspec.json.Decoder(list[str]).decode


class Gap(msgspec.Struct, frozen=True):
    """Events are missing before the next one, so what was read before may be out of date."""

    reason: Reason
    cursor: str
    """Where delivery goes on."""


class Event:
    """An entry of the stream that some listener may get.

    Args:
        entry: its id.
        kind: what the entry says.
        fields: the entry's fields by letter.
        cursors: what cursors begin with (``cursor.prefix``).
    """

    __slots__ = ("_frame", "cursor", "entry", "fields", "id", "kind", "project", "root")

    def __init__(self, project: str, entry: Entry, kind: Kind, fields: Mapping[str, str], cursors: str) -> None:
        self.project = project
        self.entry = entry
        self.kind = kind
        self.fields = fields
        self.id = fields["i"]
        self.root = fields.get("R", self.id) if kind.of_items else ""
        """Of an item: the item without a parent that it belongs to, perhaps itself."""
        self.cursor = f"{cursors}{entry[0]}-{entry[1]}"
        """The position after it."""
        self._frame = b""

    @property
    def ids(self) -> tuple[str, ...]:
        """What it is about: one thing, or two items."""
        other = self.fields.get("o") if "o" in self.kind.fields and self.root else None
        return (self.id,) if other is None else (self.id, other)

    def approver_roles(self) -> list[str]:
        """Of a workflow or its step: the roles that may approve one of its gates."""
        roles = self.fields.get("ro")
        return _roles(roles) if roles else []

    @property
    def toolset(self) -> str:
        """Whose ``.read`` permission opens it."""
        return toolset_of(self.kind, self.id)

    @property
    def envelope(self) -> dict[str, Any]:
        """What listeners get."""
        ms, number = self.entry
        kind, fields = self.kind, self.fields
        data: dict[str, Any] = {"project": self.project, "id": uuid(self.id) if kind.of_items else self.id}
        if self.root:
            data["rootId"] = uuid(self.root)
        for letter, field in kind.fields.items():
            if value := fields.get(letter):
                try:
                    data[field.name] = field.show(value)
                except (ValueError, LookupError):  # of another release; no listener must suffer from it
                    data[field.name] = value
        data.update(kind.said)
        return {
            "eventId": f"{ms}-{number}",
            "name": kind.name,
            "timestamp": datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "data": data,
            "cursor": self.cursor,
        }

    @property
    def frame(self) -> bytes:
        """It as a frame of an event stream; made once, for any number of listeners."""
        if not self._frame:
            self._frame = b"id: %b\ndata: %b\n\n" % (self.cursor.encode(), _encode(self.envelope))
        return self._frame


def event_of(project: str, entry: Entry, fields: Mapping[str, str], cursors: str) -> Event | None:
    """The event of an entry; None: no listener gets entries of this kind."""
    kind = KINDS.get(fields.get("k", ""))
    return None if kind is None or "i" not in fields else Event(project, entry, kind, fields, cursors)


def frame(name: str, cursor: str, **data: Any) -> bytes:
    """A frame that is not an event of the project: ready, heartbeat or gap."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (name.encode(), cursor.encode(), _encode({**data, "cursor": cursor}))
