"""Checks results of tools against their output schemas, if these can be read."""

from __future__ import annotations

import anyio
import httpx2
import mcp_types as types
import structlog
from mcp.client import ClientSession
from mcp.shared.exceptions import MCPError

_log = structlog.get_logger(__name__)

_UNREADABLE = "Invalid schema"
"""How the client library's message about an output schema begins that is none."""
LIST_SECONDS = 5.0
"""How long a result waits for the list of its server's tools."""


def keep_unchecked(session: ClientSession, connection: str) -> None:
    """Makes a session accept results unchecked if the server's tools cannot be listed.

    After the first call of each tool, the client library lists the tools to get the output schema. If the list fails,
    the library would fail the call, although it was carried out.
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
            listed = False
            _log.warning("a connection's tools cannot be listed, their results are not checked", connection=connection)
        except RuntimeError as error:
            # Others mean that the result does not match its schema.
            if not str(error).startswith(_UNREADABLE):
                raise

    session.validate_tool_result = checked  # type: ignore[method-assign]
