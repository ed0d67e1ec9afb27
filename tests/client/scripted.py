"""A server whose answers a test writes: for what a real front-end does only in bad moments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

Step = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(content: Any, failed: bool = False) -> Step:
    """A tool's structured answer."""
    result = {"structuredContent": content, "isError": failed, "content": [{"type": "text", "text": "said"}]}
    return raw(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}))


def refusal(code: str, kind: str, after_ms: int | None = None) -> Step:
    error = {"code": code, "kind": kind, "message": f"it is {code}"}
    return answer({"error": error if after_ms is None else {**error, "retryAfterMs": after_ms}}, failed=True)


def raw(body: str, status: str = "200 OK", **headers: str) -> Step:
    """Any answer of HTTP."""

    async def write(writer: asyncio.StreamWriter) -> None:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(body.encode())}", *lines])
        writer.write(f"{head}\r\n\r\n{body}".encode())
        await writer.drain()

    return write


def part(text: str = "") -> Step:
    """Only this of an answer, and then the end of the connection."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(text.encode())
        await writer.drain()
        writer.close()

    return write


async def silence(_writer: asyncio.StreamWriter) -> None:
    """No answer, on a connection that stays."""


class Scripted:
    """Each request is answered by the next step; the last one repeats."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.calls: list[dict[str, Any]] = []
        """``params`` of each request."""
        self.heads: list[str] = []
        self.connections = 0
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(line.split(":")[1] for line in head.lower().split("\r\n") if "content-length" in line)
                self.calls.append(json.loads(await reader.readexactly(int(length)))["params"])
                self.heads.append(head)
                await (self.steps.pop(0) if len(self.steps) > 1 else self.steps[0])(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
