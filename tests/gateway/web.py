"""A small HTTP server for REST executors: records requests, and answers as scripted."""

from __future__ import annotations

import json
import ssl
from collections import deque
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.support.web import LocalServer, Quiet

Answer = tuple[int, dict[str, str], bytes]


class Web(LocalServer):
    """The server.

    Attributes:
        seen: requests as method, path with query, headers in lower case, body.
        answers: the next answers; if empty, 200 with the request as JSON.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: deque[Answer] = deque()
        web = self

        class Answering(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                headers = {name.lower(): ", ".join(self.headers.get_all(name, ())) for name in self.headers}
                web.seen.append((self.command, self.path, headers, body))
                if web.answers:
                    status, more, data = web.answers.popleft()
                else:
                    told = {"method": self.command, "path": self.path, "body": json.loads(body) if body else None}
                    status, more, data = 200, {"content-type": "application/json"}, json.dumps(told).encode()
                self.send_response(status)
                for name, value in {**more, "content-length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = answer  # noqa: N815

        super().__init__(Answering)

    def speak_tls(self, certificate: Path) -> None:
        """From the next connection on, with a PEM file that also holds the key."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
