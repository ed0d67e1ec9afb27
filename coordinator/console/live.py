"""Tells tabs what has changed: one event stream (SSE) per visible tab.

Each process follows the change feed once per project and rights, and sends all tabs there the same frames: the ids that
have changed since the last frame, by toolset. Tabs ask again for the regions that show them. A frame's id is a position
in the feed, so a tab that connects again, to any process, hears at once what it has missed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from coordinator.console.metrics import BYTES, FRAMES, GAPS, TABS
from coordinator.console.viewer import Viewer
from coordinator.errors import ToolFailure
from coordinator.feed import Cursor, FeedReader, Filter, Gap, Listener
from coordinator.feed.cursor import parse
from coordinator.feed.events import Event
from coordinator.feed.kinds import NAMES, ROLES, uuid
from coordinator.service import end_tasks
from coordinator.transport import streams
from coordinator.transport.feed.ids import limited
from coordinator.transport.http.replies import Scope, Send
from coordinator.transport.streams import FULL_MS, EventStream, Streams, send_away

PACE_SECONDS = 0.5
PACE_SECONDS_PER_TAB = 0.0012
"""Frames follow each other in ``PACE_SECONDS`` at least, and more with many tabs."""
GATHER_SECONDS = 0.05
"""What happens so soon after the first change is in the same frame."""
LOOK_SECONDS_PER_TAB = 0.2
"""For each tab of the process, a tab waits this much longer before it looks at changes that it does not show."""
MOST_IDS = 200
"""Ids of a frame; if there are more, tabs ask for all that they show."""
MOST_REPLAYED = 2_000
"""Events that a tab which connects again is told of one by one."""
MOST_TABS = 2_000
STORE_SECONDS = 2.0
"""How often a process with tabs asks the store for a sign of life, to tell them when there is none."""
INBOX = "inbox"
"""What frames call the ids of what may have come into the inbox or gone from it, beside their toolset's."""
_encode = msgspec.json.Encoder().encode
_ASK = frozenset((
    "gateway.asked", "gateway.answered", "gateway.ended", "step.waiting", "step.released", "step.ended", "flow.ended",
    "flow.retried", "item.delete", "session.yield", "session.answer", "session.complete",
))  # fmt: skip
_BLOCKED = str(ROLES.index("blocked"))
_Recheck = Callable[[], Awaitable[Viewer | None]]


class Rights(NamedTuple):
    """Tabs with the same rights in a project share frames."""

    project: str
    filter: Filter


class _Tab(EventStream):
    """A stream; ``recheck`` says who the viewer is now (None: they are signed out)."""

    def __init__(self, scope: Scope, send: Send, viewer: Viewer, recheck: _Recheck) -> None:
        super().__init__("", scope, send)
        self._viewer = viewer
        self._recheck = recheck
        self.behind = False
        """Whether its client has not taken the last frame."""
        self._begun = False
        """Whether the head of its answer is sent; nothing may be written before that."""
        self._waiting: list[bytes] = []
        """Frames of a stream that has not begun, or for another server than ours, which is not written to directly."""
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    def beat(self) -> None:
        self.tell(_BEAT)

    async def permitted(self) -> bool:
        return await self._recheck() == self._viewer

    def tell(self, frame: _Frame) -> bool:
        """Writes a frame if the client takes it; it is told later to look at everything if it does not."""
        if self.connection is None or not self._begun:
            self._waiting.append(frame.text)
            self.wake()
            return True
        if not self.connection.write_chunk(frame.chunk):
            if self.untaken_since is None:
                self.untaken_since = asyncio.get_running_loop().time()
            return False
        self.untaken_since, self.written = None, True
        return True

    async def send_frames(self) -> None:
        """Sends the frames that wait, until it ends; others are written at once."""
        self._begun = True
        while self.ended is None:
            await self._woken.wait()
            self._woken.clear()
            for text in self._waiting:
                await self.send(text)
            self._waiting.clear()
        await self.finish()


