"""An MCP server for tests, in a separate process: ``python downstream_server.py [port]``.

Without a port it speaks on stdin and stdout.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("downstream")
calls = 0


@server.tool()
def add(left: int, right: int) -> int:
    """Adds two numbers."""
    return left + right


@server.tool(structured_output=False)
def greet(name: str) -> str:
    """Greets."""
    return f"Hello, {name}!"


@server.tool()
def facts() -> dict[str, Any]:
    """Facts about this process, and its number of calls."""
    global calls
    calls += 1
    return {"pid": os.getpid(), "calls": calls, "secret": os.environ.get("SECRET", ""), "cwd": os.getcwd()}


@server.tool(structured_output=False)
def shout(text: str) -> str:
    """Fails."""
    raise ToolError(f"too loud: {text}")


@server.tool(structured_output=False)
async def key(context: Context) -> str:
    """The idempotency key of the call."""
    meta: Any = context.request_context.meta
    return str(dict(meta or {}).get("fleet-coordinator/idempotency-key", ""))


@server.tool(structured_output=False)
async def wait_for(path: str) -> str:
    """Waits until a file exists."""
    file = anyio.Path(path)
    await anyio.Path(path + ".begun").touch()
    try:
        while not await file.exists():  # noqa: ASYNC110
            await anyio.sleep(0.01)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await anyio.Path(path + ".cancelled").touch()
        raise
    return "there"


@server.tool(structured_output=False)
def die() -> str:
    """Exits at once."""
    os._exit(1)


@server.tool(structured_output=False)
async def grow(name: str, context: Context) -> str:
    """Adds a tool."""
    server.add_tool(lambda: name, name=name, description="New.", structured_output=False)
    await context.notify_tools_changed()
    return name


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
