"""The embedded store is restarted when it dies or hangs, but not while it loads its data."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from coordinator.processes.supervision import store_supervisor
from coordinator.processes.supervision.store_supervisor import StoreSupervisor
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.link.address import parse
from coordinator.store.metrics import DISK_FREE, DISK_RATIO
from tests.support.counts import counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(tmp_path: Path) -> EmbeddedServer:
    return EmbeddedServer(tmp_path)


@pytest.fixture
async def supervisor(server: EmbeddedServer) -> AsyncIterator[StoreSupervisor]:
    supervisor = StoreSupervisor(server, lambda: None, watchdog_seconds=2)
    await supervisor.start()
    yield supervisor
    await supervisor.stop()


def answers(supervisor: StoreSupervisor) -> bool:
    with redis.Redis(**parse(supervisor.url).client_options(), socket_timeout=5) as client:
        return bool(client.ping())


async def test_the_disk_of_the_store_is_measured(supervisor: StoreSupervisor, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)
    ratio = usage.free / usage.total
    await wait_until(lambda: counted(DISK_RATIO) == pytest.approx(ratio, rel=0.2), what="a measurement")
    assert counted(DISK_FREE) == pytest.approx(usage.free, rel=0.2)


async def test_a_hung_store_is_restarted(
    supervisor: StoreSupervisor, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wait_until(lambda: server.sign_of_life() == "ready", what="the store")
    pid = supervisor.pid
    assert pid is not None
    with redis.Redis(**parse(supervisor.url).client_options()) as client:
        client.set("kept", "yes")
    asked = 0
    sign = server.sign_of_life

    def listening() -> object:
        nonlocal asked
        found = sign()
        asked += found is not None
        return found

    monkeypatch.setattr(server, "sign_of_life", listening)
    await wait_until(lambda: asked > 0, what="a ping")
    with capture_logs() as logged:
        os.kill(pid, signal.SIGSTOP)
        await wait_until(lambda: supervisor.pid not in (pid, None) and server.poll() is None, what="another server")
        await wait_until(lambda: any(line["event"] == "the embedded store is back" for line in logged), what="the log")
    assert [line["pid"] for line in logged if line["event"] == "the embedded store hangs, killing it"] == [pid]
    with redis.Redis(**parse(supervisor.url).client_options()) as client:
        assert client.get("kept") == b"yes"


async def test_a_loading_store_is_not_killed(
    supervisor: StoreSupervisor, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes, even if it is silent for a while."""
    pid = supervisor.pid
    signs = iter(["loading", None, None, "loading", None, None, None, "ready", "ready"])
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def says() -> object:
        found = next(signs, "end")
        if found == "end":
            loop.call_soon_threadsafe(asked.set)
        return found

    monkeypatch.setattr(store_supervisor, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(server, "sign_of_life", says)
    supervisor.watchdog_seconds = 0.01
    async with asyncio.timeout(60):
        await asked.wait()
    assert supervisor.pid == pid
    assert await asyncio.to_thread(answers, supervisor)


async def test_a_store_that_cannot_start_is_not_reported_as_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoServer(EmbeddedServer):
        looks = kills = 0

        def start(self) -> str:
            return ""

        @property
        def pid(self) -> int | None:
            """Only the watchdog asks for it."""
            self.looks += 1
            return None

        def kill(self) -> None:
            self.kills += 1

    monkeypatch.setattr(store_supervisor, "START_SECONDS", 0.0)
    server = NoServer("nowhere")
    monkeypatch.setattr(server, "sign_of_life", lambda: None)
    supervisor = StoreSupervisor(server, lambda: None, watchdog_seconds=0.01)
    await supervisor.start()
    await wait_until(lambda: server.looks > 20, what="some looks at it")
    await supervisor.stop()
    assert server.kills == 0
