"""The embedded server: ownership of its directory, durability, and its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from structlog.testing import capture_logs

from coordinator.store.embedded import binary as server_binary
from coordinator.store.embedded import server as embedded
from coordinator.store.embedded.binary import Binary
from coordinator.store.embedded.server import (
    DataDirBusy,
    DataDirUnusable,
    EmbeddedServer,
    ServerFailed,
    find_running,
)
from coordinator.store.link.address import parse
from tests.support.servers import binary_for
from tests.support.wait import process_alive, wait_until_sync

NO_RETRY = Retry(NoBackoff(), 0)
OWNER = """
import sys
import structlog
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
from coordinator.store.embedded import server as embedded
if sys.argv[2] == "careless":
    embedded.dying_with_parent = lambda command: command
server = embedded.EmbeddedServer(sys.argv[1])
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["valkey", "redis7"])
def binary(request: pytest.FixtureRequest) -> Binary:
    return binary_for(request.param)


def client(url: str) -> redis.Redis:
    return redis.Redis(**parse(url).client_options())


def kill(server: EmbeddedServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until_sync(lambda: server.poll() is not None, what="the server's end")


def config(url: str) -> dict[str, str]:
    with client(url) as admin:
        answer: Any = admin.config_get("*")
    return {str(name): str(value) for name, value in answer.items()}


def test_data_is_there_after_a_kill_and_a_restart(tmp_path: Path, binary: Binary) -> None:
    with EmbeddedServer(tmp_path, binary=binary) as server:
        url = server.url
        for turn in range(3):
            with client(url) as one:
                one.set(f"key{turn}", "x" * 1000)
            kill(server)
            assert server.poll() == -signal.SIGKILL
            assert server.start() == url
            with client(url) as one:
                assert one.dbsize() == turn + 1
    with EmbeddedServer(tmp_path, binary=binary) as again, client(again.url) as one:
        assert again.url == url
        assert one.get("key2") == b"x" * 1000


def test_an_empty_store_does_not_replace_lost_data(tmp_path: Path) -> None:
    home, away = tmp_path / "data", tmp_path / "moved"
    with EmbeddedServer(home) as server:
        with client(server.url) as one:
            one.set("kept", "yes")
        home.rename(away)
        kill(server)
        for made in (lambda: None, home.mkdir, (home / "redis").mkdir):
            made()
            before = sorted(home.rglob("*"))
            with pytest.raises(DataDirUnusable, match="is gone"):
                server.start()
            assert sorted(home.rglob("*")) == before
        (home / "redis").rmdir()
        home.rmdir()
        away.rename(home)
        with client(server.start()) as one:
            assert one.get("kept") == b"yes"


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_it_is_configured_to_persist_what_it_acknowledges(tmp_path: Path, binary: Binary, fsync: Any) -> None:
    with EmbeddedServer(tmp_path, fsync, binary=binary) as server:
        found = config(server.url)
    wanted = {
        "appendonly": "yes", "appendfsync": fsync, "save": "", "maxmemory-policy": "noeviction", "port": "0",
        "hash-max-listpack-value": "512", "unixsocketperm": "700", "dir": str(tmp_path / "redis"),
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.skipif(sys.platform != "linux", reason="only there is an allocator loaded")
def test_the_allocator_is_preloaded(tmp_path: Path) -> None:
    binary = server_binary.find()
    if binary.allocator is None:
        pytest.skip("the allocator needs libatomic, which this system lacks")
    with EmbeddedServer(tmp_path, binary=binary) as server:
        assert str(binary.allocator) in Path(f"/proc/{server.pid}/maps").read_text()
    with EmbeddedServer(tmp_path, binary=binary._replace(allocator=None)) as server:
        assert str(binary.allocator) not in Path(f"/proc/{server.pid}/maps").read_text()


def test_starting_twice_starts_once(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        pid = server.pid
        assert server.start() == server.url
        assert server.pid == pid


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        with pytest.raises(DataDirBusy) as raised:
            EmbeddedServer(tmp_path).start()
        assert str(tmp_path) in str(raised.value)
        assert f"process {os.getpid()}" in str(raised.value)
        assert server.poll() is None
    with EmbeddedServer(tmp_path) as next_owner:
        assert next_owner.poll() is None


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirUnusable, match="Not a directory") as raised:
        EmbeddedServer(tmp_path / "file" / "data").start()
    assert str(tmp_path / "file" / "data") in str(raised.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_directory_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DataDirUnusable, match="Permission denied"):
        EmbeddedServer(tmp_path).start()


@pytest.mark.parametrize(
    ("name", "socket"),
    [
        *((name, True) for name in ('quo"te', "back\\slash", "ünïcode", "%41?ab#c", "a'b")),
        *((name, False) for name in ("with space", "a=b", "new\nline", "tab\t", "\x1b[0m")),
    ],
)
def test_a_directory_may_have_any_name(tmp_path: Path, name: str, socket: bool) -> None:
    """A path that would break CLIENT LIST is not used for a socket."""
    with EmbeddedServer(tmp_path / name) as server, client(server.url) as one:
        assert one.ping()
        assert parse(server.url).path == (str(tmp_path / name / "redis.sock") if socket else "")
        assert find_running(tmp_path / name) == server.url
        assert len(one.client_list()) >= 1


def test_a_path_too_long_for_a_socket_means_loopback_with_the_password(tmp_path: Path, binary: Binary) -> None:
    directory = tmp_path / ("long" * 30)
    with EmbeddedServer(directory, binary=binary) as server:
        address = parse(server.url)
        assert (address.host, address.path) == ("127.0.0.1", "")
        assert config(server.url)["bind"] == "127.0.0.1"
        with pytest.raises(redis.AuthenticationError), redis.Redis(port=address.port, retry=NO_RETRY) as stranger:
            stranger.ping()
        assert find_running(directory) == server.url
        kill(server)
        server.start()
        assert find_running(directory) == server.url


def test_a_port_taken_meanwhile_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = EmbeddedServer.endpoint
    tries: list[object] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        def first_the_taken_one(server: EmbeddedServer) -> Any:
            tries.append(server)
            return (port, [("port", str(port)), ("bind", "127.0.0.1")]) if len(tries) == 1 else choose(server)

        monkeypatch.setattr(EmbeddedServer, "endpoint", first_the_taken_one)
        with EmbeddedServer(tmp_path / ("long" * 30)) as server, client(server.url) as one:
            assert one.ping()
            assert len(tries) == 2


def test_the_password_is_visible_to_its_owner_only(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data") as server:
        password = parse(server.url).password
        assert len(password) >= 32
        assert password not in str(parse(server.url))
        assert (tmp_path / "data" / "redis.password").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "data" / "redis.sock").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "data" / "redis").stat().st_mode & 0o777 == 0o700
        written = [path for path in (tmp_path / "data" / "redis").rglob("*") if path.is_file()]
        assert written
        assert not [path for path in written if path.stat().st_mode & 0o077]
        for what in ("cmdline", "environ"):
            assert password.encode() not in Path(f"/proc/{server.pid}/{what}").read_bytes()
        assert password not in (tmp_path / "data" / "redis.log").read_text()
        path = str(tmp_path / "data" / "redis.sock")
        with (
            pytest.raises(redis.AuthenticationError),
            redis.Redis(unix_socket_path=path, retry=NO_RETRY) as stranger,
        ):
            stranger.ping()


def test_a_password_readable_by_others_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "redis.password").write_text("given\n")
    (tmp_path / "redis.password").chmod(0o644)
    with EmbeddedServer(tmp_path) as server:
        assert parse(server.url).password == "given"
        assert (tmp_path / "redis.password").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damaged", [b"", b"\xff\n"])
