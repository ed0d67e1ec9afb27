"""The ASGI application of a front-end process.

A request goes through here::

    fast path's look at the head -> token -> body -> fast path's decoding -> tool -> answer
              \\ not mine        \\ not known     \\ not mine
               +-----------------+--------------+-> slow path: guards -> token -> endpoint or the SDK's server

The fast path takes only heads that match, byte for byte, ones that the guards have accepted before. So their checks
hold for it too. Everything else goes to the slow path, with the body if that was read already.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any, Literal

import msgspec
import structlog
from structlog.contextvars import STRUCTLOG_KEY_PREFIX

from coordinator.identity.callers.grants import Grant
from coordinator.metrics import tracing
from coordinator.overload import Ticket
from coordinator.service import Service
from coordinator.settings import Settings
from coordinator.store.fleet.drains import FLEET_SCOPE
from coordinator.toolsets.tool import Call
from coordinator.transport.calls import Done
from coordinator.transport.endpoints import Target
from coordinator.transport.fast_path.calls import ParsedCall, Plan
from coordinator.transport.http.guards import sane_request_id
from coordinator.transport.http.mounted import Mounted
from coordinator.transport.http.parts import Parts
from coordinator.transport.http.replies import (
    INTERNAL_ERROR,
    JSON,
    ClientDisconnected,
    Header,
    Message,
    Receive,
    Refused,
    Scope,
    Send,
    refuse,
    reply,
    rpc_error,
)
from coordinator.transport.http.slow_path import SlowPath, while_connected
from coordinator.transport.metrics import FAST_PATH
from coordinator.transport.streams import DRAIN_SECONDS

_log = structlog.get_logger(__name__)

_CLOSE: Header = (b"connection", b"close")
_CONTENT_TYPE: Header = (b"content-type", JSON)
_MOST_REFUSALS = 4_096
"""How many rendered answers to shed calls are kept."""
_BEFORE_ID = b'{"jsonrpc":"2.0","id":'

# What ``structlog.contextvars.bind_contextvars(request_id=...)`` would set, at a tenth of its cost.
_LOGGED_ID: ContextVar[str] = ContextVar(STRUCTLOG_KEY_PREFIX + "request_id")


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer of the fast path, before it is framed as HTTP."""

    body: bytes
    request_id: str
    retry_after: int | None
    """Seconds."""


