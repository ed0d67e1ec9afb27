"""The slow path of a request: all checks, then the endpoint or the SDK's server.

It checks what the SDK's server does not: blanks around header values, methods other than POST, the body of one
protocol revision under the header of another, sizes and nesting.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import structlog
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from coordinator.errors import ToolFailure
from coordinator.metrics import tracing
from coordinator.store.outcomes import LEFT
from coordinator.toolsets.arguments import decoded, may_wait
from coordinator.toolsets.tool import AGENT_HEADER, Call, Delivery
from coordinator.transport.endpoints import Target
from coordinator.transport.envelope import MODERN, VERSION_KEY, negotiable
from coordinator.transport.fast_path.calls import ParsedCall
from coordinator.transport.feed.request import is_feed
from coordinator.transport.http.bodies import replayed
from coordinator.transport.http.compression import COMPRESSED, compressing
from coordinator.transport.http.cors import is_preflight
from coordinator.transport.http.guards import (
    check_get,
    head_of,
    head_size,
    nested_deeper,
    unread_coding,
    without_padding,
)
from coordinator.transport.http.media import HTML, JSON, STREAM, Accepted, accepted, is_json
from coordinator.transport.http.mounted import Mounts
from coordinator.transport.http.parts import Parts
from coordinator.transport.http.replies import (
    CONNECTION,
    GONE,
    HEADER_MISMATCH,
    PARSE_ERROR,
    ClientDisconnected,
    Header,
    Message,
    Receive,
    Refusal,
    Refused,
    Scope,
    Send,
    known_id,
    reply,
    to_json,
)
from coordinator.transport.http.welcome import HEADERS
from coordinator.transport.mcp.exchange import EXCHANGE, Exchange
from coordinator.transport.mcp.malformed import message_problem

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")

_HANDSHAKE = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)
_ENDPOINTS = "; MCP endpoints are /mcp, /mcp/<toolset>, /p/<project>/mcp"
_AGENT = AGENT_HEADER.lower().encode()
_SINGLE = (b"host", b"origin", b"content-type", b"content-length", b"content-encoding", b"transfer-encoding", _AGENT)
_KEPT_BACK = (b"authorization", b"accept", b"content-type")
"""Headers that are handled here."""
_FORMS: tuple[Header, ...] = ((b"accept", JSON + b", " + STREAM), (b"content-type", JSON))
"""The values that the SDK's server gets instead, because it has its own rules for them."""


class Seen(NamedTuple):
    """The parts of a JSON-RPC message that are read before the SDK's server gets it."""

    method: object = None
    tool: object = None
    request_id: int | str | None = None
    modern: bool = False
    """Whether it has the envelope of the revision without a handshake."""
    arguments: object = None
    trace: str = ""
    """Its trace context; empty if it has none, or if tracing is off."""
    malformed: str = ""
    """Why it is no message; empty if it is one. In older revisions the SDK answers with texts of its validator, and
    takes a request with an invalid id for a notification, so that its client would wait for ever."""