class _Frame:
    """A frame, and how it is sent as a chunk of an answer over HTTP."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.chunk = b"%x\r\n%b\r\n" % (len(text), text)


_BEAT = _Frame(b"event: beat\ndata\n\n")
"""Not a comment, which scripts do not hear of: a page that hears nothing takes the connection for dead."""


class _Changes:
    """The ids that have changed since the last frame, by toolset."""

    def __init__(self) -> None:
        self.ids: dict[str, set[str]] = {}
        self.count = 0
        self.reset = False

    def add(self, item: Event | Gap) -> None:
        if isinstance(item, Gap):
            self.reset = True
            return
        ids = self.ids.setdefault(item.toolset, set())
        self.count -= len(ids)
        ids.update(map(uuid, item.ids) if item.kind.of_items else item.ids)
        self.count += len(ids)
        if asks_people(item):
            self.ids.setdefault(INBOX, set()).add(uuid(item.id))
        if self.count > MOST_IDS:
            self.reset = True

    def frame(self, cursor: str, tabs: int) -> _Frame:
        changed = {} if self.reset else {toolset: sorted(ids) for toolset, ids in self.ids.items()}
        said = {
            "now": int(time.time() * 1000),
            "changed": changed,
            "reset": self.reset,
            "look": round(max(1.0, tabs * LOOK_SECONDS_PER_TAB), 2),
        }
        return _Frame(b"id: %b\ndata: %b\n\n" % (cursor.encode(), _encode(said)))

    @property
    def any(self) -> bool:
        return bool(self.count) or self.reset


def asks_people(event: Event) -> bool:
    """Whether an event may change what waits for people: questions block their items."""
    if event.kind.name == "item.transition":
        return _BLOCKED in (event.fields["f"], event.fields["t"])
    return event.kind.name in _ASK


class Live(Streams[_Tab]):
    """The streams of one process; ``ping`` asks the store for a sign of life, or raises ToolFailure."""

    def __init__(self, reader: FeedReader, ping: Callable[[], Awaitable[object]]) -> None:
        super().__init__("tabs of the console", TABS, None, self._watch_store)
        self._reader = reader
        self._ping = ping
        self._groups: dict[Rights, set[_Tab]] = {}
        self._following: dict[Rights, asyncio.Task[None]] = {}

    def recheck_all(self) -> None:
        """Has the rights of all tabs checked again now."""
        for tab in self.open:
            self.recheck(tab)

    async def stop(self, deadline: float = 0.0) -> None:
        await super().stop()
        await end_tasks(*self._following.values())

    async def position(self, project: str) -> str:
        """The present position in a project's feed. Raises ToolFailure."""
        reached = self._reader.reached(project)
        if reached is not None:
            return str(reached)
        position = await self._reader.position(project, None)
        return str(Cursor(project, position.epoch, position.position))

    async def serve(
        self, scope: Scope, send: Send, project: str, after: str, viewer: Viewer, recheck: _Recheck
    ) -> None:
        """Answers a request for a stream.

        Args:
            recheck: the viewer as they are now; None: they are signed out.

        Raises:
            ToolFailure: there is no room, the position is malformed, or the store does not answer.
        """
        at = parse(after, project)
        if self.draining:
            await send_away(send)
            return
        if len(self.open) >= MOST_TABS:
            raise ToolFailure("over_capacity", f"{len(self.open)} tabs are open here already", retry_after_ms=FULL_MS)
        everything = Filter(kinds=frozenset(NAMES))
        wanted = limited(everything, viewer.caller, None if viewer.caller is None else viewer.readable())
        rights = Rights(project, wanted)
        tab = _Tab(scope, send, viewer, recheck)
        tabs = self._groups.setdefault(rights, set())
        tabs.add(tab)  # before it catches up, so that it misses nothing
        try:
            with self.entered(tab):
                cursor, missed = await self._missed(at, wanted)
                await tab.begin(missed.text)
                self._follow(rights, cursor)
                await tab.send_frames()
        finally:
            tabs.discard(tab)
            if not tabs and rights not in self._following:  # it has never got so far
                self._groups.pop(rights, None)

    async def _missed(self, at: Cursor, wanted: Filter) -> tuple[str, _Frame]:
        """Up to where it has read, and a frame with what has changed since a position."""
        changes = _Changes()
        listener = self._reader.listen(at, wanted)
        events = 0
        try:
            while listener.behind and events <= MOST_REPLAYED:
                items = await listener.take()
                events += len(items)
                for item in items:
                    changes.add(item)
            if listener.behind:
                changes.reset = True
                position = await self._reader.position(at.project, None)
                cursor = str(Cursor(at.project, position.epoch, position.position))
            else:
                cursor = self._reader.cursor_of(listener)
        finally:
            self._reader.close(listener)
        return cursor, changes.frame(cursor, len(self.open))

    async def _watch_store(self) -> None:
        """Tells the tabs when the store does not answer any more, and when it does again; ends with the last tab."""
        was_away = False
        while self.open:
            try:
                await self._ping()
                away = False
            except ToolFailure:
                away = True
            if away != was_away:
                was_away = away
                frame = _Frame(b"event: store\ndata: %b\n\n" % (b"away" if was_away else b"back"))
                for tab in self.open:
                    tab.tell(frame)
            await asyncio.sleep(STORE_SECONDS)

    def _follow(self, rights: Rights, cursor: str) -> None:
        task = self._following.get(rights)
        if task is None or task.done():
            self._following[rights] = asyncio.create_task(self._frames(rights, cursor), name="console frames")

    async def _frames(self, rights: Rights, cursor: str) -> None:
        """Sends the tabs of a group their frames from a position on, until it has none."""
        tabs = self._groups[rights]
        listener = self._reader.listen(parse(cursor, rights.project), rights.filter)
        try:
            while tabs:
                try:
                    changes = await self._gathered(listener)
                except ToolFailure:
                    await asyncio.sleep(streams.AWAY_SECONDS)
                    continue
                if changes.any:
                    self._send(tabs, changes.frame(self._reader.cursor_of(listener), len(self.open)))
                    if changes.reset:
                        GAPS.inc()
                    await asyncio.sleep(max(PACE_SECONDS, len(self.open) * PACE_SECONDS_PER_TAB) - GATHER_SECONDS)
                elif listener.ended is not None:  # it was too slow
                    self._reader.close(listener)
                    listener = self._reader.listen(parse(listener.cursor, rights.project), rights.filter)
        finally:
            self._reader.close(listener)
            self._following.pop(rights, None)
            if not tabs:
                self._groups.pop(rights, None)

    async def _gathered(self, listener: Listener) -> _Changes:
        """What has changed, as soon as something has, or nothing after a while."""
        changes = _Changes()
        try:
            async with asyncio.timeout(streams.HEARTBEAT_SECONDS):
                items = await listener.take()
        except TimeoutError:
            return changes
        if items:
            await asyncio.sleep(GATHER_SECONDS)
            items += listener.taken()
        for item in items:
            changes.add(item)
        return changes

    def _send(self, tabs: set[_Tab], frame: _Frame) -> None:
        sent = 0
        late: _Frame | None = None
        for tab in tuple(tabs):
            frame_sent = frame
            if tab.behind:
                late = late or _Frame(frame.text.replace(b'"reset":false', b'"reset":true'))
                frame_sent = late
            tab.behind = not tab.tell(frame_sent)
            sent += not tab.behind
        FRAMES.inc(sent)
        BYTES.inc(sent * len(frame.chunk))
