"""A fleet with MCP servers as others publish them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.gateway.fleet import Agent, Json
from tests.support.wait import wait_until_sync

FASTMCP: Json = {
    "kind": "mcp",
    "command": sys.executable,
    "args": [str(Path(__file__).with_name("fastmcp_server.py"))],
}


def items(agent: Agent, *expected: str) -> dict[str, Json]:
    """The catalogue, once it has what is expected."""
    found: dict[str, Json] = {}

    def complete() -> bool:
        found.update(agent.items())
        return set(expected) <= found.keys()

    wait_until_sync(complete, what=f"{expected} in the catalogue")
    return found