class SlowPath:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.mounts = Mounts()
        """Browsers that ask for ``/`` are led to the first one."""

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, request_id: str, body: bytes | None, reason: str
    ) -> None:
        """Answers one request.

        Args:
            body: the request's body; None: not read yet.
            reason: why the fast path did not answer.

        Raises:
            Refused: a check failed.
            ClientDisconnected: the client has disconnected.
        """
        headers = without_padding(scope["headers"])
        head = self._checked_head(headers)
        path: str = scope["path"]
        if await self._answer_other(path, scope["method"], head, send):
            return
        if (mounted := self.mounts.at(path)) is not None:
            await mounted.serve(scope, receive, send, head)
            return
        if self._parts.feed is not None and is_feed(path):
            await self._parts.feed.serve(scope, send, head)
            return
        target = self._parts.endpoints.resolve(path)
        if target is None:
            raise Refused(404, f"unknown path{_ENDPOINTS}")
        if isinstance(target, Refusal):
            caller = await self._parts.authorization.identify(head.get(b"authorization"))
            raise Refused(target.status, target.message + self._parts.endpoints.others(path, caller))
        grant = await self._parts.authorization.admit(head.get(b"authorization"), path, target)
        if scope["method"] != "POST":
            raise Refused(405, "MCP endpoints take POST only", [(b"allow", b"POST")])
        if body is None:
            body = await self._read_body(head, receive)
        if not is_json(head.get(b"content-type")):
            raise Refused(415, "the Content-Type must be application/json", [(b"accept-post", JSON)])
        seen = self._checked_message(headers, body)
        takes = _checked_accept(headers, seen)
        if seen.method == "tools/call":
            self._parts.authorization.check(grant, path, target, seen.tool, seen.request_id)
            self._parts.fast_path.missed(reason)
            if (refusal := self._shed(target, head, seen, request_id)) is not None:
                body, retry_after = refusal
                more = [] if retry_after is None else [(b"retry-after", b"%d" % retry_after)]
                await reply(send, 200, body, headers=more)
                return
        if seen.method in COMPRESSED:
            send = compressing(send, headers)
        named = head.get(_AGENT, b"").decode("latin-1")
        exchange = Exchange(target.project, request_id, agent=named, private=self._parts.authorization.enabled)
        if grant is not None:
            exchange.caller = grant.caller
            recheck = self._parts.authorization.recheck
            exchange.recheck = partial(recheck, head[b"authorization"], grant, path, target, seen.tool)
        if seen.method == "initialize":
            body = negotiable(body.decode(errors="surrogatepass")).encode(errors="surrogatepass")
        kept = [header for header in headers if header[0] not in _KEPT_BACK]
        inner = {**scope, "headers": [*kept, *_FORMS], EXCHANGE: exchange}
        await self._hand_on(inner, receive, send, body, exchange, target, seen, takes)

    async def _hand_on(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        body: bytes,
        exchange: Exchange,
        target: Target,
        seen: Seen,
        takes: Accepted,
    ) -> None:
        """Passes the request to the SDK's server."""
        app = await self._parts.sdk.get(target.endpoint)
        long = _may_take_long(target, seen)
        if long:
            exchange.connection = scope.get(CONNECTION)
            exchange.delivery = Delivery()
            send = _watched(send, exchange.delivery, scope.get(GONE))
        answering = _with_retry_after(send, exchange)
        try:
            if long and not takes.stream:
                handling = app.handle(scope, replayed(body, _never), answering, streaming=False)
                await while_connected(handling, receive)
            else:
                await app.handle(scope, replayed(body, receive), answering, streaming=long)
        finally:
            if exchange.delivery is not None:
                await asyncio.shield(exchange.delivery.end())

    async def _answer_other(self, path: str, method: str, head: dict[bytes, bytes], send: Send) -> bool:
        """Answers requests for other paths that need no token; returns whether this was one."""
        if is_preflight(method, head):
            await reply(send, 204, headers=self._parts.cors.preflight(head))
        elif path in self._parts.probes:
            await self._parts.health.answer(path, method, send)
        elif (metadata := self._parts.authorization.metadata(path)) is not None:
            check_get(path, method)
            await reply(send, 200, to_json(metadata), headers=[(b"cache-control", b"public, max-age=300")])
        elif path == "/":
            check_get(path, method, _ENDPOINTS)
            html = accepted(head.get(b"accept")).html
            if html and self.mounts:
                headers = [(b"location", next(iter(self.mounts)).encode()), (b"vary", b"accept")]
                await reply(send, 303, headers=[*headers, (b"cache-control", b"no-store")])
                return True
            page = self._parts.welcome.page(head[b"host"].decode("latin-1"), html)
            await reply(send, 200, page, (HTML if html else b"text/plain") + b"; charset=utf-8", HEADERS)
        else:
            return False
        return True

    async def _read_body(self, head: dict[bytes, bytes], receive: Receive) -> bytes:
        # HTTP allows any number of leading zeros, Python's int() does not.
        length = head.get(b"content-length", b"").lstrip(b"0")
        if length.isdigit():
            await self._parts.bodies.refuse(int(length), receive, asks=b"expect" in head)
        return await self._parts.bodies.read(receive)

    def _checked_message(self, headers: list[Header], body: bytes) -> Seen:
        # In one revision the SDK also reads other encodings, whose nesting cannot be checked here.
        if json.detect_encoding(body) != "utf-8":
            raise Refused(400, "the message must be JSON in UTF-8, without a byte order mark", code=PARSE_ERROR)
        if nested_deeper(body, self._parts.settings.max_json_depth):
            raise Refused(400, f"the message is nested deeper than {self._parts.settings.max_json_depth} levels")
        seen = glance(body)
        if seen.malformed:
            raise Refused(400, seen.malformed, request_id=seen.request_id)
        self._check_era(headers, seen)
        return seen

    def _shed(
        self, target: Target, head: dict[bytes, bytes], seen: Seen, request_id: str
    ) -> tuple[bytes, int | None] | None:
        """The answer to a shed call, and the seconds of its ``Retry-After``; None: it is not shed.

        Shedding a call here is far cheaper than in the SDK's server. And by the time that server sheds a waiting call,
        it may have begun a stream, which is too late for the header ``Retry-After``.
        """
        tool = target.endpoint.tools.get(seen.tool) if isinstance(seen.tool, str) else None
        if tool is None or seen.request_id is None:
            return None
        given = {} if seen.arguments is None else seen.arguments
        if not isinstance(given, dict):
            return None
        name = str(seen.tool)
        try:
            arguments = decoded(tool, target.endpoint.input_schemas[name], given)
        except ToolFailure:
            return None  # the SDK's server reports the error
        call = Call(target.project, request_id, trace=seen.trace)
        done = self._parts.calls.refusal(tool, call, arguments, "sdk")
        if done is None:
            return None
        modern = head.get(b"mcp-protocol-version") == MODERN.encode()
        parsed = ParsedCall(tool, arguments, to_json(seen.request_id), modern, target.endpoint.access[name])
        return self._parts.fast_path.response(parsed, done), done.retry_after

    def _checked_head(self, headers: list[Header]) -> dict[bytes, bytes]:
        if head_size(headers) > (most := self._parts.settings.max_header_bytes):
            raise Refused(431, f"the headers are larger than {most} bytes", [(b"connection", b"close")])
        head = head_of(headers, (*_SINGLE, b"authorization") if self._parts.authorization.enabled else _SINGLE)
        refusal = self._parts.gate.refusal(head.get(b"host"), head.get(b"origin"))
        if refusal is not None:
            raise Refused(*refusal)
        if (refusal := unread_coding(head)) is not None:
            raise Refused(*refusal, [(b"connection", b"close")])
        return head

    def _check_era(self, headers: list[Header], seen: Seen) -> None:
        """Rejects a message of the revision without a handshake if the header names another revision.

        The SDK reads only the header, and would serve the message as one of an older revision.
        """
        versions = [value for name, value in headers if name == b"mcp-protocol-version"]
        if versions and versions[0] not in _HANDSHAKE:
            return
        if seen.modern or len(versions) > 1:
            problem = "is repeated" if len(versions) > 1 else "does not match the request envelope"
            raise Refused(
                400, f"the mcp-protocol-version header {problem}", code=HEADER_MISMATCH, request_id=seen.request_id
            )


