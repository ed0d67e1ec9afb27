"""One transport to the store, with the queue of calls that wait for replies; ``shared.py`` explains the design."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, cast

import hiredis

from coordinator.errors import ToolFailure
from coordinator.store.errors import ServerError, StoreError
from coordinator.store.link.replies import unavailable

FLUSH_AT = 4
"""With this many commands, the output is written before the end of the event loop's turn."""
MAX_IN_FLIGHT = 2048
_IDLE = 0.5
"""After this share of the timeout without calls, a PING is sent."""
FRESH = 1.6
"""After this multiple of the timeout without a reply, another server may have taken over: a PING is due every half a
timeout, is answered within a timeout, and some ticks pass until that is noticed. A failover has to take longer than
this."""
MAX_UNSENT_BYTES = 64 * 1024 * 1024
_PING = hiredis.pack_command(("PING",))
_Push = hiredis.PushNotification
SILENT = "was silent for too long"
_MISSING = object()
"""What the parser returns if it has no whole reply yet. None and False would not do: they are replies."""


def over_capacity() -> ToolFailure:
    """Too much is in flight to the store; nothing was sent."""
    return ToolFailure("over_capacity", "this process has too many calls to the store in flight", retry_after_ms=100)


def _seen(reply: asyncio.Future[Any]) -> None:
    """Retrieves the exception of a future that nobody awaits."""
    if not reply.cancelled():
        reply.exception()


