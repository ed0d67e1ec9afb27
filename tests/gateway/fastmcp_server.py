"""A server of FastMCP: ``python fastmcp_server.py``. It speaks on stdin and stdout."""

from __future__ import annotations

import os

import anyio
import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.utilities.types import Image

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


@server.tool
async def report(path: str, context: Context) -> str:
    """Reports progress, and says so in a file, until another one exists."""
    count = 0
    while not await anyio.Path(f"{path}.end").exists():
        count += 1
        await context.report_progress(count)
        await anyio.Path(f"{path}.count").write_text(str(count))
        await anyio.sleep(0.05)
    return "done"


@server.tool
async def report_once(path: str, context: Context) -> str:
    """Reports progress once, and never ends by itself."""
    await context.report_progress(1)
    return await hold(path)


@server.tool
async def read(size: int, log: str, gate: str = "") -> str:
    """A text of so many characters; notes the call in a file, and waits until another one exists."""
    async with await anyio.open_file(log, "a") as noted:
        await noted.write(f"{os.getppid()}\n")
    while gate and not await anyio.Path(gate).exists():  # noqa: ASYNC110
        await anyio.sleep(0.02)
    return "\u00e9x" * (size // 2)


@server.tool
def screenshot(size: int) -> list[Image | str]:
    """A text, and a picture of so many bytes."""
    return ["taken", Image(data=bytes(range(256)) * (size // 256), format="png")]


if __name__ == "__main__":
    server.run(show_banner=False)
