"""Downstream MCP servers of the tests' own: real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from coordinator.settings.connections import Connection
from tests.support.fleets import environment
from tests.support.ports import free_port
from tests.support.wait import wait_until_sync

PROGRAM = Path(__file__).with_name("downstream_server.py")
RAW = Path(__file__).with_name("raw_server.py")


def stdio(**more: object) -> Connection:
    """A connection that starts the server."""
    return Connection(kind="mcp", command=sys.executable, args=(str(PROGRAM),), **more)  # type: ignore[arg-type]


def raw(kind: str) -> Connection:
    """A connection that starts a server which breaks the protocol; ``kind`` as it takes it."""
    return Connection(kind="mcp", command=sys.executable, args=(str(RAW), kind))


class HttpServer:
    """The server over Streamable HTTP.

    Args:
        directory: where its output goes.
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
