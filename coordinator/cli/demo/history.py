"""A project's recorded history: its event stream, followed while it grows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from coordinator.store import clients, keys
from coordinator.store.address import parse

_SLICE = 5000


class Event(NamedTuple):
    """What an entry says about the progress of work."""

    at: int
    """Server time in milliseconds."""
    kind: str
    """create, link, claim, renew, release, expire, transition ..."""
    item: str
    """32 hex digits."""
    role: int = -1
    """transition: the role that the item has then."""
    left: str = ""
    """claim: the item whose claim was released with it."""


def connect(url: str) -> redis.asyncio.Redis:
    """A client for ``follow``.

    Raises:
        AddressError: the URL cannot be understood.
    """
    # RESP 2, so that streams look the same from every server; no timeout on reads, which may block.
    return clients.async_client(
        parse(url),
        protocol=2,
        socket_connect_timeout=5,
        socket_timeout=None,
        retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), 3),
    )


async def follow(client: redis.asyncio.Redis, project: str, pause_ms: int) -> AsyncIterator[list[Event]]:
    """Follows the history from the first item on: yields new events, and an empty list after a pause without any."""
    key, last = keys.events.key(project), b"0-0"
    while True:
        reply: Any = await client.xread({key: last}, count=_SLICE, block=pause_ms)
        entries = [entry for _, some in reply for entry in some]
        if entries:
            last = entries[-1][0]
        yield [_event(*entry) for entry in entries]


def _event(entry_id: bytes, fields: Mapping[bytes, bytes]) -> Event:
    """The same short names mean different things in different kinds."""
    kind, item = fields[b"k"].decode(), fields[b"i"].decode()
    role = int(fields[b"t"]) if kind == "transition" else -1
    left = fields.get(b"o", b"").decode() if kind == "claim" else ""
    return Event(int(entry_id.partition(b"-")[0]), kind, item, role, left)
