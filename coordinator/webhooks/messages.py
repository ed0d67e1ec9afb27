"""Messages: what is sent to receivers. Those of events have the envelope of the feed, and ``type``."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from coordinator.feed import Event, Gap
from coordinator.feed.cursor import Entry

_encode = msgspec.json.Encoder().encode


class Message(NamedTuple):
    """A message, the same each time it is sent."""

    id: str
    """By which receivers drop duplicates."""
    body: bytes
    cursor: str
    """The position after it."""
    at: int
    """When what it tells happened, in ms; 0: it is not known."""


def of_event(name: str, event: Event) -> Message:
    envelope = event.envelope
    return Message(
        f"{name}:{envelope['eventId']}", _encode({"type": envelope["name"], **envelope}), event.cursor, event.entry[0]
    )


def of_gap(name: str, project: str, gap: Gap, after: Entry, now: int) -> Message:
    """The message that events are missing.

    Args:
        after: the position that was reached before; so the id stays the same when it is sent again.
        now: the server's time in ms.
    """
    data = {"project": project, "reason": gap.reason}
    body = {"type": "gap", "timestamp": _time(now), "data": data, "name": "gap", "cursor": gap.cursor}
    return Message(f"{name}:gap-{after[0]}-{after[1]}", _encode(body), gap.cursor, 0)


def of_test(name: str, project: str, now: int) -> Message:
    """A message that tells nothing, for ``fleet webhooks test``."""
    body: dict[str, Any] = {"type": "webhook.test", "timestamp": _time(now), "data": {"project": project}}
    return Message(f"{name}:test-{secrets.token_hex(8)}", _encode({**body, "name": "webhook.test"}), "", 0)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
