"""The fast path at the level of the HTTP protocol: skips the parsing of known HTTP heads.

For each request uvicorn parses the head, makes a scope, a cycle, an event, two timers and a task, and checks each
header of the answer. That is most of the cost of a small call. But clients repeat their heads byte for byte. So if a
request arrived in one piece and the fast path took it, its head is cached together with its ``Plan``. The next request
with exactly the same head goes straight to the fast path's decoder.

This is safe because the same bytes, given to the same parser in the same state, parse to the same head, and
everything that the fast path and the guards decide from a head was decided for these bytes before. A request that is
incomplete, has an unknown head, or arrives while the connection is busy goes through uvicorn.

Bearer tokens are never cached. The line with the token is cut out of the head, and the rest is looked up in a separate
dictionary, so a head with a token is never taken for one without. The token itself is checked for each request
(``Authorization.known_grant``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import structlog

from coordinator.identity.callers.authenticator import TOKEN
from coordinator.identity.callers.grants import Grant
from coordinator.overload import Ticket
from coordinator.store.outcomes import LEFT
from coordinator.toolsets.tool import Call
from coordinator.transport.fast_path.calls import ParsedCall, Plan
from coordinator.transport.http.protocol import ARRIVAL_SECONDS, BoundedHttpProtocol, bounded

if TYPE_CHECKING:
    from coordinator.transport.http.app import Answer, FrontEnd

_log = structlog.get_logger(__name__)

_HEADS = 8_192
"""How many distinct heads are cached. ``Content-Length`` is part of a head."""
_LONGEST_HEAD = 1_024
"""Bytes of the largest cached head."""
_UNUSUAL = frozenset((b"expect", b"transfer-encoding", b"upgrade", b"cookie", b"proxy-authorization"))
"""Requests with one of these headers always go through uvicorn; credentials must not be cached."""

_BEARER = b"uthorization: Bearer "
"""The start of the line with the token. Clients differ in the case of its first letter."""
_LINE_STARTS = (b"\r\na", b"\r\nA")

_HEAD = b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\nx-request-id: %b\r\n"


class _Known(msgspec.Struct, frozen=True, gc=False):
    """The cache entry of a head."""

    plan: Plan
    body: int
    """Bytes of the body that follows."""


class FastPathHttpProtocol(BoundedHttpProtocol):
    """For ``uvicorn.Config(http=...)``; ``http_protocol`` makes one for a front."""

    front: ClassVar[FrontEnd]
    known: ClassVar[dict[bytes, _Known]]
    """Heads without credentials."""
    bearers: ClassVar[dict[bytes, _Known]]
    """Heads from which the line with the bearer token was cut out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._task: asyncio.Task[None] | None = None
        self._waits = False
        """Whether that task waits for an event, so that it ends with the connection."""
        self._leaving = False
        self.idle_timer: asyncio.TimerHandle | None = None
        """Closes the connection when it has been idle for too long."""
        self._used = 0.0
        self._default_headers: list[tuple[bytes, bytes]] = []
        self._default_head = b""

    def data_received(self, data: bytes) -> None:
        if self._task is not None:
            self._hold(data)
            return
        idle = self._is_idle()
        if idle:
            end = data.find(b"\r\n\r\n") + 4
            known = self.known.get(data[:end]) if self.known else None
            if known is not None:
                if len(data) == end + known.body and not self.flow.write_paused and self.front.authorization.anonymous:
                    parsed = self.front.fast_path.parse(known.plan, data[end:])
                    if type(parsed) is ParsedCall:
                        self.start_call(parsed, known.plan, None)
                        return
            elif self.bearers and self._take_bearer(data, end):
                return
        super().data_received(data)
        if idle and not self.transport.is_closing():
            self._learn(data)

    def _take_bearer(self, data: bytes, end: int) -> bool:
        """Starts a request with a token, if its head is cached and the token has a cached grant.

        Returns:
            Whether it did; else uvicorn handles the request.
        """
        cut = _without_token(data, end)
        if cut is None or self.flow.write_paused:
            return False
        rest, token = cut
        known = self.bearers.get(rest)
        if known is None or len(data) != end + known.body:
            return False
        authorization = self.front.authorization
        grant = authorization.known_grant(token, known.plan)
        if grant is None:
            return False
        parsed = self.front.fast_path.parse(known.plan, data[end:])
        if type(parsed) is not ParsedCall or not parsed.access.permits(grant.caller):
            return False
        self.start_call(parsed, known.plan, grant, b"Bearer " + token if parsed.waits else b"")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self.idle_timer is not None:
            self.idle_timer.cancel()
        if self._waits and self._task is not None:
            self._task.cancel(LEFT)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Called when the server shuts down: closes the connection, after an answer in flight."""
        if self._task is not None:
            self._leaving = True
        else:
            super().shutdown()

    def _is_idle(self) -> bool:
        """Whether the connection is idle: no part of a request has arrived, and no answer is in flight."""
        scope: Any = self.scope
        if scope is None:
            return True
        cycle: Any = self.cycle
        return cycle is not None and cycle.response_complete and not cycle.more_body and cycle.scope is scope

    def _learn(self, data: bytes) -> None:
        """Caches the head of a request for the fast path, if ``data`` was exactly one request."""
        scope: Any = self.scope
        cycle: Any = self.cycle
        if cycle is None or cycle.more_body or cycle.scope is not scope or not cycle.keep_alive:
            return
        head = dict(scope["headers"])
        end = data.find(b"\r\n\r\n") + 4
        rest, known = data[:end], self.known
        if b"authorization" in head:
            cut = _without_token(data, end) if self.front.authorization.enabled else None
            if cut is None or head[b"authorization"] != b"Bearer " + cut[1] or not TOKEN.match(cut[1]):
                return
            rest, known = cut[0], self.bearers
        if len(rest) > _LONGEST_HEAD or scope["http_version"] != "1.1" or not _UNUSUAL.isdisjoint(head):
            return
        length = head.get(b"content-length", b"")
        if not length.isdigit() or len(data) != end + int(length) or data[end:] != cycle.body:
            return
        plan = self.front.fast_path.plan(scope)
        if isinstance(plan, Plan) and plan.lasting:
            if len(known) >= _HEADS:
                known.clear()
            known[rest] = _Known(plan, int(length))

    def start_call(self, parsed: ParsedCall, plan: Plan, grant: Grant | None, authorization: bytes = b"") -> None:
        """Begins a call that was taken without uvicorn's parser; None: the caller is anonymous."""
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        if self.arriving is not None:
            self._arrived()
        entered = self.front.enter(parsed, plan, grant, authorization)
        if not isinstance(entered, tuple):
            # Shed without creating a task: under overload most calls end here.
            self._write(entered, plan)
            self._begin_idle()
            return
        self._waits = parsed.waits
        self._task = self.loop.create_task(self._answer(parsed, plan, *entered))
        # The server waits for these when it shuts down.
        self.tasks.add(self._task)

    async def _answer(self, parsed: ParsedCall, plan: Plan, call: Call, ticket: Ticket | None) -> None:
        front = self.front
        front.in_flight += 1
        try:
            answer = await front.call(parsed, call, ticket)
            if self.transport.is_closing():
                return
            self._write(answer, plan)
        except Exception:
            _log.exception("a request failed")
            self.transport.close()
        finally:
            front.in_flight -= 1
            self._ended()

    def _write(self, answer: Answer, plan: Plan) -> None:
        leaving = self._leaving or self.front.sends_away
        if self.server_state.default_headers is not self._default_headers:
            self._render_defaults()
        head = _HEAD % (self._default_head, len(answer.body), answer.request_id.encode())
        if answer.retry_after is not None:
            head += b"retry-after: %d\r\n" % answer.retry_after
        for header in plan.cors:
            head += b"%b: %b\r\n" % header
        if leaving:
            head += b"connection: close\r\n"
        self.transport.write(b"%b\r\n%b" % (head, answer.body))
        if leaving:
            self.transport.close()

    def _ended(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            self.tasks.discard(task)
        if self.transport.is_closing():
            return
        self._begin_idle()
        self.flow.resume_reading()
        self._take_held()

    def _begin_idle(self) -> None:
        self._used = self.loop.time()
        if self.idle_timer is None and not self.transport.is_closing():
            self.idle_timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Closes a connection that has been idle for too long. One timer per connection; not one per answer."""
        self.idle_timer = None
        rest = self._used + self.timeout_keep_alive - self.loop.time()
        if rest > 0 or self._task is not None:
            self.idle_timer = self.loop.call_later(max(rest, 1.0), self._close_if_idle)
        elif self._is_idle() and self.timeout_keep_alive_task is None:
            self.transport.close()

    def _render_defaults(self) -> None:
        """Renders the headers that the server puts on every answer; they change every second, with the date."""
        self._default_headers = self.server_state.default_headers
        self._default_head = b"".join(b"%b: %b\r\n" % header for header in self._default_headers)


def _without_token(data: bytes, end: int) -> tuple[bytes, bytes] | None:
    """The head (``data`` up to ``end``) without the line with the token, and the token; None: there is no such line."""
    at = data.find(_BEARER, 0, end)
    start = at - 3
    if start < 0 or not data.startswith(_LINE_STARTS, start):
        return None
    stop = data.find(b"\r\n", at, end)
    return data[:start] + data[stop:end], data[at + len(_BEARER) : stop]


def http_protocol(
    front: FrontEnd, head_limit: int, arrival_seconds: float = ARRIVAL_SECONDS
) -> type[BoundedHttpProtocol]:
    """The protocol class for ``uvicorn.Config(http=...)`` of a server whose application is ``front``.

    Args:
        head_limit: bytes of a request's first line and headers.
        arrival_seconds: how long a request may take to arrive.
    """
    base = FastPathHttpProtocol if front.fast else BoundedHttpProtocol
    known: dict[bytes, Any] = {}
    bearers: dict[bytes, Any] = {}
    front.fast_path.derived += [known, bearers]
    return bounded(head_limit, base, front=front, known=known, bearers=bearers, arrival_seconds=arrival_seconds)
