"""A server of FastMCP: ``python fastmcp_server.py``. It speaks on stdin and stdout."""

from __future__ import annotations

import anyio
import mcp_types as types
from fastmcp import Context, FastMCP

server = FastMCP("fast")


@server.tool
async def grow(name: str, context: Context) -> str:
    """Adds a tool."""
    server.tool(lambda: name, name=name, description="New.")
    await context.send_notification(types.ToolListChangedNotification())
    return name


@server.tool
async def hold(path: str) -> str:
    """Never ends by itself, and says in files that it has begun, and that it was cancelled."""
    await anyio.Path(f"{path}.begun").touch()
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await anyio.Path(f"{path}.cancelled").touch()
        raise
    return "never"


if __name__ == "__main__":
    server.run(show_banner=False)
