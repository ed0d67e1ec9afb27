"""Answers that last: streams of the change feed, of subscriptions, and of tabs of the console.

One task for all streams of a kind looks once a second who needs a sign of life, whose rights have to be checked again,
and who takes nothing any more. So a stream costs a connection, no timers, and no task that wakes for each of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any, Generic, TypeVar

from coordinator import metrics
from coordinator.errors import ToolFailure
from coordinator.feed.listener import End
from coordinator.service import Service, end_tasks
from coordinator.transport.http.replies import CONNECTION, STREAM_HEADERS, Connection, Scope, Send

TICK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
"""How long a stream is silent at most."""
RECHECK_SECONDS = 20.0
"""How often the rights of a caller are checked again; with a tick and a slow key server, it takes less than 30 s."""
STUCK_SECONDS = 30.0
"""A client that has taken nothing for so long is cut off, also if there is little for it."""
DRAIN_SECONDS = 5.0
"""Over how long the ends of streams are spread when this process stops."""
AWAY_SECONDS = 1.0
"""The pause of a stream that has to read while the store does not answer."""
RETRY_MS = 2_000
"""After about how long clients connect again."""
FULL_MS = 5_000
"""The retry delay of clients for whom there is no room."""

_LAST_WORDS: dict[End, bytes] = {
    "slow": b"events came faster than they were taken; connect again with the last id",
    "revoked": b"the rights of this token have ended or changed; connect again",
    "drain": b"this process takes no new work; connect again",
    "moved": b"the project is served from another store; connect to its fleet",
}


class Stream(ABC):
    """An answer that lasts.

    Args:
        caller_id: of the identified caller; '' if there is none.
        connection: None: it did not come over HTTP by our protocol.
    """

    __slots__ = ("_ended", "beat_at", "caller_id", "connection", "recheck_at", "untaken_since", "written")

    def __init__(self, caller_id: str, connection: Connection | None) -> None:
        now = asyncio.get_running_loop().time()
        self.caller_id = caller_id
        self.connection = connection
        self._ended: End | None = None
        self.written = False
        """Whether something was written to the connection since the last tick."""
        self.beat_at = now + HEARTBEAT_SECONDS
        self.recheck_at = now + RECHECK_SECONDS * random.uniform(0.8, 1.0)
        self.untaken_since: float | None = None
        """Since when something waits until its client takes it; None: nothing does."""

    @property
    def ended(self) -> End | None:
        """Why it ends; None: it goes on."""
        return self._ended

    def end(self, why: End) -> None:
        """Makes it end soon."""
        self._ended = self._ended or why
        self.wake()

    @abstractmethod
    def wake(self) -> None:
        """Makes it look at what it has to do."""

    @abstractmethod
    async def permitted(self) -> bool:
        """Whether its caller may still have it. Raises ToolFailure: that cannot be told now."""

    @abstractmethod
    def beat(self) -> None:
        """Has a sign of life sent, after a silence."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what it holds, at its end."""

    async def taken(self, sending: Awaitable[object]) -> None:
        """Sends something that may wait until its client takes it."""
        loop = asyncio.get_running_loop()
        self.untaken_since = loop.time()
        await sending
        self.untaken_since, self.beat_at = None, loop.time() + HEARTBEAT_SECONDS


class EventStream(Stream):
    """One of server-sent events."""

    __slots__ = ("_send",)

    def __init__(self, caller_id: str, scope: Scope, send: Send) -> None:
        super().__init__(caller_id, scope.get(CONNECTION))
        self._send = send
        if self.connection is not None:
            self.connection.on_lost = lambda: self.end("gone")

    def close(self) -> None:
        if self.connection is not None:
            self.connection.on_lost = None

    async def begin(self, first: bytes) -> None:
        """Sends the head of the answer, and the first events."""
        await self._send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await self.send(b"%b%b" % (_retry(), first))

    async def send(self, body: bytes) -> None:
        await self.taken(self._send({"type": "http.response.body", "body": body, "more_body": True}))

    async def finish(self) -> None:
        """Says why it ends, and when to connect again."""
        why = self.ended
        if why is not None and why != "gone":
            await self._send({"type": "http.response.body", "body": _last(why)})