def test_an_unreadable_password_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "redis.password").write_bytes(damaged)
    with EmbeddedServer(tmp_path) as server:
        assert find_running(tmp_path) == server.url


def test_a_running_server_is_found_by_its_directory(tmp_path: Path) -> None:
    assert find_running(tmp_path) is None
    with EmbeddedServer(tmp_path) as server:
        assert find_running(tmp_path) == server.url
        kill(server)
        assert find_running(tmp_path) is None
        (tmp_path / "redis.password").write_text("\n")
        assert find_running(tmp_path) is None


def test_stopping_kills_a_server_that_ignores_sigterm(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    server.start()
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    server.stop(timeout=0.1)
    assert not process_alive(pid)
    assert server.pid is None
    server.stop()


def test_ctrl_c_does_not_reach_the_server(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        assert server.pid is not None
        assert os.getsid(server.pid) == server.pid


def test_it_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """The kernel signals a child when the thread that made it ends, so that thread stays alive."""

    def parents() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "embedded-redis-parent"}

    others = parents()
    server = EmbeddedServer(tmp_path)
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()
    try:
        with client(server.url) as one:
            assert one.ping()
        assert server.poll() is None
        (parent,) = parents() - others
        assert parent.daemon
    finally:
        server.stop()
    parent.join(timeout=60)
    assert not parent.is_alive()


class Owner:
    """Another process that owns a server."""

    def __init__(self, directory: Path, manner: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(directory), manner], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.server_pid = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def owners() -> Iterator[list[Owner]]:
    started: list[Owner] = []
    yield started
    for owner in started:
        owner.end()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_it_ends_when_its_owner_is_killed_and_the_next_owner_finds_the_data(
    tmp_path: Path, owners: list[Owner]
) -> None:
    for turn in range(3):
        owners.append(Owner(tmp_path, "careful"))
        with pytest.raises(DataDirBusy, match=f"process {owners[-1].process.pid}"):
            EmbeddedServer(tmp_path).start()
        url = find_running(tmp_path)
        assert url is not None
        with client(url) as one:
            assert one.incr("turns") == turn + 1
        owners[-1].end()
        if turn == 1:  # in the other rounds the next one starts while it is still ending
            wait_until_sync(lambda: not process_alive(owners[-1].server_pid), what="the server's end")
    with EmbeddedServer(tmp_path) as server, client(server.url) as one:
        assert one.get("turns") == b"3"
    assert not any(process_alive(owner.server_pid) for owner in owners)


def test_a_server_whose_owner_died_is_ended_by_the_next_owner(tmp_path: Path, owners: list[Owner]) -> None:
    owners.append(Owner(tmp_path, "careless"))
    url = find_running(tmp_path)
    assert url is not None
    with client(url) as one:
        one.set("kept", "yes")
    owners[0].end()
    assert process_alive(owners[0].server_pid)
    with EmbeddedServer(tmp_path) as server, client(server.url) as one:
        assert not process_alive(owners[0].server_pid)
        assert one.get("kept") == b"yes"


def test_a_directory_stays_locked_until_its_server_ends(
    tmp_path: Path, owners: list[Owner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LEAVE_SECONDS", 0.2)
    owners.append(Owner(tmp_path, "careless"))
    owners[0].end()
    os.kill(owners[0].server_pid, signal.SIGSTOP)
    try:
        with pytest.raises(DataDirBusy, match="an earlier server"):
            EmbeddedServer(tmp_path).start()
    finally:
        os.kill(owners[0].server_pid, signal.SIGKILL)
    wait_until_sync(lambda: not process_alive(owners[0].server_pid))


def test_a_server_that_loads_much_data_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedServer(tmp_path) as server, redis.Redis(**parse(server.url).client_options()) as client:
        pipeline = client.pipeline(transaction=False)
        for number in range(8000):
            pipeline.set(f"key-{number}", number)
        pipeline.execute()
    config = EmbeddedServer.config
    slow = "key-load-delay 350\n"
    monkeypatch.setattr(EmbeddedServer, "config", lambda self, *given: config(self, *given) + slow)
    state, looks = embedded.state_of, 0

    def reading(url: str) -> str | None:
        nonlocal looks
        found = state(url)
        looks += found == "loading"
        return found

    monkeypatch.setattr(embedded, "state_of", reading)
    # As if each check that finds it loading took longer than a start may.
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + looks * (embedded.READY_SECONDS + 1))
    monkeypatch.setattr(embedded, "time", clock)
    with (
        capture_logs() as logged,
        EmbeddedServer(tmp_path) as server,
        redis.Redis(**parse(server.url).client_options()) as client,
    ):
        assert client.dbsize() == 8000
    assert [entry["event"] for entry in logged].count("the embedded store is reading its data") == 1


def test_a_server_that_cannot_load_its_data_is_reported_with_its_log(tmp_path: Path, binary: Binary) -> None:
    log = tmp_path / "redis" / "appendonlydir"
    log.mkdir(parents=True)
    (log / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(ServerFailed, match=r"ended with status 1: .*AOF manifest") as raised:
        EmbeddedServer(tmp_path, binary=binary).start()
    assert str(tmp_path / "redis.log") in str(raised.value)
    (log / "appendonly.aof.manifest").unlink()
    with EmbeddedServer(tmp_path, binary=binary) as server:
        assert server.poll() is None
