"""An MCP server without a library, for messages that no library would send: ``python raw_server.py KIND``.

Its list of tools is empty (``plain``), invalid (``odd``), has valid and malformed ones (``flawed``), those of
``USABLE`` and ``USELESS``, which answer with their arguments (``schemas``), or is an error with control characters
(``rude``), or names the variable KEY (``told``); a ``restless`` one adds a tool each time and sends a notification
before; a ``mortal`` one exits when asked for its list, and a ``mute`` one never answers. A ``stubborn`` one ends
neither at the end of its input nor by SIGTERM; its tool ``pids`` starts another process like that. Those of ``LINES``
and ``endless`` also write stray output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}}
FLAWED: dict[str, Any] = {
    "no-type": {"inputSchema": {"properties": {}}},
    "no-schema": {},
    "banana": {"inputSchema": {"type": "banana"}},
    "list-schema": {"inputSchema": ["object"]},
    "array-output": {"inputSchema": SCHEMA, "outputSchema": {"type": "array"}},
    "bad-title": {"inputSchema": SCHEMA, "title": 7},
    "bad-hints": {"inputSchema": SCHEMA, "annotations": ["readOnly"]},
}
"""Malformed tools, by name."""
USABLE: dict[str, dict[str, Any]] = {
    "letters": {"x": {"type": "string", "pattern": r"^\p{L}+$"}},
    "year": {"x": {"type": "string", "pattern": r"^(?<year>\d{4})$"}},
    "draft-3": {"x": {"type": "string", "required": True}},
    "draft-4": {"x": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
    "booleans": {"x": True, "y": False},
    "empties": {"x": None, "y": {"type": "object", "properties": []}},
    "meta": {"capability": {"type": "string"}, "arguments": {"type": "object"}},
}
"""Properties of tools with schemas that can be used, by name; some have to be mended before."""
OUTPUTS: dict[str, dict[str, Any]] = {
    "answers": {"x": {"type": "string", "pattern": r"^\p{L}+$"}},
    "slow": {"x": {"pattern": "^(a|aa)+$"}},
    "nowhere": {"x": {"$ref": "#/$defs/x"}},
    "banana": {"x": {"type": "banana"}},
}
"""Properties of what tools answer, by name: their structured content is their arguments."""
USELESS: dict[str, dict[str, Any]] = {
    "as-task": {"inputSchema": SCHEMA, "execution": {"taskSupport": "required"}},
    "broken": {"inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}},
    "elsewhere": {"inputSchema": {"type": "object", "properties": {"x": {"$ref": "https://example.org/x"}}}},
    "unclosed": {"inputSchema": {"type": "object", "properties": {"x": {"pattern": "("}}}},
    "two words": {"inputSchema": SCHEMA},
}
"""Tools that cannot be offered, by name."""
LISTS: dict[str, dict[str, Any]] = {
    "plain": {"result": {"tools": []}},
    "odd": {"result": {"tools": "none"}},
    "flawed": {
        "result": {
            "tools": [
                {"name": "good", "inputSchema": SCHEMA},
                *({"name": name, **one} for name, one in FLAWED.items()),
                {"name": 1, "inputSchema": SCHEMA},
                {"inputSchema": SCHEMA},
                "nothing",
                {"name": "inside", "inputSchema": {"type": "object", "properties": {"x": {"type": "banana"}}}},
                {"name": "last", "inputSchema": SCHEMA, "outputSchema": {"type": "object", "required": ["y"]}},
            ]
        }
    },
    "schemas": {
        "result": {
            "tools": [
                *(
                    {"name": name, "inputSchema": {"type": "object", "properties": properties}}
                    for name, properties in USABLE.items()
                ),
                *(
                    {"name": name, "inputSchema": SCHEMA, "outputSchema": {"type": "object", "properties": properties}}
                    for name, properties in OUTPUTS.items()
                ),
                {"name": "nulls", "inputSchema": {"type": "object", "properties": None, "required": None}},
                *({"name": name, **one} for name, one in USELESS.items()),
            ]
        }
    },
    "told": {
        "result": {
            "tools": [
                {
                    "name": "ask",
                    "title": f"Asks {os.environ.get('KEY')}",
                    "description": f"Asks https://{os.environ.get('KEY')} anything.",
                    "inputSchema": SCHEMA,
                }
            ]
        }
    },
    "rude": {"error": {"code": -32000, "message": "no \x1b[2J list \r\n"}},
}
CALLS: dict[str, dict[str, Any]] = {
    "odd": {"result": {"content": "nothing that a tool may return"}},
    "full": {"error": {"code": -32000, "message": "the disk is full"}},
    "pictured": {
        "result": {
            "structuredContent": {"meta": 1},
            "content": [
                {"type": "text", "text": '{"meta": 1}'},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            ],
        }
    },
}
ASKED: dict[str, dict[str, Any]] = {
    "elicitation/create": {"message": "Which branch?", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "roots/list": {},
}
"""What a tool of this name asks the client for."""
_RESULT = b'"result": {"content": [{"type": "text", "text": "' + b"x" * 300_000 + b'"}]}'
LARGE: dict[str, bytes] = {
    "id-first": b'{"jsonrpc": "2.0", "id": ID, ' + _RESULT + b"}",
    "id-last": b"{" + _RESULT + b', "jsonrpc": "2.0", "id": ID}',
    "id-between": b"{" + _RESULT + b', "id": ID, "jsonrpc": "2.0", "_meta": {}}',
    "error": b'{"id": ID, "jsonrpc": "2.0", "error": {"code": 1, "message": "' + b"x" * 300_000 + b'"}}',
    "notice": b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "' + b"x" * 300_000 + b'"}}\n'
    b'{"jsonrpc": "2.0", "id": ID, "result": {"content": []}}',
}
"""Output of 300 kB for a tool."""
LINES: dict[str, bytes] = {
    **LARGE,
    "string": b'{"jsonrpc": "2.0", "id": ID, "result": "a string"}',
    "half": b'{"result": {"content": [{"type": "text", "text": "\\ud83d"}]}, "jsonrpc": "2.0", "id": ID}',
    "neither": b'{"jsonrpc": "2.0", "id": ID}',
    "unfinished": b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [',
    "unnamed": b'{"jsonrpc": "2.0", "result": {"content": []}}',
    "latin": b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "caf\xe9"}]}}',
    "chatty": b'{ ready: true }\n\n[info] 1\n{"level": 30, "id": ID}\n'
    b'{"jsonrpc": "2.0", "method": 1}\n{"jsonrpc": "2.0", "id": ID, "result": {"content": []}}',
    "blank": b"\n" * 50_000 + b'{"jsonrpc": "2.0", "id": ID, "result": {"content": []}}',
}
"""The output for a tool; ID stands for the request's id."""


