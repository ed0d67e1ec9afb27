"""Failed starts of ``fleet up``: one clear sentence, an exit code, and no process left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from coordinator.cli.exits import Exit
from coordinator.metrics import SharedCells
from coordinator.processes import up
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.fleetfile import Fleet, FleetFile, Process
from tests.support.fake_redis import GREETING, INTRODUCTION, FakeRedis, Peer, bulk
from tests.support.fleets import environment, fleet_command


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def refused(done: subprocess.CompletedProcess[str], code: Exit) -> str:
    """The message, without the common prefix."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("fleet: ")
    return last.removeprefix("fleet: ")


def test_a_busy_port(busy_port: int, tmp_path: Path) -> None:
    done = fleet_command("up", "--data-dir", str(tmp_path / "d"), "--port", str(busy_port))
    assert refused(done, Exit.PORT_BUSY) == (
        f"port {busy_port} on 127.0.0.1 is in use by another program: stop it, or choose another port "
        "(--port or FLEET_PORT)"
    )


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    done = fleet_command("up", "--data-dir", str(tmp_path / "d"), "--host", "192.0.2.1", "--insecure-no-auth")
    assert "cannot listen on 192.0.2.1" in refused(done, Exit.USAGE)


def test_an_unusable_data_directory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where the directory should be")
    done = fleet_command("up", "--data-dir", str(blocked / "fleet"), "--port", "0")
    sentence = refused(done, Exit.DATA_DIR)
    assert sentence.startswith(f"the data directory {blocked / 'fleet'} cannot be used: Not a directory")
    assert "--data-dir or FLEET_DATA_DIR" in sentence


def test_an_unusable_metrics_directory(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    said = refused(fleet_command("up", "--port", "0", "--data-dir", str(tmp_path)), Exit.DATA_DIR)
    assert f"cannot keep metrics in {tmp_path}/run/metrics: Not a directory" in said


def test_an_unknown_toolset_is_refused_before_the_start(tmp_path: Path) -> None:
    done = fleet_command("up", "--data-dir", str(tmp_path / "d"), "--port", "0", "--toolsets", "nonsense")
    assert "nonsense" in refused(done, Exit.USAGE)
    assert not (tmp_path / "d").exists()


def test_incompatible_toolsets_are_refused_before_the_start(tmp_path: Path) -> None:
    done = fleet_command("up", "--data-dir", str(tmp_path / "d"), "--port", "0", "--toolsets", "sessions,navigator")
    assert "sessions and navigator cannot be served together" in refused(done, Exit.USAGE)
    assert not (tmp_path / "d").exists()


def test_an_embedded_server_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=5.0.14 sha=0:0 malloc=x bits=64 build=0'\n")
    old.chmod(0o755)
    done = fleet_command("up", "--data-dir", str(tmp_path / "d"), "--port", "0", FLEET_REDIS_SERVER=str(old))
    assert "Redis 5.0.14, too old: 7.0 or newer is needed" in refused(done, Exit.STORE_TOO_OLD)


@pytest.mark.anyio
async def test_a_given_redis_that_is_too_old(tmp_path: Path) -> None:
    async def talk(peer: Peer) -> None:
        while True:
            answers = {**GREETING, **INTRODUCTION, b"INFO": bulk(b"# Server\r\nredis_version:6.0.16\r\n")}
            peer.send(answers[(await peer.command())[0]])

    server = FakeRedis(talk)
    await server.start()
    try:
        done = await anyio.run_process(
            [
                *(sys.executable, "-m", "coordinator", "up"),
                *("--data-dir", str(tmp_path / "d"), "--port", "0"),
                *("--redis-url", f"redis://:hidden@127.0.0.1:{server.port}"),
            ],
            env=environment(),
            check=False,
        )
    finally:
        await server.end()
    text = subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
    sentence = refused(text, Exit.STORE_TOO_OLD)
    assert "Redis 6.0.16: Redis 7.0 or newer, or any Valkey, is needed" in sentence
    assert "hidden" not in text.stderr


def test_processes_of_an_earlier_fleet_that_do_not_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "metrics"
    earlier = SharedCells(directory, "fe-0")
    first = FleetFile(tmp_path)
    process = Process("fe-0", "frontend", os.getpid(), True)
    first.write(Fleet(1, "0", "http://x", True, "", str(directory), "embedded", None, (process,)))
    first.abandon()
    monkeypatch.setattr(up, "LEFTOVER_SECONDS", 0.1)
    file = FleetFile(tmp_path)
    with pytest.raises(ProcessProblem, match=rf"earlier fleet still run: fe-0 \(process {os.getpid()}\)") as caught:
        anyio.run(up.wait_for_leftovers, file.previous)
    assert caught.value.kind == "data_dir"
    earlier.close()
    anyio.run(up.wait_for_leftovers, file.previous)
    file.close()
