"""What the client declares in a request that the SDK's server handles."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from coordinator.transport.envelope import MODERN, PLAIN, TASKS, Client, client_of
from coordinator.transport.mcp.exchange import Context


def client_in(context: Context) -> Client:
    """What the client of a request can do."""
    declared = context.session.client_capabilities
    if context.protocol_version != MODERN or declared is None:
        return PLAIN
    return client_of(declared.model_dump(by_alias=True, mode="json", exclude_none=True))


def require_tasks(context: Context) -> Client:
    """The client of a request that is about tasks.

    Raises:
        MCPError: -32021, it has not declared them.
    """
    client = client_in(context)
    if not client.tasks:
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"{context.method} needs {TASKS}", needed)
    return client
