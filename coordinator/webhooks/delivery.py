"""Delivers the feed of a project to one receiver: in order, one message at a time, each until it succeeds.

A session goes from the position in Redis through the stream, as any listener of the feed does. It ends when an attempt
fails, when an operator pauses the webhook, and when events are missing; the next one begins at the position again. So
what could not be delivered is kept in the stream alone, and if that is trimmed meanwhile, the receiver is told that
there is a gap.

Before each attempt the process makes sure, at most a second earlier, that it still leads; an attempt takes less time
than the lease. So no two processes send to one receiver at a time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog

from coordinator.errors import ToolFailure
from coordinator.feed import Cursor, Event, FeedReader, Filter, Gap, Listener, parse
from coordinator.feed import position as stream
from coordinator.feed.cursor import START, entry_of
from coordinator.settings.sections.webhooks import Webhook
from coordinator.store import Store
from coordinator.store.errors import StoreError
from coordinator.webhooks import messages, signing
from coordinator.webhooks.messages import Message
from coordinator.webhooks.metrics import ATTEMPTS, DURATION, GAPS
from coordinator.webhooks.records import FailedDelivery, NotLeading, WebhookRecord, WebhookRecords
from coordinator.webhooks.sender import Sender, SendOutcome

_log = structlog.get_logger(__name__)

DELAYS = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0)
"""Seconds after the first, second, ... attempt that failed; from then on the last one again and again."""
JITTER = (0.9, 1.1)
AWAY_SECONDS = 1.0
"""The pause while the store does not answer."""
HELD_SECONDS = 1.0
"""How long a process may send without asking whether it still leads."""
IDLE_SECONDS = 60.0
"""How often the position moves, and the record is kept alive, while nothing is to be sent."""


class Delivery:
    """The deliveries to one receiver by this process.

    Args:
        secret: that of the settings.
    """

    def __init__(
        self,
        name: str,
        webhook: Webhook,
        secret: str,
        wanted: Filter,
        store: Store,
        records: WebhookRecords,
        reader: FeedReader,
        sender: Sender,
    ) -> None:
        self.name = name
        self.webhook = webhook
        self.secret = secret
        self._filter = wanted
        self._store = store
        self._records = records
        self._reader = reader
        self._sender = sender
        self._listener: Listener | None = None
        self._record: WebhookRecord | None = None
        self._reached: Cursor | None = None
        """The position after what this process has delivered last. It may be ahead of the record: a failover may have
        lost the last events together with the record of their delivery, and the receiver is to hear of that."""
        self._held_at = 0.0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Delivers until it is cancelled, or another process leads."""
        try:
            while True:
                try:
                    await self._session()
                except (ToolFailure, StoreError) as failure:
                    _log.debug("a webhook waits for the store", webhook=self.name, reason=str(failure))
                    await asyncio.sleep(AWAY_SECONDS)
        except NotLeading:
            pass
        finally:
            await self._sender.aclose()

    def look(self, record: WebhookRecord) -> None:
        """Takes notice of what an operator may have changed: that it is paused or goes on, and its secrets."""
        before = self._record
        if before is None or record.now <= before.now:
            return
        self._record = record
        if (record.status, record.not_before) != (before.status, before.not_before):
            self._changed.set()
            if self._listener is not None:
                self._listener.nudge()

    @property
    def lag_seconds(self) -> float:
        """How long ago that happened which waits for another attempt; 0: nothing does, also while none is made."""
        record = self._record
        if record is None or record.status != "active" or not record.head:
            return 0.0
        return max(0.0, (record.now - record.head) / 1000)

    async def _session(self) -> None:
        self._changed.clear()
        record = await self._hold()
        if record.status != "active":
            await self._idle(IDLE_SECONDS)
        elif record.not_before > record.now:
            await self._idle(min((record.not_before - record.now) / 1000, IDLE_SECONDS))
        elif (listener := await self._begin(record)) is not None:
            self._listener = listener
            try:
                await self._deliver(listener)
            finally:
                self._listener = None
                self._reader.close(listener)

    async def _begin(self, record: WebhookRecord) -> Listener | None:
        """A listener at the position, after the message about a gap; None: that could not be delivered."""
        project = self.webhook.project
        if record.first:
            # All before this entry was missing, and the receiver knows.
            found = await stream.read(self._store, Cursor(project, "", START), 1)
            if found.rows and found.rows[0][0] == record.first:
                return self._reader.listen(Cursor(project, "", START), self._filter)
            cursor = str(Cursor(project, found.epoch, START))
            return await self._tell(Gap("trimmed", cursor), Cursor(project, "", entry_of(record.first)))
        at = parse(record.cursor, project) if record.cursor else None
        if at is not None and self._reached is not None and self._reached.entry > at.entry:
            at = self._reached
        place = await self._reader.position(project, at)
        gap = place.gap
        if gap is None and at is not None and self._may_lack(at, place.epoch):
            gap = Gap("failover", str(Cursor(project, place.epoch, place.position)))
        if gap is not None and at is not None:
            return await self._tell(gap, at)
        begin = Cursor(project, place.epoch, place.position)
        if at is None:
            await self._note(lambda: self._records.passed(self.name, str(begin)))
        return self._reader.listen(begin, self._filter)

    def _may_lack(self, at: Cursor, epoch: str) -> bool:
        """Whether a failover may have lost deliveries of another process, which went further than the record tells."""
        return self._reached is None and self._store.fails_over and at.epoch != epoch

    async def _tell(self, gap: Gap, after: Cursor) -> Listener | None:
        """Delivers the message about a gap; returns a listener after it, or None if that failed."""
        GAPS.labels(gap.reason).inc()
        cursor, first = parse(gap.cursor, after.project), ""
        if cursor.entry == START:
            found = await stream.read(self._store, Cursor(after.project, "", START), 1)
            first = found.rows[0][0] if found.rows else ""
            cursor = cursor._replace(epoch="") if first else cursor
        now = self._record.now if self._record is not None else 0
        if not await self._send(messages.of_gap(self.name, after.project, gap, after.entry, now), first):
            return None
        return self._reader.listen(cursor, self._filter)

    async def _deliver(self, listener: Listener) -> None:
        """Delivers what comes, until an attempt fails or the session has to end for another reason."""
        loop, moved = asyncio.get_running_loop(), time.monotonic()
        while listener.ended is None and not self._changed.is_set():
            waking = loop.call_later(IDLE_SECONDS, listener.nudge)
            try:
                items = await listener.take()
            finally:
                waking.cancel()
            for item in items:
                # The next session finds a gap again, from the position that was really reached.
                if not isinstance(item, Event) or not await self._send(messages.of_event(self.name, item)):
                    return
            if not items and time.monotonic() - moved >= IDLE_SECONDS:
                cursor = self._reader.cursor_of(listener)
                moved = time.monotonic()
                await self._note(lambda cursor=cursor: self._records.passed(self.name, cursor))  # type: ignore[misc]

    async def _send(self, message: Message, first: str = "") -> bool:
        """Makes one attempt; returns whether it succeeded."""
        record = self._record
        if record is None or time.monotonic() - self._held_at > HELD_SECONDS:
            record = await self._hold()
        if record.status != "active" or self._changed.is_set():
            return False
        held = signing.in_force(self.secret, record.sealed, record.earlier, record.now)
        began = time.monotonic()
        signed = signing.headers(message.id, message.body, held.all, datetime.now(UTC))
        outcome = await self._sender.send(message.body, signed)
        ATTEMPTS.labels(self.name, outcome.kind).inc()
        DURATION.observe(time.monotonic() - began)
        if outcome.kind == "delivered":
            self._reached = parse(message.cursor, self.webhook.project)
            await self._note(lambda: self._records.delivered(self.name, message.cursor, first))
            return True
        await self._failed(outcome, message, record)
        return False

    async def _failed(self, outcome: SendOutcome, message: Message, before: WebhookRecord) -> None:
        delay = DELAYS[min(before.failures, len(DELAYS) - 1)] * random.uniform(*JITTER)
        delay = max(delay, outcome.retry_after)
        failure = FailedDelivery(outcome.error, delay, message.at or before.now, outcome.kind == "gone")
        record = await self._note(lambda: self._records.failed(self.name, failure))
        said = {"webhook": self.name, "reason": outcome.error, "attempts": record.failures}
        if record.status == "disabled":
            _log.error("webhook disabled", why=record.why, **said)
        else:
            _log.warning("webhook not delivered, trying again", seconds=round(delay), **said)

    async def _hold(self) -> WebhookRecord:
        return await self._note(lambda: self._records.hold(self.name, self.webhook.project))

    async def _note(self, write: Callable[[], Awaitable[WebhookRecord]]) -> WebhookRecord:
        self._held_at, self._record = time.monotonic(), await write()
        return self._record

    async def _idle(self, seconds: float) -> None:
        """Waits, unless an operator changes something."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
