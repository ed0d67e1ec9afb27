"""A key server that can misbehave: a process of its own, configured over stdin.

Each line on stdin is a JSON object; each is answered by one line on stdout when it is in force::

    {"path": "/jwks", "body": "...", "type": "application/json", "status": 200, "mode": "answer"}
    {"count": "/jwks"}

Modes: ``answer``; ``hang`` (accepts and says nothing), ``stall`` (half an answer, then nothing),
``trickle`` (an endless answer, slowly), ``endless`` (the same as fast as it is read), ``drop``
(closes at once).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
from typing import Any

Route = dict[str, Any]


class Server:
    """What is to be answered, and how often it was asked."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.counts: dict[str, int] = {}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode().partition("?")[0]
            self.counts[path] = self.counts.get(path, 0) + 1
            await self._answer(self.routes.get(path, {"status": 404, "body": "{}"}), reader, writer)
        writer.close()

    async def _answer(self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mode = route.get("mode", "answer")
        body = route.get("body", "").encode()
        lines = [
            f"HTTP/1.1 {route.get('status', 200)} Any",
            f"content-type: {route.get('type', 'application/json')}",
            *(f"{name}: {value}" for name, value in route.get("headers", {}).items()),
        ]
        if mode in ("answer", "stall"):
            lines += [f"content-length: {len(body)}"]
        lines += ["connection: close", "", ""]
        head = "\r\n".join(lines).encode()
        if mode == "hang":
            await reader.read()
        elif mode == "drop":
            return
        elif mode == "stall":
            writer.write(head + body[: len(body) // 2])
            await reader.read()
        elif mode == "trickle":
            writer.write(head)
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        elif mode == "endless":
            writer.write(head)
            while not writer.is_closing():
                writer.write(b" " * 65_536)
                await writer.drain()
        else:
            writer.write(head + body)
            await writer.drain()

    def apply(self, config: dict[str, Any]) -> dict[str, Any]:
        """Applies a line of configuration."""
        if "count" in config:
            return {"count": self.counts.get(config["count"], 0)}
        self.routes[config.pop("path")] = config
        return {}


async def main(port: int, certificate: str) -> None:
    """Serves until stdin ends."""
    server = Server()
    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", port, ssl=context)
    print(json.dumps({"port": listening.sockets[0].getsockname()[1]}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(server.apply(json.loads(line))), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
