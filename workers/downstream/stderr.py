"""Logs what a server that is a child process writes besides its messages: on stderr, and by mistake on stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Set as AbstractSet
from typing import TextIO

import anyio
import structlog

from coordinator.settings.sections.connections import hidden

_log = structlog.get_logger(__name__)

_LONGEST_LINE = 500
_KEPT_BYTES = 65_536
_REST_SECONDS = 0.2
"""How long the rest of what a server that has ended wrote may take. Processes that it left behind may hold its pipe."""


class Lines(asyncio.Protocol):
    """Logs lines without the connection's secrets, and keeps the last few."""

    def __init__(self, name: str, secrets: AbstractSet[str]) -> None:
        self._secrets = secrets
        self.last: deque[str] = deque(maxlen=5)
        self._name = name
        self._rest = b""
        self._over = asyncio.Event()

    async def open(self, stack: contextlib.AsyncExitStack) -> TextIO:
        """Opens a pipe whose lines are logged, and returns the end that the server writes to."""
        reading, writing = os.pipe()
        file = os.fdopen(writing, "w")
        stack.callback(file.close)
        pipe = os.fdopen(reading, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, pipe)

        async def read_rest() -> None:
            file.close()
            try:
                with anyio.move_on_after(_REST_SECONDS):
                    await self._over.wait()
            finally:
                transport.close()

        stack.push_async_callback(read_rest)
        return file

    def connection_lost(self, exc: Exception | None) -> None:
        self.add(self._rest)
        self._rest = b""
        self._over.set()

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_KEPT_BYTES:]
        for line in lines:
            self.add(line)

    def add(self, line: bytes) -> None:
        text = hidden(line[:_KEPT_BYTES].decode(errors="replace"), self._secrets)[:_LONGEST_LINE].rstrip()
        if text:
            self.last.append(text)
            _log.debug("a connection's server says", connection=self._name, line=text)
