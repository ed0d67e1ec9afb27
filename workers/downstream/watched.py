"""Watches the messages of a server, and notices its end while nobody calls it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage


class Watched:
    """A transport that calls ``on_message`` with each message of its server, and ``on_end`` when the server is gone,
    even while nobody calls it."""

    def __init__(self, inner: Any, on_message: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_message = on_message
        self._on_end = on_end

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._inner.__aenter__()
        return _WatchedStream(read, self._on_message, self._on_end), write

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        ended: bool | None = await self._inner.__aexit__(kind, error, trace)
        return ended


class _WatchedStream:
    def __init__(self, inner: Any, on_message: Callable[[Any], None], on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_message = on_message
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            heard = await self._inner.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._on_end()
            raise
        if isinstance(heard, SessionMessage):
            self._on_message(heard.message)
        return heard
