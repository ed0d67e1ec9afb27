"""HTTP servers for tests that answer what no MCP server should, over TLS too."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.settings.sections.connections import Connection
from tests.support.raw_server import said
from tests.support.web import LocalServer, Quiet

STREAM = {"content-type": "text/event-stream"}


class Answer(NamedTuple):
    """What is answered instead of MCP."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class OddHttp(LocalServer):
    """A small MCP server over Streamable HTTP.

    Args:
        pem: a file with a certificate and its key, for TLS; None: plain HTTP.

    Attributes:
        answer: what every request is answered with; None: as an MCP server does.
        calls_only: whether ``answer`` counts for tool calls only.
        version: the protocol revision that it offers; empty: that of the client.
        old: speaks the old transport HTTP+SSE only.
        mute: the same, but its stream says nothing.
    """

    def __init__(self, pem: Path | None = None) -> None:
        self.answer: Answer | None = None
        self.calls_only = False
        self.version = ""
        self.old = self.mute = False
        here = self

        class Answering(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self.reply(here.reply(asked))

            def do_GET(self) -> None:
                if not here.old and not here.mute:
                    self.reply(Answer(405))
                    return
                first = b": ping" if here.mute else b"event: endpoint\ndata: /messages/?session_id=1"
                self.reply(Answer(200, first + b"\n\n", {**STREAM, "content-length": "1000"}))

            do_DELETE = do_GET  # noqa: N815

            def reply(self, answer: Answer) -> None:
                self.send_response(answer.status)
                sized = {"content-type": "application/json", "content-length": str(len(answer.body))}
                for name, value in {**sized, **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(answer.body)

        super().__init__(Answering)
        self._scheme = "http"
        if pem is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"

    def connection(self, host: str = "127.0.0.1", path: str = "/mcp", **more: Any) -> Connection:
        """The connection to it, by a name of this machine."""
        return Connection(kind="mcp", url=f"{self._scheme}://{host}:{self._server.server_port}{path}", **more)

    def reply(self, asked: dict[str, Any]) -> Answer:
        """The answer to a request."""
        if self.old or self.mute:
            return Answer(405)
        if self.answer is not None and (not self.calls_only or asked["method"] == "tools/call"):
            return self.answer
        if asked.get("id") is None:
            return Answer(202)
        found = said(asked, "plain")
        if self.version and asked["method"] == "initialize":
            found["result"]["protocolVersion"] = self.version
        return Answer(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **found}).encode())
