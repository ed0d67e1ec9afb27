"""A proxy that simulates a distant store: delays the server's answers.

``python -m benchmarks.delay SERVER LISTEN`` (paths of Unix sockets) reads the delay in milliseconds from stdin, line by
line. It does not parse the stream and forwards each read as one write, so it costs a few microseconds for many calls.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import NamedTuple, cast

import uvloop


class _Delay:
    """The delay of answers, in seconds."""

    seconds = 0.0


class _Answer(NamedTuple):
    """A delayed answer."""

    due: float
    """When it is forwarded, by the event loop's clock."""
    data: bytes


class _Server(asyncio.Protocol):
    """The connection to the server, whose answers are delayed."""

    def __init__(self, client: asyncio.Transport, delay: _Delay) -> None:
        self._client = client
        self._delay = delay
        self._held: deque[_Answer] = deque()

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        if not self._held and not self._delay.seconds:
            self._client.write(data)
            return
        due = loop.time() + self._delay.seconds
        # In order of arrival, even if the delay becomes shorter.
        due = max(due, self._held[-1].due) if self._held else due
        self._held.append(_Answer(due, data))
        loop.call_at(due, self._pass_on)

    def _pass_on(self) -> None:
        self._client.write(self._held.popleft().data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()


class _Client(asyncio.Protocol):
    """The connection of a client."""

    def __init__(self, server: str, delay: _Delay) -> None:
        self._path = server
        self._delay = delay
        self._server: asyncio.Transport | None = None
        self._early = b""
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connecting = asyncio.ensure_future(self._connect(cast("asyncio.Transport", transport)))

    async def _connect(self, client: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        made, _ = await loop.create_unix_connection(lambda: _Server(client, self._delay), self._path)
        made.write(self._early)
        self._server = made

    def data_received(self, data: bytes) -> None:
        if self._server is None:
            self._early += data
        else:
            self._server.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._server is not None:
            self._server.close()


async def _serve(server: str, listen: str) -> None:
    delay = _Delay()
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await loop.create_unix_server(lambda: _Client(server, delay), listen)
    print("ready", flush=True)
    while line := await lines.readline():
        delay.seconds = float(line) / 1000
        print("told", flush=True)


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], sys.argv[2]))