class Connection(asyncio.Protocol):
    """One transport with its queue of waiting calls. Made by ``Link``, never reused."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout: float,
        limit: int,
        on_lost: Callable[[Connection, str, bool], None],
    ) -> None:
        self.lost = False
        self._loop = loop
        self._timeout = timeout
        self._tick = timeout / 20
        self._fresh = FRESH * timeout
        self._limit = limit
        self._on_lost = on_lost
        self.on_flush: Callable[[], None] | None = None
        """Called when the server reports FLUSHALL or FLUSHDB; may drop the connection."""
        self._transport: asyncio.Transport | None = None
        self._closed = asyncio.Event()
        self._reader = hiredis.Reader(replyError=ServerError, protocolError=StoreError, notEnoughData=_MISSING)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []
        self._scheduled = False
        self._paused = False
        self._unsent_bytes = 0
        self._answered = 0
        self._marks: deque[tuple[float, int]] = deque()
        self._sweep_due = 0.0
        self._proven, self._swept = inf, 0.0
        self._proofs = 0
        self._watched = self._strict = self._idle = False
        self._on_stale: Callable[[bytes], asyncio.Future[Any]] = self.submit
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """Set once the connection is made."""
        return self._transport

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @property
    def in_flight(self) -> int:
        """Calls without a reply, cancelled ones included."""
        return len(self._waiting)

    def submit(self, command: bytes) -> asyncio.Future[Any]:
        """Sends one packed command; the future gets its reply, error replies as ``ServerError`` values.

        Raises:
            ToolFailure: over_capacity.
        """
        waiting = self._waiting
        if len(waiting) >= self._limit:
            raise over_capacity()
        if not self._scheduled and self._loop.time() - self._proven > self._fresh and (self._strict or not waiting):
            return self._on_stale(command)
        if self._paused:
            if self._unsent_bytes + len(command) > MAX_UNSENT_BYTES:
                raise over_capacity()
            self._unsent_bytes += len(command)
        future = self._loop.create_future()
        waiting.append(future)
        out = self._out
        out.append(command)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end_of_turn)
        elif len(out) >= FLUSH_AT:
            self._flush()
        return future

    def watch(self, on_stale: Callable[[bytes], asyncio.Future[Any]], strict: bool) -> None:
        """From now on, requires regular replies as proof that the server is alive; it has just answered.

        Args:
            on_stale: gets a call instead of the server, when there was no reply for too long.
            strict: replies that arrive after that are discarded, too.
        """
        self._proven = self._swept = self._loop.time()
        self._proofs = self._answered
        self._on_stale, self._strict, self._watched = on_stale, strict, True
        if self._sweeper is None:
            self._schedule_sweep()

    def drop(self, why: str) -> None:
        """Ends the connection at once; waiting calls fail. ``why`` completes "the store ..."."""
        self._end(why, clean=why is SILENT)  # calls that arrive meanwhile may wait for the next connection
        if self._transport is not None:
            self._transport.abort()

    async def finish(self) -> None:
        """Waits for outstanding replies, at most until their deadline, and closes."""
        if self._waiting:
            await asyncio.wait(list(self._waiting))
        self.drop("was disconnected")
        await self._closed.wait()

    def _end_of_turn(self) -> None:
        self._scheduled = False
        if self.lost:
            self._fail_waiting("is not connected")
            return
        self._flush()
        if self._idle and self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        if self._sweeper is None:
            self._schedule_sweep()

    def _flush(self) -> None:
        out = self._out
        if out and self._transport is not None:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # uvloop holds writes back until the end of its turn unless they exceed this limit; the server should begin
        # earlier.
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        if self._strict and self._loop.time() - self._proven > self._fresh:
            self.drop(SILENT)
            return
        reader = self._reader
        reader.feed(data)
        gets, next_call, answered = reader.gets, self._waiting.popleft, 0
        try:
            while (reply := gets()) is not _MISSING:
                if type(reply) is _Push:
                    # An invalidation message; for FLUSHALL and FLUSHDB it names no keys.
                    if reply[0] == b"invalidate" and reply[1] is None and self.on_flush is not None:
                        self.on_flush()
                        if self.lost:
                            return
                    continue
                answered += 1
                try:
                    next_call().set_result(reply)
                except asyncio.InvalidStateError:
                    pass  # its caller was cancelled
        except IndexError:
            self.drop("sent an unexpected reply")
        except StoreError as error:
            self.drop(f"broke the protocol: {error}")
        self._answered += answered

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._unsent_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("closed the connection" if exc is None else "broke the connection", clean=True)
        self._closed.set()

    def _end(self, why: str, clean: bool) -> None:
        if self.lost:
            return
        self.lost = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._on_lost(self, why, clean)
        self._fail_waiting(why)

    def _fail_waiting(self, why: str) -> None:
        self._out.clear()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(unavailable(f"{why}; the call may or may not have taken effect"))

    def _schedule_sweep(self, idle: bool = False) -> None:
        self._idle = idle
        self._sweep_due = self._loop.time() + (self._timeout * _IDLE / 2 if idle else self._tick)
        self._sweeper = self._loop.call_at(self._sweep_due, self._sweep)

    def _sweep(self) -> None:
        """Drops the connection if a call is older than the deadline; at most two ticks late.

        A mark (time, number) says how many calls had been submitted at that time. So calls older than a mark have
        been answered once the number of answers has reached the mark's number.
        """
        now, marks = self._loop.time(), self._marks
        if self._watched and self._answered > self._proofs:
            self._proofs, self._proven = self._answered, self._swept  # these replies came after the previous sweep
        self._swept = now
        blocked = now - self._sweep_due
        if blocked > self._tick:
            # Our own event loop was blocked; that time does not count against the server.
            self._marks = marks = deque((at + blocked, count) for at, count in marks)
        while marks and marks[0][1] <= self._answered:
            marks.popleft()
        unheard = now - self._proven
        if unheard > self._fresh and (self._strict or not self._waiting):
            self.drop(SILENT)
            return
        if not self._waiting:
            if not self._watched:
                self._sweeper = None
                return
            if unheard >= _IDLE * self._timeout:
                self._sweeper = None  # the PING brings the next one
                self.submit(_PING).add_done_callback(_seen)
            else:
                self._schedule_sweep(idle=True)
            return
        if marks and now - marks[0][0] >= self._timeout:
            self.drop(f"did not answer within {round(self._timeout * 1000)} ms")
            return
        marks.append((now, self._answered + len(self._waiting)))
        self._schedule_sweep()
