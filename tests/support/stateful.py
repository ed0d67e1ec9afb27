"""Downstream servers that keep a state for each session: over stdio as processes, over HTTP in the test."""

from __future__ import annotations

import json
import sys
import uuid
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from coordinator.settings.sections.connections import Connection
from tests.support.fleets import ROOT
from tests.support.stateful_server import answer
from tests.support.web import LocalServer, Quiet

PROGRAM = Path(__file__).with_name("stateful_server.py")


def stateful(name: str = "it", **more: Any) -> Connection:
    """A connection that starts the server."""
    args = (str(PROGRAM), name)
    env = {"PYTHONPATH": str(ROOT)}
    return Connection(kind="mcp", command=sys.executable, args=args, env=env, **{"state": "session", **more})


class StatefulHttp(LocalServer):
    """The server over Streamable HTTP.

    Attributes:
        sessions: the words of each session that it knows; requests of others are answered with status 404.
        nameless: whether it gives sessions no ids.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, list[str]] = {}
        self.nameless = False
        here = self

        class Answering(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                session = self.headers.get("mcp-session-id", "")
                if asked["method"] == "initialize" and not here.nameless:
                    session = uuid.uuid4().hex
                    here.sessions[session] = []
                elif session and session not in here.sessions:
                    self.answer(404, b"gone")
                    return
                if asked.get("id") is None:
                    self.answer(202, b"", session)
                    return
                found = answer(asked, here.sessions.get(session, []), session)
                body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **found}).encode()
                self.answer(200, body, session)

            def do_GET(self) -> None:
                self.answer(405, b"")

            def do_DELETE(self) -> None:
                here.sessions.pop(self.headers.get("mcp-session-id", ""), None)
                self.answer(200, b"")

            def answer(self, status: int, body: bytes, session: str = "") -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                if session:
                    self.send_header("mcp-session-id", session)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Answering)

    def connection(self, **more: Any) -> Connection:
        """A connection to it."""
        return Connection(kind="mcp", url=f"{self.url}/mcp", **{"state": "session", **more})
