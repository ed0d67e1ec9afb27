"""MCP over a pair of byte streams, for one local client.

The protocol owns stdin and stdout. ``claim_standard_streams`` redirects them for the rest of the process, so that a
stray print goes to the log and not between two messages.

The SDK's server skips lines that it cannot parse and requests with an invalid id. Their client would wait for ever, so
they are answered here.

A client may write its requests and close its end at once, as a pipe does. Calls in flight are answered then; only those
that wait for an event are ended, because a client that has hung up must not be given an item.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from io import TextIOWrapper
from typing import Any, BinaryIO, Protocol, cast

import anyio
import mcp_types as types
import structlog
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from coordinator.feed import FeedReader
from coordinator.identity.callers.rights import Rights
from coordinator.settings import Settings
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import Toolset
from coordinator.transport.calls import Calls, Hints
from coordinator.transport.endpoints import EndpointError, Endpoints, Target
from coordinator.transport.envelope import negotiable
from coordinator.transport.http.replies import INVALID_REQUEST, PARSE_ERROR, WRONG_ID, known_id
from coordinator.transport.mcp.exchange import Exchange
from coordinator.transport.mcp.listening import Listening
from coordinator.transport.mcp.malformed import message_problem
from coordinator.transport.mcp.server import build_server
from coordinator.transport.rounds import Rounds
from coordinator.transport.rounds.sealing import Seals
from coordinator.transport.stdio.in_flight import Incoming, InFlight, Outgoing

_log = structlog.get_logger(__name__)


class Principal(Protocol):
    """Gives the client's identity."""

    async def __call__(self, begun: Caller | None = None) -> Caller | None:
        """The caller; None: it is not identified.

        Args:
            begun: who has begun what goes on; None: the client begins something.

        Raises:
            ToolFailure: its credential is no longer valid.
        """


_DEADLINES = 1.2
"""How long calls in flight may run after the end of the input, in request deadlines; more than one, so that a call that
misses its own deadline is answered."""


def claim_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Takes stdin and stdout for the protocol.

    From now on stdin is empty and stdout goes to stderr, for children too.
    """
    stdin = os.fdopen(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), "rb")
    stdout = os.fdopen(fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return stdin, stdout


async def serve_stdio(
    settings: Settings,
    toolsets: Mapping[str, Toolset],
    names: Sequence[str],
    project: str,
    streams: tuple[BinaryIO, BinaryIO],
    principal: Principal,
    hints: Hints | None = None,
    hung_up: asyncio.Future[None] | None = None,
    seals: Seals | None = None,
    feed: FeedReader | None = None,
    agent: str = "",
    rights: Rights | None = None,
) -> bool:
    """Serves one client until it closes its end, and answers the calls in flight.

    Args:
        names: the toolsets to serve together.
        project: the partition that all calls work on; a name that ``PROJECT`` matches.
        streams: where requests come from and answers go to.
        principal: called for each request.
        hints: adds hints about the project to reads; None: no hints.
        hung_up: may be completed to end the session as if the client had closed its end.
        seals: seals what the client keeps; None: nothing is asked of the person behind it.
        feed: reads what subscriptions are told of; None: there are none.
        agent: whom the client acts as if it is not identified.
        rights: of callers of whom something is kept; None: those under the settings, without a token file.

    Returns:
        Whether stdin was read to its end. If not, a thread still waits for the client's next line.

    Raises:
        EndpointError: the toolsets cannot be served together.
    """
    endpoints = Endpoints(toolsets, names, settings.tool_name_style, settings.output_schemas)
    target = endpoints.resolve("/mcp")
    if not isinstance(target, Target):
        raise EndpointError(f"toolsets: {','.join(names)} cannot be served")
    rounds = Rounds(seals, rights or Rights(settings)) if seals is not None else None
    calls = Calls(settings.request_deadline_ms, None, settings.longest_wait_ms, hints, rounds)

    over = hung_up or asyncio.get_running_loop().create_future()

    async def exchange() -> Exchange:
        caller = await principal()
        recheck = partial(principal, caller)
        return Exchange(project, caller=caller, agent="" if caller else agent, recheck=recheck, hung_up=over)

    listening = None if feed is None else Listening(feed, settings.feed)
    server = build_server(target.endpoint, calls, listening, exchange)
    if listening is not None:
        over.add_done_callback(lambda _: listening.hold(True, 0))
    stdin, stdout = streams
    reading = _Lines(TextIOWrapper(stdin, encoding="utf-8", errors="replace"), over)
    writing = anyio.wrap_file(TextIOWrapper(stdout, encoding="utf-8"))
    in_flight = InFlight(settings.request_deadline_ms / 1000 * _DEADLINES)
    try:
        async with stdio_server(cast("anyio.AsyncFile[str]", reading), writing) as (incoming, outgoing):
            reading.answers.set_result(outgoing)
            streamed = Incoming(incoming, in_flight), Outgoing(outgoing, in_flight)
            await server.run(*streamed, server.create_initialization_options())
    except* BrokenPipeError:
        _log.info("the client has disconnected")
    finally:
        if listening is not None:
            await listening.stop()
    return reading.ended


class _Lines:
    """The client's lines, without those that are answered here.

    Args:
        over: completed at the end of the input; stops reading if it is completed before.
    """

    def __init__(self, lines: TextIOWrapper, over: asyncio.Future[None]) -> None:
        self._lines = lines
        self._over = over
        self._reading = anyio.CancelScope()
        self.ended = False
        """Whether the input was read to its end."""
        self.answers: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        """The stream for answers, once it is open."""
        over.add_done_callback(lambda _: self._reading.cancel())

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await self._next():
            refusal = _refusal(line)
            if refusal is None:
                yield negotiable(line) if '"initialize"' in line else line
            else:
                await (await self.answers).send(SessionMessage(refusal))
        if not self._over.done():
            self._over.set_result(None)

    async def _next(self) -> str:
        """The next line; empty: there is none."""
        with anyio.CancelScope() as self._reading:
            if not self._over.done():
                line = await anyio.to_thread.run_sync(self._lines.readline, abandon_on_cancel=True)
                self.ended = not line
                return line
        return ""


def _refusal(line: str) -> types.JSONRPCError | None:
    """The answer to a line that the SDK's server cannot parse; None: it can, or the line needs no answer."""
    if not line.strip():
        return None
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        return _error(PARSE_ERROR, "the line is not valid JSON")
    if not isinstance(message, dict):
        return _error(INVALID_REQUEST, "a line must be one JSON-RPC message; batches are not supported")
    if "method" not in message and ("result" in message or "error" in message):
        return None
    request_id = known_id(message.get("id"))
    if request_id is None and "id" in message:
        return _error(INVALID_REQUEST, WRONG_ID)
    try:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = message_problem(message, request_id) or "the line must be one JSON-RPC message"
        return _error(INVALID_REQUEST, first["msg"] if first["type"] == "json_invalid" else problem, request_id)
    return None


def _error(code: int, message: str, request_id: int | str | None = None) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))
