"""The progress of a run, from the project's recorded events, followed while they grow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NamedTuple

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from coordinator.demo.work import Planned
from coordinator.store import keys
from coordinator.store.link import clients
from coordinator.store.link.address import parse
from coordinator.toolsets.items import ROLE_CODES

_SLICE = 5000
_TERMINAL = ROLE_CODES["terminal"]


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


def connect(url: str, project: str) -> redis.asyncio.Redis:
    """A client for ``follow`` in a project. Raises AddressError."""
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), 3)
    # RESP 2, so that streams look the same from every server; no timeout on reads, which may block.
    return clients.async_client(
        parse(url), project, protocol=2, socket_connect_timeout=5, socket_timeout=None, retry=retry
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


class Board:
    """The plan's items and what has become of them."""

    def __init__(self, plan: Mapping[str, Planned]) -> None:
        self.plan = plan
        self._held: set[str] = set()
        self._done: set[str] = set()
        self.steps = sum(planned.step for planned in plan.values())
        self.steps_done = 0
        self.claims = 0
        self.renewals = 0
        self.most_claimed = 0
        """The most items that were claimed at a time."""
        self.expiries = 0
        """Claims that ended by time."""
        self.repeated: list[str] = []
        """Titles of items that were done once more."""
        self._began = 0
        """Of the first claim and the last completion: server time in milliseconds."""
        self._ended = 0

    def apply(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.kind == "claim":
                self._claim(event)
            elif event.kind == "renew":
                self.renewals += 1
            elif event.kind in ("release", "expire"):
                self._held.discard(event.item)
                self.expiries += event.kind == "expire"
            elif event.kind == "transition" and event.role == _TERMINAL:
                self._finish(event)

    @property
    def items_done(self) -> int:
        """How many items are done, parents included."""
        return len(self._done)

    @property
    def claimed(self) -> int:
        """How many steps are claimed and not done."""
        return len(self._held - self._done)

    @property
    def seconds(self) -> float:
        """Server time from the first claim to the last completion."""
        return max(0, self._ended - self._began) / 1000

    def _claim(self, event: Event) -> None:
        self._began = self._began or event.at
        self.claims += 1
        self._held.discard(event.left)
        # A claim on an item that is held takes it over: the one before is over.
        self.expiries += event.item in self._held
        self._held.add(event.item)
        self.most_claimed = max(self.most_claimed, len(self._held))

    def _finish(self, event: Event) -> None:
        planned = self.plan.get(event.item)
        if planned is None:
            return
        if event.item in self._done:
            self.repeated.append(planned.title)
            return
        self._done.add(event.item)
        self._ended = event.at
        self.steps_done += planned.step
