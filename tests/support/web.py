"""HTTP servers for tests, in threads of the test process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class Quiet:
    """Mixin for handlers: requests are not logged to stderr."""

    def log_message(self, *_: object) -> None:
        pass


class LocalServer:
    """Serves on a free local port within the block."""

    def __init__(self, handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def silent(host: str, port: int) -> Iterator[None]:
    """Makes an address unresponsive: its backlog is full, so connections hang without an error."""
    with socket.create_server((host, port), backlog=0), contextlib.ExitStack() as full:
        for _ in range(2):
            one = full.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex((host, port))
        yield