async def send_away(send: Send) -> None:
    """Answers a request for an event stream while this process takes no new work. A browser would take any other
    status than 200 for the end, and not come back."""
    await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
    await send({"type": "http.response.body", "body": _last("drain")})


def _last(why: End) -> bytes:
    return b": %b\n%b\n" % (_LAST_WORDS[why], _retry())


def _retry() -> bytes:
    return b"retry: %d\n" % int(RETRY_MS * random.uniform(0.5, 1.5))


S = TypeVar("S", bound=Stream)
Watch = Callable[[], Coroutine[Any, Any, None]]


class Streams(Service, Generic[S]):
    """The streams of one kind in this process.

    Args:
        name: of the kind, in the names of tasks.
        level: how many are open.
        cut: counts those that have ended, if it was not their client that left, by why.
        watches: run while there are streams; each returns when there are none.
    """

    def __init__(self, name: str, level: metrics.Gauge, cut: metrics.Counter | None = None, *watches: Watch) -> None:
        self.open = set[S]()
        """Those that are open now."""
        self.callers = Counter[str]()
        """How many each caller has; that of unidentified ones is ''."""
        self.draining = False
        """Whether this process takes no new work."""
        self._name = name
        self._level = level
        self._cut = cut
        self._watching: dict[Watch, asyncio.Task[None] | None] = dict.fromkeys((self._tick, *watches))
        self._rechecks = set[asyncio.Task[None]]()

    def hold(self, held: bool, seconds: float = DRAIN_SECONDS) -> None:
        """Ends all streams, spread over some seconds, because this process takes no new work; or serves them again."""
        self.draining = held
        if held:
            loop = asyncio.get_running_loop()
            for stream in self.open:
                loop.call_later(random.uniform(0, seconds), stream.end, "drain")

    async def stop(self, deadline: float = 0.0) -> None:
        await end_tasks(*filter(None, self._watching.values()), *self._rechecks)

    @contextlib.contextmanager
    def entered(self, stream: S) -> Iterator[None]:
        """Has a stream among those that are open."""
        self.open.add(stream)
        self.callers[stream.caller_id] += 1
        self._level.set(len(self.open))
        for watch, task in self._watching.items():
            if task is None or task.done():
                # In an empty context, so that its log lines do not carry the id of a request.
                self._watching[watch] = asyncio.create_task(watch(), name=self._name, context=Context())
        try:
            yield
        finally:
            if self._cut is not None and stream.ended is not None and stream.ended != "gone":
                self._cut.labels(stream.ended).inc()
            stream.close()
            self.open.discard(stream)
            self.callers[stream.caller_id] -= 1
            if not self.callers[stream.caller_id]:
                del self.callers[stream.caller_id]
            self._level.set(len(self.open))

    def recheck(self, stream: S) -> None:
        """Has the rights of its caller checked again."""
        stream.recheck_at = asyncio.get_running_loop().time() + RECHECK_SECONDS
        task = asyncio.create_task(self._check(stream), name=f"rights of {self._name}", context=Context())
        self._rechecks.add(task)
        task.add_done_callback(self._rechecks.discard)

    @staticmethod
    async def _check(stream: S) -> None:
        with contextlib.suppress(ToolFailure):  # which says nothing about the rights
            if not await stream.permitted():
                stream.end("revoked")

    async def _tick(self) -> None:
        while self.open:
            await asyncio.sleep(TICK_SECONDS)
            now = asyncio.get_running_loop().time()
            for stream in tuple(self.open):
                self._look(stream, now)

    def _look(self, stream: S, now: float) -> None:
        if stream.written:
            stream.written, stream.beat_at = False, now + HEARTBEAT_SECONDS
        patience = STUCK_SECONDS if stream.ended is None else TICK_SECONDS
        since, connection = stream.untaken_since, stream.connection
        if since is not None and now - since >= patience and connection is not None:
            stream.end("slow")
            connection.abort()
        elif stream.beat_at <= now:
            stream.beat()
        if stream.recheck_at <= now:
            self.recheck(stream)
