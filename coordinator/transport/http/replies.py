"""Answers that a front-end gives by itself, without the SDK's server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from coordinator.settings.problems import is_text
from coordinator.transport.http.media import STREAM

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

GONE = "coordinator.gone"
"""Key in the ASGI scope of a function that says whether the client has disconnected."""

CONNECTION = "coordinator.connection"
"""Key in the ASGI scope of the connection (``Connection``) of a request that was served over HTTP by our protocol."""

JSON: bytes = b"application/json"

STREAM_HEADERS: list[Header] = [
    (b"content-type", STREAM),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
"""Of an event stream."""

WRONG_ID = "the id of a request must be an integer or a string of valid Unicode text"

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020

to_json: Callable[[object], bytes] = msgspec.json.Encoder().encode
"""Any value as JSON."""


def rpc_error(code: int, message: str, request_id: object = None) -> bytes:
    """A JSON-RPC error response; its id is null if the request's is unknown or invalid."""
    return to_json({"jsonrpc": "2.0", "id": known_id(request_id), "error": {"code": code, "message": message}})


def known_id(value: object) -> int | str | None:
    """The value, if it is a valid request id; one with a lone surrogate cannot be sent back."""
    return value if type(value) is int or (isinstance(value, str) and is_text(value)) else None


async def reply(
    send: Send, status: int, body: bytes = b"", content_type: bytes = JSON, headers: list[Header] | None = None
) -> None:
    """Sends a whole response."""
    # An answer 204 must not state a length (RFC 9110, 8.6).
    head = [(b"content-length", b"%d" % len(body))] if status != 204 else []
    if body:
        head.append((b"content-type", content_type))
    if headers:
        head += headers
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


class Connection(Protocol):
    """What a long answer needs of its connection."""

    on_lost: Callable[[], None] | None
    """Called when the client has disconnected."""

    def write_chunk(self, chunk: bytes) -> bool:
        """Writes a chunk of the answer, which has to be framed; returns False if it cannot be written now."""

    def abort(self) -> None:
        """Closes it at once; what was not sent is dropped."""


class Refusal(NamedTuple):
    """Why a request is refused."""

    status: int
    message: str


class Refused(Exception):
    """Ends a request with a JSON-RPC error and an HTTP status."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: list[Header] | None = None,
        code: int = INVALID_REQUEST,
        request_id: object = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = rpc_error(code, message, request_id)


def with_headers(send: Send, more: Sequence[Header]) -> Send:
    """A ``send`` that adds headers to the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return sending


async def refuse(send: Send, refused: Refused) -> None:
    await reply(send, refused.status, refused.body, headers=refused.headers)


class ClientDisconnected(Exception):
    """Ends a request whose client has disconnected; no answer is sent."""
