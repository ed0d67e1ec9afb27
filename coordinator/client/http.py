"""HTTP/1.1 for many small calls: connections that are kept, one request at a time on each.

An HTTP library costs several times what such a call costs otherwise, and ends in too many ways when a server is
killed in the middle of an answer. Here each request ends in an answer, or in ``Broken`` if its connection did not live
to see it.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import httptools
import msgspec

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


class Response(msgspec.Struct):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    def header(self, name: bytes) -> str:
        """The last header of that name, in lower case; empty: there is none."""
        values = [value for key, value in self.headers.items() if key.lower() == name]
        return values[-1].decode("latin-1") if values else ""


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._bytes = 0
        self.open = False
        self.late_at = math.inf
        """When its answer is late; infinite: none is awaited."""
        # The parser calls them for each header and part of a body: methods of their own would cost more than the rest.
        self.on_header, self.on_body = self._headers.__setitem__, self._parts.append
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # that of uvloop is no subclass
        self.loop = asyncio.get_running_loop()
        self.open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._parts.clear()
        self._headers.clear()
        self._fail(Broken(str(exc) if exc else "the connection was closed", connected=True))

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.close()  # nobody has asked
            return
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            self._fail(Broken("the answer is too large", connected=True))
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Broken(f"not HTTP: {error}", connected=True))
            self.close()

    def on_message_begin(self) -> None:
        if self._waiter is None:
            self.close()  # after the answer, one that nobody has asked for

    def on_message_complete(self) -> None:
        status, waiter = self._parser.get_status_code(), self._waiter
        if status < 200:
            self._headers.clear()
            return
        response = Response(status, self._headers.copy(), b"".join(self._parts))
        self._headers.clear()
        self._parts.clear()
        self._waiter, self.late_at = None, math.inf
        if not self._parser.should_keep_alive():
            self.close()
        if waiter is not None and not waiter.done():
            waiter.set_result(response)

    def send(self, message: bytes, late_at: float) -> asyncio.Future[Response]:
        """Sends a request; its answer follows, and the connection is of no use after an exception."""
        assert self._transport is not None  # noqa: S101
        waiter: asyncio.Future[Response] = self.loop.create_future()
        self._bytes, self._waiter, self.late_at = 0, waiter, late_at
        self._transport.write(message)
        return waiter

    def close(self) -> None:
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def late(self) -> None:
        self._fail(TimeoutError())

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter, self.late_at = self._waiter, None, math.inf
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)


class Sent:
    """How many requests were sent; not those for which there was no connection."""

    def __init__(self) -> None:
        self.requests = 0


class Pool:
    """The connections of one event loop to one origin. As many as there are requests at a time, the last used first."""

    def __init__(self, origin: Origin, sent: Sent) -> None:
        self.origin = origin
        self._sent = sent
        self._idle: list[_Connection] = []
        self._connections: list[_Connection] = []
        self._look: asyncio.TimerHandle | None = None
        """One timer for all requests, because nearly all are answered in time."""
        self._looks_at = math.inf
        self._closed = False

    async def request(self, message: bytes, seconds: float) -> Response:
        """The answer to a request, given as bytes. Raises Broken, or TimeoutError: there was none in time."""
        while self._idle and not self._idle[-1].open:
            self._idle.pop()
        connection = self._idle.pop() if self._idle else await self._connect()
        late_at = connection.loop.time() + seconds
        if late_at < self._looks_at:
            self._look_at(connection.loop, late_at)
        self._sent.requests += 1
        try:
            response = await connection.send(message, late_at)
        except BaseException:
            connection.close()  # what was given up may still be answered: nobody could tell whose answer that is
            raise
        if self._closed:
            connection.close()
            self._stop_looking()
        elif connection.open:
            self._idle.append(connection)
        return response

    def close(self) -> None:
        """Closes all connections that are idle; those in use follow with their request."""
        self._closed = True
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._stop_looking()

    def _stop_looking(self) -> None:
        if self._look is not None and self._next_late() == math.inf:
            self._look.cancel()
            self._looks_at, self._look = math.inf, None

    def _next_late(self) -> float:
        """When the next answer is late; infinite: none is awaited."""
        return min((connection.late_at for connection in self._connections), default=math.inf)

    def _look_at(self, loop: asyncio.AbstractEventLoop, moment: float) -> None:
        if self._look is not None:
            self._look.cancel()
        self._looks_at, self._look = moment, loop.call_at(moment, self._look_for_late, loop)

    def _look_for_late(self, loop: asyncio.AbstractEventLoop) -> None:
        # A timer may come a little early, by the clock that the loop reads now and then.
        now = max(loop.time(), self._looks_at)
        self._looks_at, self._look = math.inf, None
        for connection in self._connections:
            if connection.late_at <= now:
                connection.late()
        if (following := self._next_late()) < math.inf:
            self._look_at(loop, following)

    async def _connect(self) -> _Connection:
        where = self.origin
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection, where.host, where.port, ssl=where.tls
                )
        except (OSError, TimeoutError, UnicodeError) as error:  # the last: no name of a host
            raise Broken(f"{where.host}:{where.port}: {str(error) or 'no answer'}", connected=False) from None
        self._connections = [one for one in self._connections if one.open] + [connection]
        return connection
