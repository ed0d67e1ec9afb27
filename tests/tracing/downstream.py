"""A downstream MCP server that returns the trace of its call."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("downstream")


@server.tool(structured_output=False)
async def whose(context: Context) -> str:
    """The trace context of the call."""
    meta: Any = context.request_context.meta
    return str(dict(meta or {}).get("traceparent", ""))


@server.tool(structured_output=False)
def fail() -> str:
    """Fails."""
    raise ToolError("not today")


if __name__ == "__main__":
    server.run()
