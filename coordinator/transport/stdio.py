"""MCP over a pair of byte streams, for one local client.

The protocol owns the streams: before a server uses stdin and stdout it takes them away from the
rest of the process (``claim_standard_streams``), so that a stray print goes to the log and not
between two messages.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import BinaryIO

import anyio
import structlog
from mcp.server.stdio import stdio_server

from coordinator.settings import Settings
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import Toolset
from coordinator.transport.calls import Calls, Hooks
from coordinator.transport.deadlines import Deadlines
from coordinator.transport.endpoints import EndpointError, Endpoints, Target
from coordinator.transport.sdk import Exchange, build_server

_log = structlog.get_logger(__name__)

Principal = Callable[[], Awaitable[Caller | None]]
"""Who is at the other end; None: nobody in particular. Raises ToolFailure if his credential is no longer good."""


async def nobody() -> Caller | None:
    """The principal where callers are not identified."""
    return None


def claim_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Takes stdin and stdout for the protocol.

    From now on the process's own stdin is empty and its stdout is stderr, for children too.
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
    hooks: Hooks,
    names: Sequence[str],
    project: str,
    streams: tuple[BinaryIO, BinaryIO],
    principal: Principal = nobody,
) -> None:
    """Serves one client until it closes its side.

    Args:
        names: the toolsets to serve together.
        project: the partition that all calls work on; a name that ``PROJECT`` matches.
        streams: where requests come from and answers go to.
        principal: says of each request who makes it.

    Raises:
        EndpointError: the toolsets cannot be served together.
    """
    endpoints = Endpoints(toolsets, names, settings.tool_name_style)
    target = endpoints.resolve("/mcp")
    if not isinstance(target, Target):
        raise EndpointError(f"toolsets: {','.join(names)} cannot be served")
    calls = Calls(settings.request_deadline_ms, hooks, Deadlines(settings.request_deadline_ms / 10_000))

    async def exchange() -> Exchange:
        caller = await principal()
        return Exchange(project, caller=caller, recheck=principal)

    server = build_server(target.endpoint, calls, exchange)
    stdin, stdout = streams
    reading = anyio.wrap_file(TextIOWrapper(stdin, encoding="utf-8", errors="replace"))
    writing = anyio.wrap_file(TextIOWrapper(stdout, encoding="utf-8"))
    try:
        async with stdio_server(reading, writing) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    except* BrokenPipeError:
        _log.info("the client has left")
