"""The requests of one client that are still to be answered.

When its input ends, the SDK's server cancels what it has begun. So it hears of the end only when all that came before
is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage


class _Stream:
    """What both directions have in common."""

    def __init__(self, stream: Any, in_flight: InFlight) -> None:
        self._stream = stream
        self._in_flight = in_flight

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Incoming(_Stream):
    """Messages of the client; ends when those that came are answered."""

    async def receive(self) -> SessionMessage | Exception:
        try:
            message: SessionMessage | Exception = await self._stream.receive()
        except anyio.EndOfStream:
            await self._in_flight.answered()
            raise
        if isinstance(message, SessionMessage) and isinstance(message.message, types.JSONRPCRequest):
            message.metadata = self._in_flight.begin()
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class Outgoing(_Stream):
    """Messages to the client."""

    async def send(self, message: SessionMessage) -> None:
        if isinstance(message.message, types.JSONRPCResponse | types.JSONRPCError):
            await self._in_flight.answer(self._stream, message)
        else:
            await self._stream.send(message)


class InFlight:
    """Counts requests until their answers are handed over.

    Args:
        seconds: how long, after the end of the input, requests may still be handled.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._handled = 0
        self._sent = 0
        self._fewer = asyncio.Event()

    def begin(self) -> ServerMessageMetadata:
        """A request has come. Returns what it has to carry."""
        self._handled += 1
        return ServerMessageMetadata(on_request_unanswered=self._cancelled)

    async def answer(self, stream: Any, message: SessionMessage) -> None:
        self._handled -= 1
        self._sent += 1
        self._fewer.set()
        try:
            await stream.send(message)
        finally:
            self._sent -= 1
            self._fewer.set()

    async def answered(self) -> None:
        """Waits until all are answered, or handled for too long. A client may take its time to read."""
        with anyio.move_on_after(self._seconds):
            await self._until(lambda: not self._handled)
        await self._until(lambda: not self._sent)

    async def _cancelled(self) -> None:
        """The client has cancelled a request, which gets no answer."""
        self._handled -= 1
        self._fewer.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._fewer.clear()
            await self._fewer.wait()
