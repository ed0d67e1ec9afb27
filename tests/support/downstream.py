"""Downstream MCP servers for tests: real processes."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from coordinator.settings.sections.connections import Connection
from tests.support.fleets import environment
from tests.support.ports import free_port
from tests.support.raw_server import said
from tests.support.wait import wait_until_sync
from tests.support.web import LocalServer, Quiet

PROGRAM = Path(__file__).with_name("downstream_server.py")
RAW = Path(__file__).with_name("raw_server.py")
STREAM = {"content-type": "text/event-stream"}


def stdio(**more: object) -> Connection:
    """A connection that starts the server."""
    return Connection(kind="mcp", command=sys.executable, args=(str(PROGRAM),), **more)  # type: ignore[arg-type]


def raw(kind: str) -> Connection:
    """A connection that starts a server that violates the protocol; ``kind`` is its argument."""
    return Connection(kind="mcp", command=sys.executable, args=(str(RAW), kind))


class RawHttp(LocalServer):
    """The library-free server over HTTP, with answers that no server should give: of a megabyte, compressed, or
    streamed and larger.

    Attributes:
        sessions: those that it knows; requests of others are answered with status 404 and ``farewell``.
        forgetful: keeps no session.
    """

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.forgetful = False
        self.farewell = b"gone"
        here = self

        class Answering(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                session = self.headers.get("mcp-session-id")
                if asked["method"] == "initialize":
                    session = uuid.uuid4().hex
                    here.sessions |= set() if here.forgetful else {session}
                elif session is not None and session not in here.sessions:
                    self.answer(404, here.farewell)
                    return
                if asked.get("id") is None:
                    self.answer(202, b"")
                    return
                answer = {"jsonrpc": "2.0", "id": asked["id"], **said(asked, "plain")}
                body = json.dumps(answer).encode()
                tool = asked.get("params", {}).get("name")
                if tool == "big":
                    body += b" " * 1_000_000
                if tool == "streamed":
                    self.answer(200, b"data: " + body.replace(b"fine", b"fine" * 500_000) + b"\n\n", STREAM)
                    return
                if asked["method"] == "tools/call":
                    here.called(asked)
                packed = {"content-encoding": "gzip"} if tool == "packed" else {}
                named = {"mcp-session-id": session} if session else {}
                self.answer(200, gzip.compress(body) if packed else body, {**packed, **named})

            def do_GET(self) -> None:
                self.answer(405, b"")

            do_DELETE = do_GET  # noqa: N815

            def answer(self, status: int, body: bytes, more: Mapping[str, str] = {}) -> None:
                self.send_response(status)
                for name, value in {"content-type": "application/json", **more}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

        super().__init__(Answering)
        self.connection = Connection(kind="mcp", url=f"{self.url}/mcp")

    def called(self, request: dict[str, Any]) -> None:
        """Called for each tool call, before the answer."""


class HttpServer:
    """The server over Streamable HTTP.

    Args:
        directory: the folder for its output.
    """

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._log = directory / f"downstream-{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def connection(self) -> Connection:
        return Connection(kind="mcp", url=self.url)

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(self.port)], stdout=log, stderr=log, env=environment()
            )
        wait_until_sync(self._listens, what="the downstream server listens")

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
