"""One listener: where it is in its project's feed, and what waits to be taken by it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from coordinator.feed.cursor import Cursor, Entry, prefix
from coordinator.feed.events import Event, Gap
from coordinator.feed.filters import Filter

MOST_EVENTS = 1_000
MOST_BYTES = 256 * 1024
"""Events, and bytes of them, that may wait to be taken by a listener. Beyond that it is cut off."""

Item = Event | Gap
End = Literal["slow", "revoked", "drain", "gone"]
"""Why a listener gets nothing more: it took too little; its caller may not read any longer; this process is to stop;
its client has left."""


class Listener:
    """Made by ``FeedReader.listen``; to be closed by it.

    Args:
        at: from where on.
        catch_up: reads on from the stream, while the listener is behind the reader of the process; puts it among those
            that the reader serves as soon as it is not.
    """

    __slots__ = (
        "_bytes",
        "_catch_up",
        "_end",
        "_nudged",
        "_waiting",
        "_woken",
        "behind",
        "cursors",
        "entry",
        "filter",
        "project",
    )

    def __init__(self, at: Cursor, wanted: Filter, catch_up: Callable[[Listener], Awaitable[Sequence[Item]]]) -> None:
        self.project = at.project
        self.filter = wanted
        self.cursors = prefix(at.project, at.epoch)
        """What its cursors begin with."""
        self.entry = at.entry
        """All up to this entry has been given to it, or is not for it."""
        self.behind = True
        self._catch_up = catch_up
        self._waiting: deque[Item] = deque()
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
            found = await self._catch_up(self)
            if found or self._nudged or not self.behind:
                self._nudged = False
                return list(found)
        if not self._waiting and self._end is None:
            self._woken = asyncio.get_running_loop().create_future()
            try:
                await self._woken
            finally:
                self._woken = None
        taken, self._bytes = list(self._waiting), 0
        self._waiting.clear()
        return taken

    def push(self, item: Item) -> None:
        """Gives it an event or a gap that is for it; called by the reader."""
        if self._end is not None:
            return
        self._waiting.append(item)
        self._bytes += len(item.frame) if isinstance(item, Event) else 0
        if self._bytes > MOST_BYTES or len(self._waiting) > MOST_EVENTS:
            self.end("slow")
        elif self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def is_past(self, entry: Entry) -> bool:
        """Whether it has had this entry already: it was ahead of the reader when it joined."""
        return entry <= self.entry

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
