"""An MCP server that answers calls by asking for input, as in the protocol 2026-07-28.

``python asking_server.py FILE`` writes a line to the file for each call.
"""

from __future__ import annotations

import sys
from typing import Any

import mcp_types as types
from mcp.server.mcpserver import MCPServer

server = MCPServer("asking")
FORM = types.ElicitRequestFormParams(message="Which branch?", requested_schema={"type": "object", "properties": {}})


def called() -> None:
    with open(sys.argv[1], "a") as file:
        file.write("called\n")


@server.tool(structured_output=False)
async def ask() -> Any:
    """Asks a person, and for roots."""
    called()
    requests: types.InputRequests = {"one": types.ElicitRequest(params=FORM), "two": types.ListRootsRequest()}
    return types.InputRequiredResult(input_requests=requests)


@server.tool(structured_output=False)
async def again() -> Any:
    """Asks for nothing but another call."""
    called()
    return types.InputRequiredResult(request_state="state")


if __name__ == "__main__":
    server.run("stdio")
