"""A front behind a real server on a real port, in a thread of the test process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import uvicorn
import uvloop

from coordinator.processes.operators_port import server_config
from coordinator.transport import FrontEnd
from coordinator.transport.fast_path.http import http_protocol
from tests.support.wait import wait_until_sync
from tests.transport.rig import Rig


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@dataclass
class Live:
    """A running server."""

    app: FrontEnd
    port: int
    server: uvicorn.Server

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """The class that serves its connections."""
        return self.server.config.http_protocol_class

    def stop(self) -> None:
        """Starts the shutdown of the server."""
        self.server.should_exit = True

    @property
    def url(self) -> str:
        """The URL of the default endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"


@contextlib.contextmanager
def serving(
    make: Callable[[], FrontEnd], head_limit: int = 16_384, arrival_seconds: float = 30.0, keep_alive: int = 30
) -> Iterator[Live]:
    """Serves the application of ``make`` (created in the server's thread) until the block ends."""
    sock = socket.create_server(("127.0.0.1", 0))
    servers: list[_Server] = []
    apps: list[FrontEnd] = []

    async def serve() -> None:
        apps.append(make())
        http = http_protocol(apps[0], head_limit, arrival_seconds)
        config = server_config(apps[0], http, lifespan="on", timeout_keep_alive=keep_alive, timeout_graceful_shutdown=2)
        servers.append(_Server(config))
        await servers[0].serve([sock])

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, name="front")
    thread.start()
    try:
        wait_until_sync(lambda: (servers and servers[0].started) or not thread.is_alive(), what="the server listens")
        yield Live(apps[0], sock.getsockname()[1], servers[0])
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(60)
        sock.close()
        assert not thread.is_alive(), "the server did not end"


def open_gate(rig: Rig, gate: str = "g") -> None:
    """Opens a gate, in the event loop that waits for it."""
    assert rig.loop is not None, "nobody waits at it"
    rig.loop.call_soon_threadsafe(rig.gates.pop(gate).set)
