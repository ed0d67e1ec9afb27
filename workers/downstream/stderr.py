"""Logs what a server that is a child process writes besides its messages: on stderr, and by mistake on stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Set as AbstractSet
from typing import TextIO

import structlog

from coordinator.settings.connections import hidden

_log = structlog.get_logger(__name__)

_LONGEST_LINE = 500
_KEPT_BYTES = 65_536


class Lines(asyncio.Protocol):
    """Logs lines without the connection's secrets, and keeps the last few."""

    def __init__(self, name: str, secrets: AbstractSet[str]) -> None:
        self._secrets = secrets
        self.last: deque[str] = deque(maxlen=5)
        self._name = name
        self._rest = b""

    async def open(self, stack: contextlib.AsyncExitStack) -> TextIO:
        """Opens a pipe whose lines are logged, and returns the end that the server writes to."""
        reading, writing = os.pipe()
        file = os.fdopen(writing, "w")
        stack.callback(file.close)
        pipe = os.fdopen(reading, "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, pipe)
        stack.callback(transport.close)
        return file

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_KEPT_BYTES:]
        for line in lines:
            self.add(line)

    def add(self, line: bytes) -> None:
        """Logs a line."""
        text = hidden(line[:_KEPT_BYTES].decode(errors="replace"), self._secrets)[:_LONGEST_LINE].rstrip()
        if text:
            self.last.append(text)
            _log.debug("a connection's server says", connection=self._name, line=text)
