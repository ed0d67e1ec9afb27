"""``fleet serve`` and ``fleet worker``: the processes of a deployment that brings its own store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from coordinator.cli.exits import Exit
from coordinator.store.link.address import parse
from tests.support.fleets import Http, NewCommand, RunningCommand, environment, fleet_command, once, scrape
from tests.support.ports import free_port
from tests.support.wait import process_alive, wait_until_sync

Start = Callable[..., RunningCommand]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a command on the data directory ``tmp_path/data`` and returns it when it is ready."""
    running: list[RunningCommand] = []

    def begin(*arguments: str, forked: bool = True, **env: str) -> RunningCommand:
        output, data = tmp_path / f"output-{len(running)}", str(tmp_path / "data")
        running.append((RunningCommand if forked else NewCommand)(output, *arguments, "--data-dir", data, **env))
        running[-1].wait_ready()
        return running[-1]

    yield begin
    for command in running:
        command.clean_up()


def port_of(command: RunningCommand) -> int:
    return int(command.stdout.split("ready at ")[1].split()[0].rsplit(":", 1)[1])


def test_one_front_end_is_one_process(start: Start, redis_url: str) -> None:
    command = start("serve", "--port", "0", "--frontends", "1", FLEET_REDIS_URL=redis_url)
    port = port_of(command)
    with Http(port) as client:
        assert client.call("get_next_item") is not None
    assert once(port, "/readyz")[0] == 200
    assert scrape(port)["coordinator_requests_total{outcome=ok,tool=get_next_item}"] == 1
    assert command.end() == 0
    assert command.logged("front-end stopped", slot="fe-0")


def test_top_finds_front_ends_without_a_fleet_file(start: Start, tmp_path: Path, redis_url: str) -> None:
    """As on the hosts and in the pods of the runbooks."""
    port, admin_port = str(free_port()), str(free_port())
    start("serve", "--frontends", "1", FLEET_REDIS_URL=redis_url, FLEET_PORT=port, FLEET_ADMIN_PORT=admin_port)
    look = ("top", "--once", "--interval", "0.2", "--data-dir", str(tmp_path / "data"))
    done = fleet_command(*look, COLUMNS="200", FLEET_REDIS_URL=redis_url, FLEET_PORT=port, FLEET_ADMIN_PORT=admin_port)
    assert done.returncode == Exit.OK, done.stderr
    assert "1 front-end" in done.stdout
    assert f"http://127.0.0.1:{admin_port}" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("whereto", ["full disk", pytest.param("nobody", marks=pytest.mark.chaos)])
def test_it_serves_even_if_it_cannot_print(tmp_path: Path, redis_url: str, whereto: str) -> None:
    port = free_port()
    read, write = os.pipe()
    os.close(read)
    with open("/dev/full", "wb") as full, os.fdopen(write, "wb") as closed, open(tmp_path / "err", "wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "coordinator", "serve", "--port", str(port), "--frontends", "1"],
            stdout=full if whereto == "full disk" else closed,
            stderr=err,
            env=environment(FLEET_REDIS_URL=redis_url, FLEET_DATA_DIR=str(tmp_path / "data")),
        )
    try:
        wait_until_sync(lambda: "front-end ready" in (tmp_path / "err").read_text(), what="the front-end")
        assert once(port, "/readyz")[0] == 200
    finally:
        process.terminate()
        process.wait(80)
    assert "front-end stopped" in (tmp_path / "err").read_text()


def test_supervised_front_ends_and_a_separate_worker(start: Start, redis_url: str) -> None:
    """Different commands on one host share metrics, in separate slots."""
    serve = start("serve", "--port", "0", FLEET_REDIS_URL=redis_url)
    worker = start("worker", FLEET_REDIS_URL=redis_url)
    assert worker.stdout == "fleet worker w-0 ready\n"
    port = port_of(serve)
    wanted = {f"coordinator_process_cpu_seconds_total{{slot={slot}}}" for slot in ("fe-0", "fe-1", "w-0")}
    wait_until_sync(lambda: wanted <= scrape(port).keys(), what="all slots in the metrics")
    assert worker.end(signal.SIGINT) == 0
    assert serve.end() == 0


