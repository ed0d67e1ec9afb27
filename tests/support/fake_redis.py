"""A server that speaks the wire protocol and misbehaves as a test defines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import hiredis

Talk = Callable[["Peer"], Awaitable[None]]
GREETING = {
    b"HELLO": b"%3\r\n+server\r\n+fake\r\n+proto\r\n:3\r\n+role\r\n+master\r\n",
    b"CLIENT": b"+OK\r\n",
    b"PING": b"+PONG\r\n",
}


INTRODUCTION = {b"CLIENT": b"+OK\r\n", b"HMGET": b"*4\r\n" + b"$-1\r\n" * 4, b"GET": b"$-1\r\n"}
"""Answers to a store's queries on a new connection: the server has no identity."""


def bulk(data: bytes) -> bytes:
    """A string reply."""
    return b"$%d\r\n%s\r\n" % (len(data), data)


class Peer:
    """One client's connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.number = number
        """1 for the first connection, and so on."""
        self._reader = reader
        self._writer = writer
        self._parser = hiredis.Reader()

    async def command(self) -> list[bytes]:
        """The next command; ends the conversation when the client has disconnected."""
        while (command := self._parser.gets()) is False:
            data = await self._reader.read(65536)
            if not data:
                raise ConnectionResetError
            self._parser.feed(data)
        words: list[bytes] = command
        return words

    async def greet(self, **changes: bytes) -> None:
        """Answers the handshake of a link; ``changes`` by command name."""
        answers = GREETING | {name.encode(): answer for name, answer in changes.items()}
        for name in GREETING:
            assert (await self.command())[0] == name
            self.send(answers[name])

    async def introduce(self, **changes: bytes) -> None:
        """The same, and ``INTRODUCTION``."""
        await self.greet(**changes)
        for name, answer in INTRODUCTION.items():
            assert (await self.command())[0] == name
            self.send(answer)

    async def has_layout(self) -> None:
        """Answers that no layout is noted in the store yet."""
        assert (await self.command())[0] == b"GET"
        self.send(b"$-1\r\n")

    async def usual(self) -> None:
        """Answers which generation of functions is in use: the usual one."""
        assert (await self.command())[0] == b"HGET"
        self.send(b"$-1\r\n")

    async def echo(self) -> None:
        """Answers ECHO commands from now on."""
        while True:
            words = await self.command()
            self.send(bulk(words[1]) if len(words) > 1 else b"+PONG\r\n")

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def hang_up(self) -> None:
        self._writer.transport.abort()


class FakeRedis:
    """Counts its connections and lets ``talk`` serve each."""

    def __init__(self, talk: Talk) -> None:
        self.connections = 0
        self.port = 0
        self._talk = talk
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Future[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        """Listens on the loopback interface."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        self.connections += 1
        self._writers.append(writer)
        self._tasks.append(asyncio.ensure_future(self._serve(Peer(reader, writer, self.connections), writer)))

    async def _serve(self, peer: Peer, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await self._talk(peer)
        writer.close()

    async def end(self) -> None:
        """Stops listening and closes all connections; raises the failure of a talk."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        await server.wait_closed()