def glance(body: bytes) -> Seen:
    """Reads the envelope of a message; an empty ``Seen`` if it is not JSON.

    Accepts whatever the SDK's server accepts in any revision, such as lone surrogates.
    """
    try:
        message: Any = json.loads(body)
    except (ValueError, RecursionError):
        return Seen()
    if not isinstance(message, dict):
        return Seen(malformed="the body must be one JSON-RPC message, an object; batches are not supported")
    request_id = known_id(message.get("id"))
    if malformed := message_problem(message, request_id):
        return Seen(request_id=request_id, malformed=malformed)
    params = message.get("params")
    if not isinstance(params, dict):
        return Seen(message.get("method"), None, request_id)
    meta = params.get("_meta")
    modern, trace = False, ""
    if isinstance(meta, dict):
        modern, trace = VERSION_KEY in meta, tracing.trace_in(meta)
    return Seen(message.get("method"), params.get("name"), request_id, modern, params.get("arguments"), trace)


def _checked_accept(headers: list[Header], seen: Seen) -> Accepted:
    """Which media types the client accepts.

    Raises:
        Refused: 406: not the one of the answer to this message.
    """
    # A list may be split over several lines (RFC 9110, 5.3).
    takes = accepted(b",".join(value for name, value in headers if name == b"accept"))
    needed, given = (STREAM, takes.stream) if seen.method == "subscriptions/listen" else (JSON, takes.json)
    if not given:
        text = f"this is answered with {needed.decode()}, which the Accept header does not allow"
        raise Refused(406, text, request_id=seen.request_id)
    return takes


async def _never() -> Message:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")


async def while_connected(handling: Awaitable[_T], receive: Receive) -> _T:
    """Handles a call that may wait and is answered with JSON, as long as its client is there. Nothing else would notice
    a disconnect.

    Raises:
        ClientDisconnected: the client has disconnected; the call was cancelled.
    """
    answering = asyncio.ensure_future(handling)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnected
        return await answering
    finally:
        answering.cancel(LEFT if leaving.done() else None)
        leaving.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _may_take_long(target: Target, seen: Seen) -> bool:
    """Whether the answer may be a stream: a client listens, or a call waits."""
    if seen.method == "subscriptions/listen":
        return True
    tool = target.endpoint.tools.get(seen.tool) if seen.method == "tools/call" and isinstance(seen.tool, str) else None
    return tool is not None and may_wait(tool, seen.arguments)


def _watched(send: Send, delivery: Delivery, gone: Callable[[], bool] | None) -> Send:
    """Records whether the answer was sent while the client was connected, by ``gone``."""

    async def sending(message: Message) -> None:
        if delivery.answered and message["type"] == "http.response.body" and message.get("body"):
            delivery.arrived = gone is None or not gone()
        await send(message)

    return sending


def _with_retry_after(send: Send, exchange: Exchange) -> Send:
    async def sending(message: Message) -> None:
        if exchange.retry_after is not None and message["type"] == "http.response.start":
            header = (b"retry-after", str(exchange.retry_after).encode())
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return sending