class FrontEnd(Service):
    """The application that one front-end process serves.

    Raises:
        EndpointError: the configured toolsets cannot be served together.
        ContractError: a tool's contract cannot be published.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.endpoints = parts.endpoints
        """Knows which projects there are."""
        self.calls, self.authorization, self.welcome = parts.calls, parts.authorization, parts.welcome
        self.listening, self.feed, self.admin = parts.listening, parts.feed, parts.admin
        self.fast_path, self._health = parts.fast_path, parts.health
        self._slow_path = SlowPath(parts)
        self.fast = parts.fast
        """Whether the fast path is in use."""
        self._tracing = tracing.active()
        self._holds = [toolset.hold for toolset in parts.toolsets.values() if toolset.hold is not None]
        self._mounted: list[Mounted] = []
        self._numbers = count(1)
        self._refusals: dict[tuple[str, bool, int], tuple[bytes, int | None]] = {}
        # Random per process, so that request ids are unique in a fleet.
        self._id_prefix = os.urandom(4).hex() + "-"
        self.in_flight = 0
        """Requests being answered now."""

    @property
    def draining(self) -> bool:
        """Whether ``begin_drain`` was called."""
        return self._health.draining

    @property
    def sends_away(self) -> bool:
        """Whether connections end with their next answer, so that clients get to another process."""
        return self._health.draining or self._health.drained not in ("", FLEET_SCOPE)

    def mount(self, path: str, page: Mounted, admin: bool = False) -> None:
        """Serves ``path`` and everything below it by another application, after the checks of the head. Browsers that
        ask for ``/`` are led there.

        Args:
            admin: on the operators' port, and not on that of clients.
        """
        self._mounted.append(page)
        (self.admin if admin else self._slow_path).mounts[path] = page

    def configure(self, settings: Settings) -> None:
        self.endpoints.open_only(settings.projects)
        self.fast_path.forget()
        for part in (self.feed, self.listening):
            if part is not None:
                part.limits = settings.feed

    def begin_drain(self) -> None:
        """Begins the shutdown: the process is unready at once. Requests are still served, and then connections close.

        Waiting calls end with a retry, so that another process serves them.
        """
        self._health.draining = True
        self._hold(True, min(DRAIN_SECONDS, self._parts.settings.drain_seconds / 3))

    async def take_no_new_work(self, scope: str) -> None:
        """Follows an operator's drain: waiting calls end with a retry, and the process is unready.

        New calls are shed by ``Admission``, not here.

        Args:
            scope: what is drained. While the whole fleet is, processes stay ready, because something must answer the
                calls that are still admitted. '' ends the drain.
        """
        self._health.drained = scope
        if not self.draining:
            # While the whole fleet is drained, reads are still answered, and there is no other process for them.
            self._hold(bool(scope) and scope != FLEET_SCOPE, DRAIN_SECONDS)
            await asyncio.gather(*(hold(bool(scope)) for hold in self._holds))

    def _hold(self, held: bool, seconds: float) -> None:
        """Ends what listens, spread over some seconds, and accepts no more of it; or accepts it again."""
        for part in (self.feed, self.listening, *self._mounted):
            if part is not None:
                part.hold(held, seconds)

    async def readiness(self) -> tuple[bool, dict[str, Any]]:
        """What /readyz answers: whether the process should get requests, and the checks behind that."""
        return await self._health.readiness()

    async def start(self) -> None:
        """Warms up the default endpoint, so that no client pays for lazy initialisation."""
        await (await self._parts.sdk.get(self.endpoints.default)).warm_up()

    async def stop(self, deadline: float = 0.0) -> None:
        for part in (self.listening, *self._mounted, self.feed):
            if part is not None:
                await part.stop()
        await self._parts.sdk.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._serve_other_scope(scope, receive, send)
            return
        self.in_flight += 1
        try:
            plan = self.fast_path.plan(scope) if self.fast else "off"
            if type(plan) is not Plan:
                await self._answer_slowly(scope, receive, send, None, str(plan))
                return
            grant: Grant | None | Literal[False] = None
            if self.authorization.enabled:
                grant = self.authorization.known_caller(scope, plan)
                if grant is False:
                    await self._answer_slowly(scope, receive, send, None, "credentials")
                    return
            try:
                body = await self._parts.bodies.read(receive)
            except Refused as refused:
                await refuse(self._marked(send, self._bind_request_id(plan.given_id), plan.cors), refused)
                return
            except ClientDisconnected:
                return
            parsed = self.fast_path.parse(plan, body)
            if type(parsed) is not ParsedCall:
                await self._answer_slowly(scope, receive, send, body, str(parsed))
            elif not grant or parsed.access.permits(grant.caller):
                await self._answer(parsed, plan, grant or None, scope, receive, send)
            else:
                await self._answer_slowly(scope, receive, send, body, "permission")
        finally:
            self.in_flight -= 1

    async def _serve_other_scope(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Follows the ASGI lifespan; closes web sockets."""
        if scope["type"] != "lifespan":
            await send({"type": "websocket.close", "code": 1000})
            return
        while True:
            try:
                message = await receive()
            except asyncio.CancelledError:
                return  # the process exits at once, without the shutdown message of the server
            if message["type"] == "lifespan.startup":
                await self.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def enter(
        self, parsed: ParsedCall, plan: Plan, grant: Grant | None, authorization: bytes = b""
    ) -> tuple[Call, Ticket | None] | Answer:
        """Admits a call of the fast path, or sheds it.

        Args:
            grant: of an identified caller.
            authorization: the header by which it is identified again while the call waits.

        Returns:
            The further arguments of ``call``; or, if the call is shed, the answer.
        """
        caller = None if grant is None else grant.caller
        self.fast_path.hits += 1
        FAST_PATH.cells["hit",].value += 1.0
        criticality = parsed.tool.weigh(parsed.arguments)
        later = 0 if parsed.waits else self.calls.shed_at_once(parsed.tool, criticality, "fast")
        if later:
            body, retry_after = self._turned_away(parsed, later)
            return Answer(body, self._request_id(plan.given_id), retry_after)
        can_ask = parsed.asking is not None and (caller is None or parsed.asking.permits(caller))
        name, trace = self._request_id(plan.given_id), "" if self._tracing is None else _trace(parsed)
        call = Call(plan.project, name, caller, plan.agent, trace, can_ask=can_ask, can_defer=parsed.defers)
        if parsed.waits and grant is not None and isinstance(target := self.endpoints.resolve(plan.path), Target):
            published = next(key for key, tool in target.endpoint.tools.items() if tool is parsed.tool)
            recheck = partial(self.authorization.recheck, authorization, grant, plan.path, target, published)
            call = msgspec.structs.replace(call, recheck=recheck)
        entered = self.calls.enter(parsed.tool, criticality, call, parsed.arguments, "fast")
        if isinstance(entered, Done):
            return Answer(self.fast_path.response(parsed, entered), call.request_id, entered.retry_after)
        return call, entered

    def _turned_away(self, parsed: ParsedCall, later: int) -> tuple[bytes, int | None]:
        """The answer to a shed call, and its ``Retry-After``. All but the id is rendered once and cached."""
        key = parsed.tool.name if parsed.tool.refusal else "", parsed.modern, later
        refusal = self._refusals.get(key)
        if refusal is None:
            done = self.calls.shed_answer(parsed.tool, later)
            whole = self.fast_path.response(parsed, done)
            if len(self._refusals) >= _MOST_REFUSALS:
                self._refusals.clear()
            refusal = self._refusals[key] = whole[len(_BEFORE_ID) + len(parsed.request_id) :], done.retry_after
        return _BEFORE_ID + parsed.request_id + refusal[0], refusal[1]

    async def call(self, parsed: ParsedCall, call: Call, ticket: Ticket | None) -> Answer:
        """Runs a call that was not shed.

        Args:
            ticket: from ``enter``; None: the call waits for admission first.
        """
        _LOGGED_ID.set(call.request_id)
        done = await self.calls.run(parsed.tool, call, parsed.arguments, "fast", None, ticket)
        return Answer(self.fast_path.response(parsed, done), call.request_id, done.retry_after)

    async def _answer(
        self, parsed: ParsedCall, plan: Plan, grant: Grant | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        entered = self.enter(parsed, plan, grant, authorization)
        if isinstance(entered, Answer):
            answer = entered
        elif parsed.waits:
            try:
                answer = await while_connected(self.call(parsed, *entered), receive)
            except ClientDisconnected:
                return
        else:
            answer = await self.call(parsed, *entered)
        headers = [
            _CONTENT_TYPE,
            (b"content-length", b"%d" % len(answer.body)),
            (b"x-request-id", answer.request_id.encode()),
            *plan.cors,
        ]
        if answer.retry_after is not None:
            headers.append((b"retry-after", b"%d" % answer.retry_after))
        if self.sends_away:
            headers.append(_CLOSE)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer_slowly(self, scope: Scope, receive: Receive, send: Send, body: bytes | None, reason: str) -> None:
        head = dict(scope["headers"])
        request_id = self._bind_request_id(head.get(b"x-request-id"))
        mounted = self._slow_path.mounts.at(scope["path"])
        more = self._parts.cors.headers(head.get(b"origin")) if mounted is None else mounted.headers
        marked = self._marked(send, request_id, more)
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await marked(message)

        try:
            await self._slow_path.serve(scope, receive, noting, request_id, body, reason)
        except ClientDisconnected:
            _log.debug("the client disconnected before its answer")
        except Refused as refused:
            await refuse(noting, refused)
        except Exception:
            _log.exception("a request failed")
            if started:
                raise
            message = f"a defect of the coordinator stopped this request ({request_id})"
            await reply(noting, 500, rpc_error(INTERNAL_ERROR, message))

    def _request_id(self, header: bytes | None) -> str:
        """The request's id: the client's if it is usable, else a new one."""
        return (header and sane_request_id(header)) or f"{self._id_prefix}{next(self._numbers):x}"

    def _bind_request_id(self, header: bytes | None) -> str:
        """The request's id; binds it to every later log line of this task."""
        request_id = self._request_id(header)
        _LOGGED_ID.set(request_id)
        return request_id

    def _marked(self, send: Send, request_id: str, more: Sequence[Header]) -> Send:
        """Adds the headers that every answer carries."""

        async def marking(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"x-request-id", request_id.encode()), *more]
                if self.sends_away:
                    headers.append(_CLOSE)
                message = {**message, "headers": headers}
            await send(message)

        return marking


def _trace(parsed: ParsedCall) -> str:
    """The call's trace context; empty if it has none."""
    return "" if parsed.meta is None else tracing.trace_of(parsed.meta.traceparent, parsed.meta.tracestate)
