"""The start and stop of a front-end process."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.metrics import recording
from coordinator.overload import Admission
from coordinator.processes import frontend
from coordinator.processes.frontend import McpServer, announce
from coordinator.settings import Settings
from coordinator.store.link.replies import unavailable
from tests.processes.told import Told
from tests.transport.rig import FakeStore, make_app


@pytest.mark.anyio
async def test_it_reports_that_it_is_ready() -> None:
    told = Told()
    await announce(make_app(), told, 8420)
    assert told.heard


@pytest.mark.anyio
async def test_it_waits_for_an_unavailable_store() -> None:
    told = Told()

    class Returning(FakeStore):
        async def ping(self) -> float:
            self.error = None if self.pings else unavailable("is not there")
            assert not told.heard
            return await super().ping()

    store = Returning()
    await announce(make_app(store=store), told, 8420)
    assert told.heard
    assert store.pings == 2


@pytest.mark.anyio
async def test_a_drain_by_an_operator_does_not_delay_it() -> None:
    app, told = make_app(), Told()
    await app.take_no_new_work("process:host/fe-0")
    await announce(app, told, 8420)
    assert told.heard
    assert not (await app.readiness())[0]


@pytest.mark.anyio
async def test_a_stop_while_it_waits_is_not_a_failure() -> None:
    """SIGTERM between the first connection and the first check is a normal stop."""

    class Signalled(FakeStore):
        async def ping(self) -> float:
            app.begin_drain()
            return await super().ping()

    told = Told()
    app = make_app(store=Signalled())
    await announce(app, told, 8420)
    assert app.draining
    assert not told.heard


@pytest.mark.anyio
async def test_it_serves_before_it_reports_ready() -> None:
    app, told = make_app(), Told()
    server = McpServer(app, Settings(port=0))
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\ndate: ")
    writer.close()
    assert not told.heard
    await announce(app, told, server.port)
    assert told.heard
    await server.stop()


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[McpServer, tuple[str, int]]]:
    """A server and its address, until it stops."""
    server = McpServer(make_app(), Settings(port=0))
    await server.start()
    yield server, ("127.0.0.1", server.port)
    await server.ended


@pytest.mark.anyio
async def test_connections_in_the_backlog_at_a_stop_are_answered() -> None:
    async with serving() as (server, address):
        with contextlib.ExitStack() as stack:
            # The kernel completes these connections within this iteration of the event loop.
            clients = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(5)]
            server.leave()
            for client in clients:
                client.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            for client in clients:
                assert (await asyncio.to_thread(client.recv, 100)).startswith(b"HTTP/1.1 200")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, 20)


@pytest.mark.anyio
async def test_it_stops_even_if_it_cannot_accept() -> None:
    async with serving() as (server, address):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with socket.create_connection(address, 20):
            resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
            try:
                server.leave()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # A second signal has stopped it before.
    server.leave()


@pytest.mark.anyio
async def test_it_keeps_measuring_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "PROBE_SECONDS", 0.001)
    monkeypatch.setattr(frontend, "HOT_SECONDS", 0.0)
    reports, reported = 0, asyncio.Event()

    class Reporting(Admission):
        def report(self) -> None:
            nonlocal reports
            reports += 1
            if reports == 3:
                reported.set()

    recording().hot.lost("default", "an-item")
    app = make_app()
    server = McpServer(app, Settings(port=0))
    admission = Reporting(Settings().overload, time.monotonic)
    watching = asyncio.create_task(frontend.watch(server, app, admission, tmp_path / "gone"))
    told = asyncio.create_task(reported.wait())
    await asyncio.wait([watching, told], timeout=20, return_when=asyncio.FIRST_COMPLETED)
    assert reported.is_set()
    watching.cancel()
