"""HTTP/1.1 for many small calls: connections that are kept, one request at a time on each.

An HTTP library costs several times what such a call costs otherwise, and ends in too many ways when a server is
killed in the middle of an answer. Here each request ends in an answer, or in ``Broken`` if its connection did not live
to see it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools

CONNECT_SECONDS = 5.0
_PATH = re.compile(r"\A(?:\w+://)?[^/]*/[^/]")
_MOST_BYTES = 256 << 20
"""Of one answer. The fleet's are far smaller; what else listens there must not fill the memory."""


def urls_of(text: str) -> list[str]:
    """URLs after commas, each once; a comma in a path is part of it, unless a scheme comes after it."""
    urls: list[str] = []
    for part in filter(None, map(str.strip, text.split(","))):
        if urls and "://" not in part and _PATH.search(urls[-1]):
            urls[-1] += f",{part}"
        else:
            urls.append(part)
    return list(dict.fromkeys(urls))


class Broken(Exception):
    """The connection was not made, or it ended before the answer: if ``connected``, the request may have arrived."""

    def __init__(self, why: str, connected: bool) -> None:
        super().__init__(why)
        self.connected = connected


class Origin(NamedTuple):
    """Where requests go."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    authority: str
    """For the header ``host``."""

    @classmethod
    def of(cls, url: str) -> Origin:
        """That of a URL with the scheme http or https. Raises ValueError: it is no such URL."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL such as http://127.0.0.1:8420")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("the URL of a fleet has no user, query or fragment")
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        return cls(parts.hostname, port, ssl.create_default_context() if secure else None, parts.netloc)


class Response(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> str:
        """The last header of that name, in lower case; empty: there is none."""
        values = [value for key, value in self.headers if key.lower() == name]
        return values[-1].decode("latin-1") if values else ""


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._bytes = 0
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop is no subclass
        self.open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._fail(Broken(str(exc) if exc else "the connection was closed", connected=True))

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self.close()  # nobody has asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Broken(f"not HTTP: {error}", connected=True))
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._bytes += len(body)
        if self._bytes > _MOST_BYTES:
            self._fail(Broken("the answer is too large", connected=True))
            self.close()

    def on_message_complete(self) -> None:
        parser, waiter = self._parser, self._waiter
        assert parser is not None  # noqa: S101  # it called this
        status = parser.get_status_code()
        if status < 200:
            self._headers = []
            return
        parts = self._parts
        response = Response(status, self._headers, parts[0] if len(parts) == 1 else b"".join(parts))
        if not parser.should_keep_alive():
            self.close()
        self._parser = self._waiter = None
        if waiter is not None and not waiter.done():
            waiter.set_result(response)

    async def request(self, message: bytes, seconds: float) -> Response:
        """Sends a request and returns its answer; the connection is of no use after an exception."""
        assert self._transport is not None  # noqa: S101
        self._headers, self._parts, self._bytes = [], [], 0
        self._parser = httptools.HttpResponseParser(self)
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        # Cheaper than asyncio.timeout.
        timer = loop.call_later(seconds, self._fail, TimeoutError())
        try:
            self._transport.write(message)
            return await self._waiter
        finally:
            timer.cancel()

    def close(self) -> None:
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter, self._parser = self._waiter, None, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)


class Pool:
    """The connections of one event loop to one origin. As many as there are requests at a time, the last used first."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self._idle: list[_Connection] = []
        self._closed = False
        self.requests = 0
        """How many were sent; not those for which there was no connection."""

    async def request(self, message: bytes, seconds: float) -> Response:
        """The answer to a request, given as bytes. Raises Broken, or TimeoutError: there was none in time."""
        connection = self._kept() or await self._connect()
        answered = False
        self.requests += 1
        try:
            response = await connection.request(message, seconds)
            answered = True
        finally:
            # What was given up may still be answered: nobody could tell whose answer that is.
            if not answered or self._closed:
                connection.close()
            elif connection.open:
                self._idle.append(connection)
        return response

    def close(self) -> None:
        """Closes all connections that are idle; those in use follow with their request."""
        self._closed = True
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _kept(self) -> _Connection | None:
        while self._idle:
            if (connection := self._idle.pop()).open:
                return connection
        return None

    async def _connect(self) -> _Connection:
        where = self.origin
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection, where.host, where.port, ssl=where.tls
                )
        except (OSError, TimeoutError, UnicodeError) as error:  # the last: no name of a host
            raise Broken(f"{where.host}:{where.port}: {str(error) or 'no answer'}", connected=False) from None
        return connection
