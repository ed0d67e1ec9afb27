"""A proxy between a process and its Redis. It pauses traffic where a test says, so that the process can be killed."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self
from urllib.parse import quote

from coordinator.store.address import parse


class Hold:
    """The pause in one direction."""

    def __init__(self) -> None:
        self.marker = b""
        """The first chunk that contains this is held back, and all that follows on its connection; empty: none."""
        self.held = threading.Event()
        """Set when that chunk has arrived."""
        self.free = threading.Event()
        """Set by the test to forward it."""


class HoldingProxy:
    """Listens on a free local port within the block, and forwards to the server of ``url``."""

    def __init__(self, url: str) -> None:
        self._target = parse(url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = (
            f"redis://:{quote(self._target.password or '', safe='')}@127.0.0.1:{self._listening.getsockname()[1]}/0"
        )
        self.requests = Hold()
        self.replies = Hold()
        self.answered = threading.Event()
        """Whether the server has answered the request that was held back."""
        self._sockets: list[socket.socket] = [self._listening]
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for hold in (self.requests, self.replies):
            hold.free.set()
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = self._connected()
                self._sockets += (client, server)
                late = threading.Event()
                for work in (
                    threading.Thread(target=self._pass_requests, args=(client, server, late)),
                    threading.Thread(target=self._pass_replies, args=(server, client, late)),
                ):
                    self._threads.append(work)
                    work.start()

    def _connected(self) -> socket.socket:
        target = self._target
        if target.path is None:
            return socket.create_connection((target.host, target.port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(target.path)
        return server

    def _pass_requests(self, client: socket.socket, server: socket.socket, late: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                if self._holds(self.requests, data):
                    late.set()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _pass_replies(self, server: socket.socket, client: socket.socket, late: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                if late.is_set():
                    self.answered.set()
                self._holds(self.replies, data)
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _holds(self, hold: Hold, data: bytes) -> bool:
        """Waits if this data is to be held back; returns whether it was."""
        if not hold.marker or hold.marker not in data or hold.held.is_set():
            return False
        hold.held.set()
        hold.free.wait()
        return True
