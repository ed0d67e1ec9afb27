"""uvicorn's HTTP protocol, with limits on the size and arrival time of requests, and without upgrades.

An application sees a request only when its head is complete, so it cannot reject a head that is too long or never
ends. This class limits the bytes of a head, and the seconds until a whole request has arrived, because slow clients
could otherwise hold connections for ever. For a request that arrives in one piece, as almost all do, this costs a few
comparisons.

Trailers after a chunked body are not part of the head (RFC 9110, 6.5.1). The parser reports them like headers; they are
dropped here, and count towards the same limit. If a client pipelines requests, further data is buffered unparsed until
the last of them is being answered, so that a disconnect is noticed meanwhile. If the buffer is full, reading pauses.

Java's HTTP client offers HTTP/2 (``Upgrade: h2c``) with the first request on each connection. The right answer is to
ignore the offer and answer the request. But the parser treats every upgrade as accepted and leaves the body unread, so
such a request is parsed again without the header. ``CONNECT`` asks for a tunnel and is refused.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import resource
import socket
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.transport.http.replies import CONNECTION, GONE

ARRIVAL_SECONDS = 30.0
"""Seconds until a whole request must have arrived."""
AHEAD_BYTES = 65_536
"""Bytes buffered behind pipelined requests; beyond that, reading pauses."""
MOST_UNFINISHED = 4_096
"""How many connections may have no request or only part of one."""
_LOOKS = 8

_UPGRADING = frozenset((b"upgrade", b"http2-settings"))

_warn = ThrottledWarnings()

_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_OWN_TARGETS = (b"/", b"*")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)


class BoundedHttpProtocol(HttpToolsProtocol):
    """For ``uvicorn.Config(http=...)``; ``bounded`` makes one with other limits."""

    head_limit = 65_536
    """Bytes of a request's first line and headers, and of chunk headers and trailers."""
    arrival_seconds = ARRIVAL_SECONDS
    unfinished: ClassVar[dict[BoundedHttpProtocol, None]] = {}
    """The connections whose request is incomplete, oldest first."""
    most_unfinished = MOST_UNFINISHED

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self.arriving: asyncio.TimerHandle | None = None
        """Ends the time in which a request has to arrive, while one is expected."""
        self.on_lost: Callable[[], None] | None = None
        """Set by a request that is answered for long, to hear of the client's disconnect."""
        self._data = b""
        self._reparse = b""
        self._progressed = False
        self._answering: Any = None
        """The request being answered; ``cycle`` is the last one received."""
        self._held = bytearray()
        """Buffered data, not parsed yet."""
        self._refusal = b""
        """The status of a rejection that waits for the answers to earlier requests; further data is ignored."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # uvloop delays writes until the end of its loop iteration unless they exceed this limit. With 0, a quick
        # rejection does not wait for the other calls of the iteration.
        transport.set_write_buffer_limits(high=0)
        # uvicorn's own timer covers only the time between requests; new connections need a timeout too.
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        if self.on_lost is not None:
            self.on_lost()
        if self._answering is not None and not self._answering.response_complete:
            # uvicorn notifies only the last one, and lets this one write to a closed connection.
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)
        # uvicorn leaves this timer running if the client resets the connection, which keeps the connection in memory.
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if self._refusal:
            return
        if self.pipeline:
            self._hold(data)
            return
        self._progressed = False
        rest = data
        while rest:
            self._data, self._reparse = rest, b""
            super().data_received(rest)
            rest = self._reparse
        if self.transport.is_closing():
            return
        if self.pipeline:
            # uvicorn has paused reading, so it would not notice a disconnect.
            self.flow.resume_reading()
        if self._refusal:
            return
        scope: Any = self.scope
        if scope is None or "method" not in scope or not self._progressed:
            # Unknown: how many bytes belong to a head that begins here behind other requests.
            self._head_bytes = 0 if self._progressed else self._head_bytes + len(data)
            if self._head_bytes > self.head_limit:
                self._refuse(b"431 Request Header Fields Too Large")
            else:
                self._expect()
            return
        self._head_bytes = 0
        cycle = self.cycle
        if cycle.more_body and not cycle.response_complete:
            self._expect()
        elif self.arriving is not None:
            self._arrived()

    def on_header(self, name: bytes, value: bytes) -> None:
        if "method" not in self.scope:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._progressed = True
        if not self.url.startswith(_OWN_TARGETS) and self.parser.get_method() != b"CONNECT":
            self._take_absolute_target()
        scope: Any = self.scope
        scope[GONE] = self.is_gone
        scope[CONNECTION] = self
        super().on_headers_complete()
        if scope["http_version"] == "1.0":
            _end_by_closing(self.cycle)
        if not self.pipeline:
            self._answering = self.cycle

    def write_chunk(self, chunk: bytes) -> bool:
        """Writes a chunk of the answer that is being sent (in HTTP/1.0 without its frame); returns False if the client
        has not taken the last ones."""
        if self.flow.write_paused or self.transport.is_closing():
            return False
        if self._answering.chunked_encoding is False:
            chunk = chunk.partition(b"\r\n")[2][:-2]
        self.transport.write(chunk)
        return True

    def abort(self) -> None:
        """Closes the connection at once; what was not sent is dropped."""
        self.transport.abort()

    def is_gone(self) -> bool:
        """Whether the client has closed the connection, even if the event loop has not reported it yet."""
        if self.transport.is_closing():
            return True
        try:
            with socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno())) as peeking:
                return not peeking.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            return error.errno not in _OUT_OF_FILES

    def _take_absolute_target(self) -> None:
        """Uses the authority of a target like ``http://name/path`` as the ``Host`` (RFC 9112, 3.2.2)."""
        target = _ABSOLUTE.match(self.url)
        if target is None:
            raise httptools.HttpParserInvalidURLError(f"invalid url {self.url!r}")
        rest = self.url[target.end() :]
        self.url = rest if rest.startswith(b"/") else b"/" + rest
        if all(name != b"host" for name, _ in self.headers):
            self.headers.append((b"host", b""))
        # In place: the scope holds this list. A repeated Host stays repeated, and is rejected.
        self.headers[:] = [(name, target[1] if name == b"host" else value) for name, value in self.headers]

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progressed = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answering = self.pipeline[-1][0]
        super().on_response_complete()
        if self._refusal:
            self._refuse(self._refusal)
        self._take_held()

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > AHEAD_BYTES:
            self.flow.pause_reading()

    def _take_held(self) -> None:
        """Continues with the buffered data, unless it still has to wait. Reading has been resumed."""
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._hold(b"")
        elif self._held:
            held, self._held = bytes(self._held), bytearray()
            self.data_received(held)

    def _should_upgrade(self) -> bool:
        # Called only for requests with an Upgrade header. True keeps uvicorn from starting the application on a
        # request without its body; it calls handle_websocket_upgrade instead.
        return True

    def handle_websocket_upgrade(self) -> None:
        """Declines the upgrade: the request is parsed again without its ``Upgrade``."""
        if self.scope["method"] == "CONNECT":
            # The parser treats CONNECT as an upgrade with or without the header, so parsing it again is useless.
            self._refuse(b"501 Not Implemented")
            return
        upgrade = sys.exception()
        rest = self._data[upgrade.args[0] :] if isinstance(upgrade, httptools.HttpParserUpgrade) else b""
        head = [self.scope["method"].encode(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                value = b", ".join(token for token in tokens if token.lower() not in _UPGRADING)
            if name not in _UPGRADING and value:
                head += [name, b": ", value, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        # Parsed in data_received, not here: a series of such requests would recurse.
        self._reparse = b"".join([*head, b"\r\n", rest])

    def _expect(self) -> None:
        if self.arriving is None:
            self.arriving = self.loop.call_later(self.arrival_seconds, self.expire)
            self.unfinished[self] = None
            if len(self.unfinished) > self.most_unfinished:
                self._make_room()

    def _make_room(self) -> None:
        """Closes the oldest incomplete connection, so that idle clients cannot lock others out."""
        for connection in list(islice(self.unfinished, _LOOKS)):
            if not connection._owes_answer():
                connection._refuse(b"408 Request Timeout")
                _warn("unfinished", "closed connections whose requests did not arrive", most=self.most_unfinished)
                return

    def _arrived(self) -> None:
        if self.arriving is not None:
            self.arriving.cancel()
            self.arriving = None
            self.unfinished.pop(self, None)

    def expire(self) -> None:
        """Ends the time in which a request has to arrive; called by the timer."""
        self.arriving = None
        self.unfinished.pop(self, None)
        if self._owes_answer():
            self._expect()  # reading may be paused on our side
        else:
            self._refuse(b"408 Request Timeout")

    def send_400_response(self, msg: str) -> None:
        """Called for malformed HTTP."""
        self._refuse(b"400 Bad Request")

    def _owes_answer(self) -> bool:
        """Whether a complete request is still unanswered."""
        cycle = self._answering
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _refuse(self, status: bytes) -> None:
        """Closes the connection after the answers to earlier requests; answers with ``status`` unless one has begun."""
        self._arrived()
        if self.transport.is_closing():
            return
        if self._owes_answer():
            self._refusal = status
            return
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()


def _end_by_closing(cycle: Any) -> None:
    """Sends an answer of unknown length without chunks, as HTTP/1.0 has none (RFC 9112, 6.1): uvicorn closes the
    connection behind it."""
    send_with_length, known = cycle.send, True

    async def send(message: Any) -> None:
        nonlocal known
        if message["type"] == "http.response.start":
            known = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            cycle.chunked_encoding = None if known else False
        elif not known:
            cycle.expected_content_length = len(message.get("body", b""))
        await send_with_length(message)

    cycle.send = send


def most_unfinished() -> int:
    """``MOST_UNFINISHED``, or half of this process's file limit if that is less."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_UNFINISHED if files == resource.RLIM_INFINITY else min(MOST_UNFINISHED, files // 2)


def bounded(
    head_limit: int, base: type[BoundedHttpProtocol] = BoundedHttpProtocol, **members: Any
) -> type[BoundedHttpProtocol]:
    """A protocol class for ``uvicorn.Config(http=...)`` of one server.

    Args:
        head_limit: bytes of a request's first line and headers.
        members: other attributes of the class.
    """
    own = {"head_limit": head_limit, "unfinished": {}, "most_unfinished": most_unfinished(), **members}
    return type("HttpProtocol", (base,), own)
