"""What Redis keeps of each webhook: its position in the feed, and how its deliveries go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from coordinator.store import Script, Store, keys
from coordinator.store.libraries.build import Library

LEASE = "deliver webhooks"
"""The lease of the process that delivers."""
LEASE_MS = 20_000
"""How long it lasts; longer than one attempt at a delivery."""
DISABLE_SECONDS = 5 * 24 * 3600
"""A webhook that has failed for so long without any success is disabled."""
_EVENTS_MOST = 10_000

LIBRARY = Library("coordinator.webhooks")

Status = Literal["", "active", "paused", "disabled"]


class WebhookRecord(msgspec.Struct, frozen=True, array_like=True):
    """A webhook as Redis knows it. Times are in ms by the clock of Redis; 0: never."""

    project: str
    """Empty: there is no record."""
    cursor: str
    """All up to it has been delivered; empty: nothing has begun."""
    first: str
    """After a gap without a known position before the next event: the id of the first entry that there was."""
    status: Status
    why: Literal["", "gone", "failing"]
    """Why it is disabled: its receiver answered 410, or it failed for too long."""
    failing_since: int
    failures: int
    """Attempts in a row that have failed."""
    not_before: int
    """When the next attempt may be made."""
    head: int
    """When the event happened that waits since an attempt failed."""
    error: str
    """Of the last failed attempt, in words."""
    error_at: int
    delivered_at: int
    sealed: str
    """The present secret, if it was rotated (``signing.py``)."""
    earlier: str
    """Earlier secrets, which still sign for a while."""
    now: int
    """When this was read."""

    @property
    def state(self) -> str:
        """active, failing, paused or disabled."""
        return "failing" if self.status == "active" and self.failures else self.status or "active"


class _Held(msgspec.Struct, frozen=True, array_like=True):
    """What a process is told that delivers to a webhook."""

    leads: bool
    """Whether it is the one that does."""
    record: WebhookRecord


_HOLD = Script(LIBRARY, "hold_webhook", _Held, scope="fleet")
_NOTE = Script(LIBRARY, "note_delivery", _Held, scope="fleet")
_READ = Script(LIBRARY, "read_webhooks", list[WebhookRecord], scope="fleet")
_SWITCH = Script(LIBRARY, "switch_webhook", WebhookRecord, scope="fleet")
_ROTATE: Script[Any] = Script(LIBRARY, "rotate_webhook", scope="fleet")


class NotLeading(Exception):
    """Another process delivers now."""


class FailedDelivery(NamedTuple):
    """What is noted of a failed attempt."""

    error: str
    delay_seconds: float
    """Until the next one."""
    head: int
    """When the event happened that waits, in ms."""
    gone: bool
    """Whether the receiver says that it is gone for good."""


class WebhookRecords:
    """Reads and writes the records. All methods raise ToolFailure if the store does not answer.

    Args:
        process: the name of this process, unique in the fleet.
    """

    def __init__(self, store: Store, process: str = "") -> None:
        self._store = store
        self._lease = (LEASE, process, LEASE_MS)

    async def hold(self, name: str, project: str) -> WebhookRecord:
        """The record, which is begun if there is none; renews the right to deliver.

        Raises:
            NotLeading: another process has it.
        """
        return _record(await self._store.run(_HOLD, keys.FLEET, *self._lease, name, project))

    async def delivered(self, name: str, cursor: str, first: str = "") -> WebhookRecord:
        """Moves the position after a delivery. Raises as ``hold``."""
        return await self._note(name, "delivered", cursor, first, FailedDelivery("", 0, 0, False))

    async def passed(self, name: str, cursor: str) -> WebhookRecord:
        """Moves the position past what is not for the webhook. Raises as ``hold``."""
        return await self._note(name, "passed", cursor, "", FailedDelivery("", 0, 0, False))

    async def failed(self, name: str, failure: FailedDelivery) -> WebhookRecord:
        """Notes a failed attempt. Raises as ``hold``."""
        return await self._note(name, "gone" if failure.gone else "failed", "", "", failure)

    async def read(self, names: Sequence[str]) -> list[WebhookRecord]:
        return await self._store.run(_READ, keys.FLEET, *names)

    async def switch(self, name: str, project: str, status: Literal["active", "paused"]) -> WebhookRecord:
        """Pauses a webhook or has it go on; returns its record before."""
        return await self._store.run(_SWITCH, keys.FLEET, _EVENTS_MOST, name, project, status)

    async def rotate(self, name: str, project: str, was: str, sealed: str, earlier: str) -> bool:
        """Writes a new secret; False: another one came in between."""
        return bool(await self._store.run(_ROTATE, keys.FLEET, _EVENTS_MOST, name, project, was, sealed, earlier))

    async def _note(self, name: str, outcome: str, cursor: str, first: str, failure: FailedDelivery) -> WebhookRecord:
        delay, most = int(failure.delay_seconds * 1000), DISABLE_SECONDS * 1000
        said = (name, outcome, cursor, first, delay, failure.head, failure.error, most)
        return _record(await self._store.run(_NOTE, keys.FLEET, _EVENTS_MOST, *self._lease, *said))


def _record(held: _Held) -> WebhookRecord:
    if not held.leads:
        raise NotLeading
    return held.record
