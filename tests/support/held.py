"""A proxy between a process and its Redis. It pauses traffic where a test says, so that the process can be killed."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace
from typing import Self
from urllib.parse import quote

from coordinator.store.link.address import Address, parse


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
    """Listens on free local ports within the block, and forwards to the server of ``url``, or to each node of its
    cluster."""

    def __init__(self, url: str) -> None:
        target = parse(url)
        targets = [target.of_node(place) for place in target.nodes] or [target]
        self._targets = {socket.create_server(("127.0.0.1", 0)): one for one in targets}
        ports = {one: f"127.0.0.1:{listening.getsockname()[1]}" for listening, one in self._targets.items()}
        self.url = f"redis://:{quote(target.password or '', safe='')}@{ports[targets[0]]}/0"
        if target.nodes:
            known = tuple((f"{one.host}:{one.port}", port) for one, port in ports.items())
            self.url = replace(target, address_map=known).url()
        self.requests = Hold()
        self.replies = Hold()
        self.answered = threading.Event()
        """Whether the server has answered the request that was held back."""
        self._sockets: list[socket.socket] = [*self._targets]
        self._threads = [threading.Thread(target=self._accept, args=place) for place in self._targets.items()]

    def __enter__(self) -> Self:
        for thread in tuple(self._threads):
            thread.start()
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

    def _accept(self, listening: socket.socket, target: Address) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = _connected(target)
                self._sockets += (client, server)
                late = threading.Event()
                for work in (
                    threading.Thread(target=self._pass_requests, args=(client, server, late)),
                    threading.Thread(target=self._pass_replies, args=(server, client, late)),
                ):
                    self._threads.append(work)
                    work.start()

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


def _connected(target: Address) -> socket.socket:
    if not target.path:
        return socket.create_connection((target.host, target.port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(target.path)
    return server
