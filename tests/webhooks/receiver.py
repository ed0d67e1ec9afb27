"""A receiver of webhooks: an HTTP server in a thread, which checks signatures with the library and does as told."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

from standardwebhooks import Webhook

from coordinator.webhooks.signing import headers
from tests.support.wait import wait_until, wait_until_sync

Json = dict[str, Any]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="


def signed() -> dict[str, str]:
    """The headers of the body ``{}``."""
    return dict(headers("test:1", b"{}", [SECRET], datetime.now(UTC)))


class Got(NamedTuple):
    """A message that came."""

    id: str
    body: Json
    headers: dict[str, str]
    text: str
    answered: int
    at: float


class Receiver:
    """Answers what ``answer`` says: a status; or headers, too; or anything that a handler does itself."""

    def __init__(self, secret: str = SECRET, certificate: Path | None = None) -> None:
        self.secrets = [secret]
        self.got: list[Got] = []
        self.answer: Callable[[BaseHTTPRequestHandler], int | None] = lambda request: 204
        self.connections = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                receiver.connections += 1

            def do_POST(self) -> None:
                receiver.take(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: Any) -> None:
                """A client that has hung up is no fault of the test."""

        self._server = Server(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hooks?key=hush"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, request: BaseHTTPRequestHandler) -> None:
        """Reads and verifies a message, and answers it."""
        text = request.rfile.read(int(request.headers["content-length"])).decode()
        sent = {name.lower(): value for name, value in request.headers.items()}
        for secret in self.secrets:
            Webhook(secret).verify(text, sent)
        status = self.answer(request)
        # Before the answer: what has noted that may look at once.
        self.got.append(Got(sent["webhook-id"], json.loads(text), sent, text, status or 0, time.time()))
        if status is not None:
            request.send_response(status)
            request.send_header("content-length", "0")
            request.end_headers()

    @property
    def taken(self) -> list[Got]:
        """The messages that were answered with success."""
        return [one for one in list(self.got) if 200 <= one.answered < 300]

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.taken]

    async def until(self, count: int, what: str = "messages") -> list[Got]:
        """Waits until so many were taken."""
        await wait_until(lambda: len(self.taken) >= count, what=f"{count} {what}, not {len(self.taken)}")
        return self.taken

    def until_sync(self, count: int, seconds: float = 120.0) -> list[Got]:
        """The same outside an event loop."""
        wait_until_sync(lambda: len(self.taken) >= count, seconds, f"{count} messages")
        return self.taken
