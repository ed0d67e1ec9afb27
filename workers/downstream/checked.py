"""Checks results of tools against their output schemas, if these can be read."""

from __future__ import annotations

import anyio
import httpx2
import mcp_types as types
import structlog
from mcp.client import ClientSession
from mcp.shared.exceptions import MCPError

from coordinator.toolsets.gateway.apart import apart
from coordinator.toolsets.gateway.rules.schemas.inputs import mismatch
from workers.downstream.listing import Listing

_log = structlog.get_logger(__name__)

LIST_SECONDS = 5.0
"""How long a result waits for the list of its server's tools."""


def check_results(session: ClientSession, listing: Listing, connection: str) -> None:
    """Makes a session check results by our own rules, and accept them unchecked if that is not possible.

    After the first call of each tool, the client library lists the tools to get the output schema. If the list fails,
    or the schema is invalid, the library would fail the call, although it was carried out.
    """
    check, listed = session.validate_tool_result, True

    async def checked(name: str, result: types.CallToolResult) -> None:
        nonlocal listed
        if not listed:
            return
        try:
            with anyio.fail_after(LIST_SECONDS):
                await check(name, result)
        except (MCPError, ValueError, OSError, httpx2.HTTPError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            # RuntimeError is not caught: it means that there is no structured content.
            listed = False
            _log.warning("a connection's tools cannot be listed, their results are not checked", connection=connection)
            return
        schema, made = listing.outputs.get(name), result.structured_content
        if schema is not None and (problem := await apart(made, mismatch, schema, made)):
            raise RuntimeError(f"Invalid structured content returned by tool {name}: {problem}")

    session.validate_tool_result = checked  # type: ignore[method-assign]
