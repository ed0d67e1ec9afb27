"""An MCP server without a library, for what none of them would say: ``python raw_server.py plain|odd|rude``.

Its list of tools is empty, malformed, or an error whose text moves the cursor.
"""

from __future__ import annotations

import json
import sys
from typing import Any

LISTS: dict[str, dict[str, Any]] = {
    "plain": {"result": {"tools": []}},
    "odd": {"result": {"tools": [{"name": 1}]}},
    "rude": {"error": {"code": -32000, "message": "no \x1b[2J list \r\n"}},
}
CALLS: dict[str, dict[str, Any]] = {
    "odd": {"result": {"content": "nothing that a tool may return"}},
    "full": {"error": {"code": -32000, "message": "the disk is full"}},
}


def said(asked: dict[str, Any], kind: str) -> dict[str, Any]:
    """The answer to a request."""
    match asked["method"]:
        case "initialize":
            version = asked["params"]["protocolVersion"]
            about = {"name": "raw", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
        case "tools/list":
            return LISTS[kind]
        case "tools/call":
            fine = {"result": {"content": [{"type": "text", "text": "fine"}]}}
            return CALLS.get(asked["params"]["name"], fine)
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("id") is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said(request, sys.argv[1])}), flush=True)