def test_the_password_may_be_separate_from_the_url(start: Start, redis_url: str) -> None:
    address = parse(redis_url)
    bare = redis_url.replace(f":{urlsplit(redis_url).password}@", "")
    command = start(
        *("serve", "--port", "0", "--frontends", "1", "--redis-url", bare),
        forked=False,
        FLEET_REDIS_PASSWORD=address.password,
    )
    assert once(port_of(command), "/readyz")[0] == 200
    shown = Path(f"/proc/{command.process.pid}/cmdline").read_bytes()
    assert address.password.encode() not in shown
    assert unquote(address.password) not in command.stderr


def test_front_ends_exit_with_their_supervisor(start: Start, redis_url: str) -> None:
    command = start("serve", "--port", "0", FLEET_REDIS_URL=redis_url)
    started = Path(f"/proc/{command.process.pid}/task/{command.process.pid}/children").read_text().split()
    children = [pid for pid in started if Path(f"/proc/{pid}/comm").read_text().startswith("fleet fe-")]
    assert len(children) == 2
    # A hung one handles no signal; it must exit too.
    os.kill(int(children[0]), signal.SIGSTOP)
    command.end(signal.SIGKILL)
    wait_until_sync(lambda: not process_alive(int(children[1])), what="the living front-end to end")
    os.kill(int(children[0]), signal.SIGCONT)
    wait_until_sync(lambda: not process_alive(int(children[0])), what="the stopped front-end to end once it can")


def test_without_any_store_it_says_what_to_do(tmp_path: Path) -> None:
    for command in ("serve", "worker"):
        done = fleet_command(command, "--data-dir", str(tmp_path))
        assert done.returncode == Exit.STORE_UNREACHABLE
        assert done.stderr == (
            "fleet: no Redis to work with: give --redis-url (or FLEET_REDIS_URL), or start `fleet up` on the data "
            f"directory {tmp_path}\n"
        )


def test_a_worker_alone_can_be_probed_and_scraped(start: Start, redis_url: str) -> None:
    port = free_port()
    start("worker", FLEET_REDIS_URL=redis_url, FLEET_WORKER_PORT=str(port))
    assert once(port, "/healthz")[0] == 200
    status, body = once(port, "/readyz")
    assert (status, json.loads(body)["process"]) == (200, "w-0")
    assert once(port, "/mcp")[0] == 404
    numbers = scrape(port)
    # The alert about missing workers uses it, without a supervisor that counts them.
    assert numbers["coordinator_processes{role=worker}"] == 1
    second = fleet_command("worker", "--worker-port", str(port), FLEET_REDIS_URL=redis_url)
    assert second.returncode != 0
    assert "--worker-port" in second.stderr


def test_a_worker_without_a_store_is_alive_but_not_ready(tmp_path: Path) -> None:
    port, nobody = free_port(), free_port()
    with RunningCommand(
        tmp_path / "output",
        "worker",
        *("--data-dir", str(tmp_path / "data"), "--worker-port", str(port)),
        FLEET_REDIS_URL=f"redis://127.0.0.1:{nobody}/0",
    ) as command:
        wait_until_sync(lambda: command.logged("no answer from Redis, trying again"), what="the worker to try")
        assert once(port, "/healthz")[0] == 200
        status, body = once(port, "/readyz")
        assert status == 503
        assert "no steps are taken" in json.loads(body)["checks"]["redis"]["reason"]
        assert "coordinator_processes{role=worker}" not in scrape(port)
        assert command.end() == 0


@pytest.mark.parametrize("setting", ["FLEET_REDIS_URL", "FLEET_STEPS"])
def test_a_worker_rejects_an_invalid_store_url_at_once(redis_url: str, setting: str, tmp_path: Path) -> None:
    """Waiting could not make the URL valid."""
    wrong = "redis://:secret@localhost:6379/first"
    file = tmp_path / "fleet.yaml"
    file.write_text(f"steps: {{queue_url: '{wrong}'}}\n" if setting == "FLEET_STEPS" else "{}\n")
    url = redis_url if setting == "FLEET_STEPS" else wrong
    done = fleet_command("worker", "--data-dir", str(tmp_path), "--config", str(file), FLEET_REDIS_URL=url)
    assert done.returncode == Exit.USAGE
    assert done.stderr == "fleet: store URL: the database must be a number, as in redis://localhost:6379/0\n"


def test_one_front_end_is_counted_without_a_supervisor(start: Start, redis_url: str) -> None:
    command = start("serve", "--port", "0", "--frontends", "1", FLEET_REDIS_URL=redis_url)
    assert scrape(port_of(command))["coordinator_processes{role=frontend}"] == 1
