"""One listener: where it is in its project's feed, and what waits to be taken by it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from coordinator.feed.cursor import Cursor, prefix
from coordinator.feed.events import Event, Gap
from coordinator.feed.filters import Filter

MOST_EVENTS = 1_000
MOST_BYTES = 256 * 1024
"""Events, and bytes of them, that may wait to be taken by a listener. Beyond that it is cut off."""

Item = Event | Gap
End = Literal["slow", "revoked", "drain", "moved", "gone"]
"""Why a listener gets nothing more: it took too little; its caller may not read any longer; this process is to stop;
its project is served from another store; its client has left."""


class Batch:
    """Events that were read together and are for the same listeners."""

    __slots__ = ("_chunk", "_frames", "events")

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self._frames = self._chunk = b""

    @property
    def chunk(self) -> bytes:
        """The frames as a chunk of an answer over HTTP (RFC 9112, 7.1), made once."""
        if not self._chunk:
            frames = self.frames
            self._chunk = b"%x\r\n%b\r\n" % (len(frames), frames)
        return self._chunk

    @property
    def frames(self) -> bytes:
        """Their frames, made once."""
        if not self._frames:
            self._frames = b"".join([event.frame for event in self.events])
        return self._frames


class Listener:
    """Made by ``FeedReader.listen``; to be closed by it.

    Args:
        at: from where on.
        catch_up: reads on from the stream, while the listener is behind the reader of the process; puts it among those
            that the reader serves as soon as it is not, unless it is ``alone``.
        alone: it gets what is in the stream now, and nothing that comes later.
    """

    __slots__ = (
        "_bytes",
        "_catch_up",
        "_end",
        "_nudged",
        "_waiting",
        "_woken",
        "alone",
        "behind",
        "cursors",
        "entry",
        "filter",
        "project",
        "renewed",
        "sink",
    )

    def __init__(
        self,
        at: Cursor,
        wanted: Filter,
        catch_up: Callable[[Listener], Awaitable[Sequence[Item]]],
        alone: bool = False,
    ) -> None:
        self.project = at.project
        self.alone = alone
        self.filter = wanted
        self.cursors = prefix(at.project, at.epoch)
        """What its cursors begin with."""
        self.entry = at.entry
        """All up to this entry has been given to it, or is not for it."""
        self.behind = True
        self.sink: Callable[[Batch], bool] | None = None
        """Takes events at once, without ``take``; returns False if it cannot now. For listeners whose frames only have
        to be written to a connection: waking a task for each of them would cost several times as much."""
        self.renewed: Callable[[], None] | None = None
        """Called when the reader has connected again or has found a gap; who sets it takes no gaps. For listeners that
        would rather read again too often than not at all."""
        self._catch_up = catch_up
        self._waiting: list[Item] = []  # not a deque: that takes 600 bytes, for each of thousands
        self._bytes = 0
        self._woken: asyncio.Future[None] | None = None
        self._end: End | None = None
        self._nudged = False

    @property
    def ended(self) -> End | None:
        """Why it gets nothing more; None: it goes on."""
        return self._end

    @property
    def cursor(self) -> str:
        """The position after all that it has taken; may be given out only while nothing waits to be taken."""
        return f"{self.cursors}{self.entry[0]}-{self.entry[1]}"

    async def take(self) -> list[Item]:
        """What has come; nothing if it has just caught up, if ``nudge`` was called, or if it has ended.

        Raises:
            ToolFailure: the store does not answer. May be called again.
        """
        while self.behind and self._end is None:
            items = await self._catch_up(self)
            if items or self._nudged or not self.behind:
                self._nudged = False
                return list(items)
        if not self._waiting and self._end is None:
            self._woken = asyncio.get_running_loop().create_future()
            try:
                await self._woken
            finally:
                self._woken = None
        return self.taken()

    def taken(self) -> list[Item]:
        """What has come and was not taken yet."""
        taken, self._waiting, self._bytes = self._waiting, [], 0
        return taken

    def give(self, batch: Batch) -> None:
        """Gives it events that are for it, unless it has had them already: it was ahead of the reader when it joined.
        Called by the reader."""
        if self._end is not None:
            return
        events = batch.events
        if events[0].entry <= self.entry:
            events = [event for event in events if event.entry > self.entry]
            if not events:
                return
            batch = Batch(events)
        if self._waiting or self.sink is None or not self.sink(batch):
            self._waiting.extend(events)
            self._bytes += len(batch.frames)
            self._wake()

    def push(self, gap: Gap) -> None:
        """Tells it of a gap; called by the reader."""
        if self.renewed is not None:
            self.renewed()
        elif self._end is None:
            self._waiting.append(gap)
            self._wake()

    def _wake(self) -> None:
        if self._bytes > MOST_BYTES or len(self._waiting) > MOST_EVENTS:
            self.end("slow")
        elif self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def nudge(self) -> None:
        """Makes ``take`` return soon."""
        self._nudged = self.behind
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def end(self, why: End) -> None:
        """It gets nothing more; what waits can still be taken, except by one that is too slow."""
        if self._end is None:
            self._end = why
            if why == "slow":
                self._waiting.clear()
            self.nudge()
