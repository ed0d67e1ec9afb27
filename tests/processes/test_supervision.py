"""The parts of supervision without processes: delays, ports, the state file, store failures."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.backoff import Backoff
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.fleetfile import Fleet, FleetFile, read_fleet
from coordinator.processes.stores import given_url, open_store
from coordinator.processes.supervision.brief import ReloadOutcome
from coordinator.processes.supervision.sockets import listening, reserve
from coordinator.processes.supervision.spawner import Spawner
from coordinator.processes.supervision.supervised import Child, Spec
from coordinator.settings import Settings
from coordinator.settings.effective_auth import base_url
from coordinator.store.link.address import parse as parse_address


@given(st.lists(st.floats(0, 100), max_size=2000), st.floats(0, 1))
def test_delays_stay_within_bounds_and_start_over_after_stable_time(lives: list[float], jitter: float) -> None:
    backoff = Backoff(first=0.1, most=10.0, stable=1.0, jitter=lambda: jitter)
    failures = 0
    for ready_seconds in lives:
        failures = 0 if ready_seconds >= 1.0 else failures
        delay = backoff.next(ready_seconds)
        assert 0.05 <= delay <= 10.0
        longest = min(0.1 * 2.0 ** min(failures, 30), 10.0)
        assert longest / 2 <= delay <= longest
        failures += 1


class Alive:
    """A process that runs."""

    pid = 1
    returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int, /) -> None:
        raise AssertionError("nobody is to be signalled")


class Stage(Spawner):
    """Starts no process; the test writes its reports."""

    reports = -1
    process: Alive

    def __init__(self) -> None:
        """Adopts no orphans either."""

    def start(self, slot: str, brief: IO[bytes], status: int, control: int) -> Alive:
        self.reports, self.process = os.dup(status), Alive()
        return self.process

    def beat(self) -> None:
        os.write(self.reports, b'{"ready":true}\n')


@pytest.mark.anyio
async def test_a_heartbeat_is_due_one_beat_after_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    child = Child(Spec("frontend", "fe-0", Settings, tmp_path), stage, lambda child: None)
    assert child.overdue() == 0.0, "nobody runs"
    child.start()
    assert [child.overdue() for _ in range(4)] == [0.0, 0.0, 1.0, 2.0], "it has said nothing yet"
    for _ in range(3):
        stage.beat()
        # The event loop may hear of it at once, and not only when somebody looks.
        child.listen()
        assert [child.overdue() for _ in range(5)] == [0.0, 0.0, 1.0, 2.0, 3.0]
    stage.process.returncode = -9
    os.close(stage.reports)
    assert child.ended()
    child.start()
    assert child.overdue() == 0.0, "the next one owes nothing for the last"
    tries, write = 0, os.write

    def counted(descriptor: int, data: bytes, /) -> int:
        nonlocal tries
        try:
            return write(descriptor, data)
        except BrokenPipeError:
            tries += 1
            raise

    with monkeypatch.context() as counting:
        counting.setattr(os, "write", counted)
        child.tell(ReloadOutcome("2026-01-01T00:00:00Z", None, "wrong"))
        for _ in range(5):
            await asyncio.sleep(0)
    assert tries == 1, "nobody reads it, so it is not to be tried again and again"
    os.close(stage.reports)
    child.listen()


def test_a_reserved_port_is_shared_by_front_ends_only() -> None:
    with reserve("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
        with listening("127.0.0.1", port) as first, listening("127.0.0.1", port) as second:
            first.listen()
            second.listen()
            with pytest.raises(ProcessProblem, match=f"port {port} on 127.0.0.1 is in use") as caught:
                reserve("127.0.0.1", port)
            assert caught.value.kind == "port_busy"
        # Also while no front-end listens: they may all be about to start again.
        with pytest.raises(ProcessProblem, match="in use"):
            reserve("127.0.0.1", port)
    reserve("127.0.0.1", port).close()


def test_a_port_with_lingering_connections_is_free() -> None:
    """As after a restart: connections closed by the last server stay in TIME_WAIT for a minute."""
    with socket.socket() as server, socket.socket() as client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        client.connect(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()
        assert client.recv(1) == b""
    with reserve("127.0.0.1", port), listening("127.0.0.1", port) as frontend:
        frontend.listen()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("fleet.internal", "http://fleet.internal:80"),
    ],
)
def test_base_urls_can_be_reached_from_this_machine(host: str, url: str) -> None:
    assert base_url(host, 80) == url


def test_a_host_that_cannot_be_resolved() -> None:
    for host in ("no.such.invalid", "two..dots", "a" * 64):
        with pytest.raises(ProcessProblem, match=f"'{re.escape(host)}' cannot be resolved") as caught:
            reserve(host, 80)
        assert caught.value.kind == "usage"


def test_the_state_file_counts_only_while_its_owner_lives(tmp_path: Path) -> None:
    fleet = Fleet(1, "1.0", "http://127.0.0.1:1", True, "2026-01-01T00:00:00Z", "/m", "embedded", 2, ())
    assert read_fleet(tmp_path) is None
    owner = FleetFile(tmp_path)
    owner.write(fleet)
    assert read_fleet(tmp_path) == fleet
    with pytest.raises(ProcessProblem, match=r"in use by a running fleet \(process 1, http://127\.0\.0\.1:1\)"):
        FleetFile(tmp_path)
    owner.abandon()
    assert read_fleet(tmp_path) is None
    successor = FleetFile(tmp_path)
    assert successor.previous == fleet
    successor.close()
    assert not (tmp_path / "fleet.json").exists()


def test_a_directory_can_be_locked_while_others_read_it(tmp_path: Path) -> None:
    FleetFile(tmp_path).close()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            read_fleet(tmp_path)

    with ThreadPoolExecutor() as pool:
        pool.submit(look)
        try:
            for _ in range(2_000):
                FleetFile(tmp_path).close()
        finally:
            ended.set()


def test_locking_a_directory_yields_to_its_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FleetFile(tmp_path).close()
    with open(tmp_path / "fleet.lock", encoding="ascii") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda seconds: looking.close())
        FleetFile(tmp_path).close()


def test_a_state_file_of_another_version_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "fleet.json").write_text('{"pid": "not a number"}')
    owner = FleetFile(tmp_path)
    assert owner.previous is None
    owner.close()


@pytest.mark.parametrize(
    ("url", "password", "expected"),
    [
        ("", "p", ""),
        ("redis://h:1/0", "", "redis://h:1/0"),
        ("redis://h:1/0", "a/b@c", "redis://:a%2Fb%40c@h:1/0"),
        ("redis://user@h:1", "p", "redis://user:p@h:1/0"),
        ("redis://:own@h", "p", "redis://:own@h"),
        ("unix:///run/x.sock?db=1", "p", "unix://:p@/run/x.sock?db=1"),
        ("redis+sentinel://a,[::1]:1/fleet", "p", "redis+sentinel://:p@a:26379,[::1]:1/fleet/0"),
        ("redis://[::1", "p", "redis://[::1"),
    ],
)
def test_the_password_from_the_environment_goes_into_the_url(
    url: str, password: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_REDIS_PASSWORD", password)
    assert given_url(Settings(redis_url=url)) == expected


@pytest.mark.anyio
async def test_an_unreachable_store_is_retried_until_the_timeout() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ProcessProblem) as caught:
            await open_store(f"redis://:hidden@127.0.0.1:{port}", 200, timeout=0.2)
    assert caught.value.kind == "store_unreachable"
    assert str(port) in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.anyio
async def test_wrong_credentials_are_distinguished(redis_url: str) -> None:
    bare = redis_url.replace(f":{parse_address(redis_url).password}@", ":wrong@")
    with pytest.raises(ProcessProblem) as caught:
        await open_store(bare, 1000, timeout=0.2)
    assert caught.value.kind == "store_unreachable"
