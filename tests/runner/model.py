"""A stand-in for the HTTP interfaces of two models, Anthropic's Messages and OpenAI's Responses, on loopback.

The model does what the prompt says, line by line, one line a request:

    RUN: <command>      calls the shell tool with it
    CALL: <tool> <JSON> calls another tool, known by the end of its name
    STATUS: <code>      the request fails with this HTTP status, again and again
    WAIT                the answer never comes
    SAY: <text>         the final answer; without one it says "done"

Commands that were run already are counted in the conversation, so nothing is kept between requests.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
LINE = re.compile(r"^(RUN|CALL|STATUS|SAY): (.+)$|^(WAIT)$", re.MULTILINE)
SHELLS = ("Bash", "exec_command", "shell", "shell_command", "local_shell")
"""The names of shell tools."""


class Model:
    """The stand-in, at ``url``; ``requests`` has the bodies of those that it was sent."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self.closing = threading.Event()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                path = self.path.partition("?")[0]
                if path.endswith("/messages"):
                    model.requests.append(body)
                    self.answer(*_instruction(body["messages"], "tool_result"), _anthropic(body))
                elif path.endswith("/responses"):
                    model.requests.append(body)
                    self.answer(*_instruction(body["input"], "call_output"), _openai(body))
                else:
                    self.send(404, "application/json", b"{}")

            def do_GET(self) -> None:
                self.send(404, "application/json", b"{}")

            def answer(self, kind: str, text: str, stream: Any) -> None:
                if kind == "WAIT":
                    model.closing.wait()
                if kind in ("STATUS", "WAIT"):
                    error = {"type": "error", "error": {"type": "made_up", "message": f"made up: {text}"}}
                    self.send(int(text or 503), "application/json", json.dumps(error).encode())
                    return
                events = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in stream(kind, text))
                self.send(200, "text/event-stream", events.encode())

            def send(self, status: int, kind: str, body: bytes) -> None:
                with contextlib.suppress(ConnectionError):
                    self.send_response(status)
                    self.send_header("content-type", kind)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def _instruction(conversation: list[Json] | str, result: str) -> tuple[str, str]:
    """What the model does now: the line after as many as there are results of tools."""
    text = json.dumps(conversation, ensure_ascii=False)
    done = len(re.findall(rf'"type": "(?:[a-z_]*){result}"', text))
    lines = [(kind or wait, said) for said in _strings(conversation) for kind, said, wait in LINE.findall(said)]
    seen: list[tuple[str, str]] = []
    for line in lines:
        if line not in seen:
            seen.append(line)
    return seen[done] if done < len(seen) else ("SAY", "done")


def _strings(value: Any) -> Iterator[str]:
    """What people have written in a conversation, without calls of tools and their results."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif value.get("role") in (None, "user", "developer") and value.get("type") in (
        None,
        "message",
        "text",
        "input_text",
    ):
        yield from _strings(value.get("content") or value.get("text") or "")


def _shell(tools: list[Json], command: str) -> tuple[str, Json]:
    """The shell tool among those offered, and its arguments."""
    offered = {tool.get("name"): tool.get("input_schema") or tool.get("parameters") or {} for tool in tools}
    name = next((one for one in SHELLS if one in offered), SHELLS[0])
    properties = offered.get(name, {}).get("properties", {})
    key = "cmd" if "cmd" in properties else "command"
    listed = properties.get(key, {}).get("type") == "array"
    arguments: Json = {key: ["sh", "-c", command] if listed else command}
    return name, arguments | ({"description": "as told"} if "description" in properties else {})


def _call(kind: str, tools: list[Json], text: str) -> tuple[str, Json]:
    """The tool that a line names, and its arguments."""
    if kind == "RUN":
        return _shell(tools, text)
    wanted, _, arguments = text.partition(" ")
    names = [str(tool.get("name")) for tool in tools]
    return next((name for name in names if name.endswith(wanted)), wanted), json.loads(arguments or "{}")


def _anthropic(body: Json) -> Any:
    turn = len(body["messages"])

    def stream(kind: str, text: str) -> Iterator[Json]:
        message = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "content": [], "model": body["model"]}
        usage = {
            "input_tokens": 100,
            "output_tokens": 1,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 5,
        }
        yield {
            "type": "message_start",
            "message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage},
        }
        if kind in ("RUN", "CALL"):
            name, arguments = _call(kind, body.get("tools", []), text)
            block: Json = {"type": "tool_use", "id": f"toolu_{turn}", "name": name, "input": {}}
            delta: Json = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        reason = "tool_use" if kind in ("RUN", "CALL") else "end_turn"
        end = {"stop_reason": reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}}
        yield {"type": "message_stop"}

    return stream


def _openai(body: Json) -> Any:
    turn = len(body["input"])

    def stream(kind: str, text: str) -> Iterator[Json]:
        response: Json = {"id": f"resp_{turn}", "object": "response", "model": body["model"], "output": []}
        yield {"type": "response.created", "response": response | {"status": "in_progress"}}
        if kind in ("RUN", "CALL"):
            name, arguments = _call(kind, body.get("tools", []), text)
            call = {"call_id": f"call_{turn}", "name": name, "arguments": json.dumps(arguments)}
            groups = [tool for tool in body.get("tools", []) if tool.get("type") == "namespace"]
            if named := [one["name"] for one in groups if name in [tool["name"] for tool in one["tools"]]]:
                call["namespace"] = named[0]
            item: Json = {"type": "function_call", "id": f"fc_{turn}", **call, "status": "completed"}
        else:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            item = {
                "type": "message",
                "id": f"msg_{turn}",
                "role": "assistant",
                "content": content,
                "status": "completed",
            }
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 5},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 120,
        }
        yield {
            "type": "response.completed",
            "response": response | {"status": "completed", "output": [item], "usage": usage},
        }

    return stream