def said(asked: dict[str, Any], kind: str) -> dict[str, Any]:
    """The answer to a request."""
    match asked["method"]:
        case "initialize":
            version = asked["params"]["protocolVersion"]
            about = {"name": "raw", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
        case "tools/list":
            return LISTS.get(kind, LISTS["plain"])
        case "tools/call":
            if asked["params"]["name"] == "as-task":
                return {"error": {"code": -32601, "message": "no such method"}}
            if kind == "schemas":
                given = asked["params"].get("arguments")
                structured = {"structuredContent": given} if asked["params"]["name"] in OUTPUTS else {}
                return {"result": {"content": [{"type": "text", "text": json.dumps(given)}], **structured}}
            fine = {"result": {"content": [{"type": "text", "text": "fine"}]}}
            return CALLS.get(asked["params"]["name"], fine)
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}


def write(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tools: list[dict[str, Any]] = []
    late: list[int] = []
    LISTS["restless"] = {"result": {"tools": tools}}
    for line in sys.stdin:
        request = json.loads(line)
        tool = request.get("params", {}).get("name")
        if tool in LINES:
            sys.stdout.buffer.write(LINES[tool].replace(b"ID", b"%d" % request["id"]) + b"\n")
            sys.stdout.buffer.flush()
        elif tool == "endless":
            while True:
                sys.stdout.buffer.write(b" " * 65_536)
        elif tool == "later":  # is answered with the next call of another tool
            late.append(request["id"])
        elif tool in ASKED:
            write({"id": "mine", "method": tool, "params": ASKED[tool]})
            said_back = json.loads(sys.stdin.readline())
            text = f"failed: {said_back['error']['message']}"
            write({"id": request["id"], "result": {"isError": True, "content": [{"type": "text", "text": text}]}})
        elif tool == "pids":
            other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
            text = json.dumps([os.getpid(), other.pid])
            write({"id": request["id"], "result": {"content": [{"type": "text", "text": text}]}})
        elif request.get("id") is not None:
            if request["method"] == "tools/list":
                if sys.argv[1] == "mortal":
                    break
                if sys.argv[1] == "mute":
                    continue
                if sys.argv[1] == "restless":
                    tools.append({"name": f"number-{len(tools)}", "inputSchema": {"type": "object"}})
                    write({"method": "notifications/tools/list_changed"})
            write({"id": request["id"], **said(request, sys.argv[1])})
        while tool is not None and tool != "later" and late:
            write({"id": late.pop(), **said(request, sys.argv[1])})
    if sys.argv[1] == "stubborn":
        signal.pause()
