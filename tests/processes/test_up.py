"""``fleet up`` with real processes: load balancing, restarts, and cleanup."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.exits import Exit
from coordinator.processes.fleetfile import read_fleet
from coordinator.store.embedded.server import find_running
from tests.support.fleets import ROOT, Http, NewFleet, RunningFleet, call_body, call_head, fleet_command, once, scrape
from tests.support.wait import process_alive, wait_until_sync

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes through /proc")

Start = Callable[..., RunningFleet]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a fleet on its own port and returns it when it is ready."""
    running: list[RunningFleet] = []

    def begin(*arguments: str, data_dir: Path | None = None, **env: str) -> RunningFleet:
        running.append(RunningFleet(data_dir or tmp_path / "fleet", "--port", "0", *arguments, **env))
        running[-1].wait_ready()
        return running[-1]

    yield begin
    for fleet in running:
        fleet.clean_up()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    """One fleet for all tests that leave it unchanged: two front-ends and a worker, ready."""
    data = tmp_path_factory.mktemp("shared") / "fleet"
    with NewFleet(data, "--port", "0", "--workers", "1") as fleet:
        fleet.wait_ready()
        yield fleet


def patiently(port: int, tool: str, **arguments: Any) -> Any:
    """A call as clients make it: retried while a process or the store is unavailable."""

    def attempt() -> Any:
        with contextlib.suppress(OSError, AssertionError), Http(port) as client:
            return client.call(tool, **arguments)

    return wait_until_sync(attempt, what=f"{tool} to be answered")


def all_serve(port: int) -> bool:
    """Whether every front-end answers: each gets some of many connections."""
    with contextlib.suppress(OSError, AssertionError):
        for _ in range(20):
            with Http(port) as client:
                client.call("get_next_item")
        return True
    return False


def make_item(fleet: RunningFleet, title: str) -> str:
    with Http(fleet.port) as client:
        made = client.call("manage_items", operation="create", items=[{"title": title}])
        item: str = made["items"][0]["id"]
        return item


def title_of(fleet: RunningFleet, item: str) -> str:
    title: str = patiently(fleet.port, "query_items", operation="get", id=item)["title"]
    return title


def test_the_state_file_lists_the_processes(fleet: RunningFleet) -> None:
    state = fleet.state
    assert fleet.stdout == (
        f"fleet ready at {state.base_url} (2 front-ends, 1 worker, store: embedded, in {fleet.data_dir})\n"
    )
    assert state.pid == fleet.process.pid
    assert state.ready
    assert [(one.slot, one.role, one.ready) for one in state.processes] == [
        ("fe-0", "frontend", True),
        ("fe-1", "frontend", True),
        ("w-0", "worker", True),
    ]
    assert once(fleet.port, "/healthz")[0] == once(fleet.port, "/readyz")[0] == 200


def test_the_password_is_in_no_log_and_no_process_listing(fleet: RunningFleet) -> None:
    password = (fleet.data_dir / "redis.password").read_text().strip()
    for pid in [*fleet.pids, fleet.process.pid]:
        assert password.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert password not in fleet.stderr
    assert password not in (fleet.data_dir / "fleet.json").read_text()
    assert not [line for line in fleet.logs if not {"timestamp", "level", "slot", "event"} <= line.keys()]


def test_load_spreads_over_the_front_ends(fleet: RunningFleet) -> None:
    slots = [f"coordinator_slot_requests_total{{slot=fe-{number}}}" for number in (0, 1)]
    before = scrape(fleet.port)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Http(fleet.port)) for _ in range(32)]
        for _ in range(3):
            for client in clients:
                client.call("get_next_item")

        def connections() -> float:
            found = scrape(fleet.port)
            return sum(found.get(f"coordinator_connections{{slot=fe-{number}}}", 0) for number in (0, 1))

        wait_until_sync(lambda: connections() >= 32, what="both front-ends to tell their connections")
    after = scrape(fleet.port)
    shares = [after[slot] - before.get(slot, 0) for slot in slots]
    assert sum(shares) == 96
    # The kernel hashes addresses: fewer than 4 of 32 connections on one side is one in 80,000 runs.
    assert min(shares) >= 12, shares


def test_a_killed_front_end_is_restarted_and_counters_stay_correct(fleet: RunningFleet) -> None:
    counter = "coordinator_requests_total{outcome=ok,tool=get_next_item}"
    restarts = "coordinator_process_restarts_total{cause=signal,role=frontend}"
    before = scrape(fleet.port)
    with Http(fleet.port) as client:
        for _ in range(20):
            client.call("get_next_item")
    for slot in ("fe-0", "fe-1"):
        killed = fleet.pid(slot)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)

        def back(slot: str = slot, killed: int = killed) -> bool:
            with contextlib.suppress(OSError):
                assert scrape(fleet.port)[counter] == before[counter] + 20
            return any(one.slot == slot and one.ready and one.pid != killed for one in fleet.state.processes)

        wait_until_sync(back, what=f"{slot} to be back")
    for _ in range(10):
        with Http(fleet.port) as client:
            client.call("get_next_item")
    after = scrape(fleet.port)
    assert after[counter] == before[counter] + 30
    assert after[restarts] == before[restarts] + 2
    assert after["coordinator_processes{role=frontend}"] == 2
    assert len(list((fleet.data_dir / "run" / "metrics").glob("counter_fe-*.db"))) == 2


def test_a_hung_process_is_killed_and_restarted(start: Start) -> None:
    fleet = start("--workers", "1", "--watchdog-seconds", "5")
    roles = ("frontend", "worker")
    hangs = [f"coordinator_process_restarts_total{{cause=hung,role={role}}}" for role in roles]
    before_that = scrape(fleet.port)
    # Prometheus sees no increase in a series that does not start at 0.
    assert [before_that[name] for name in hangs] == [0, 0]
    hung = {slot: pid for slot in ("fe-1", "w-0") if (pid := fleet.pid(slot)) is not None}
    assert len(hung) == 2
    well = fleet.pid("fe-0")
    for pid in hung.values():
        os.kill(pid, signal.SIGSTOP)

    def another(slot: str, before: int) -> bool:
        return any(one.slot == slot and one.ready and one.pid != before for one in fleet.state.processes)

    for slot, before in hung.items():
        wait_until_sync(partial(another, slot, before), 60, f"another {slot}")
        assert not process_alive(before)
    assert fleet.logged("process ended", process="front-end fe-1", reason="it hung: no heartbeat for 5 seconds")
    wait_until_sync(lambda: all_serve(fleet.port), what="both front-ends to answer")
    found = scrape(fleet.port)
    assert [found[name] for name in hangs] == [1, 1]
    assert fleet.pid("fe-0") == well, "a responsive process is not restarted"


_HASTY = """
from coordinator.processes.supervision import supervisor

supervisor.RESTART_SECONDS = 3.0
"""
_HANGING = """
import os
import signal
from pathlib import Path


def nothing():
    pass


if Path({hold!r}).exists():
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.chaos
def test_a_process_that_hangs_on_restart_is_killed(start: Start, tmp_path: Path) -> None:
    """A fleet that was ready once is also watched during restarts: nothing else would notice."""
    hold = tmp_path / "hold"
    (tmp_path / "sitecustomize.py").write_text(_HASTY)
    (tmp_path / "hanging.py").write_text(_HANGING.format(hold=str(hold)))
    (tmp_path / "fleet.yaml").write_text("flows: {tools: {nothing: 'hanging:nothing'}}\n")
    fleet = start(
        *("--workers", "1", "--watchdog-seconds", "1", "--config", str(tmp_path / "fleet.yaml")),
        PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}",
    )
    hold.touch()
    pid = fleet.pid("w-0")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    fleet.wait_logged("process ended", process="worker w-0", reason="it hung: no heartbeat for 3 seconds")
    hold.unlink()
    wait_until_sync(lambda: all(one.ready for one in fleet.state.processes), 60, "the worker to be ready")


def test_a_failed_restart_is_retried(start: Start, tmp_path: Path) -> None:
    room = tmp_path / "tmp"
    room.mkdir()
    fleet = start("--workers", "0", TMPDIR=str(room))
    room.rmdir()
    pid = fleet.pid("fe-0")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    reason = "no process can be created for it: No such file or directory"
    fleet.wait_logged("process ended", process="front-end fe-0", reason=reason)
    room.mkdir()
    wait_until_sync(lambda: all(one.ready for one in fleet.state.processes), 60, "the front-end to be ready")


def test_a_killed_store_is_restarted_with_its_data(fleet: RunningFleet) -> None:
    restarts = "coordinator_process_restarts_total{cause=signal,role=store}"
    count = scrape(fleet.port)[restarts]
    item = make_item(fleet, "survives the store")
    others = [one.pid for one in fleet.state.processes]
    before = fleet.state.store_pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    wait_until_sync(lambda: fleet.state.store_pid not in (None, before), what="another store process")
    assert '"the embedded store ended", "status": -9, "said": "' in fleet.stderr
    assert "Ready to accept connections" in fleet.stderr, "the last words of the server that was killed"
    assert title_of(fleet, item) == "survives the store"
    wait_until_sync(lambda: all_serve(fleet.port), what="both front-ends to answer again")
    assert scrape(fleet.port)[restarts] == count + 1
    assert [one.pid for one in fleet.state.processes] == others, "processes need no restart when the store had one"


def test_a_store_that_lacks_memory_to_start_is_retried(start: Start) -> None:
    fleet = start("--workers", "0")
    supervisor = fleet.process.pid
    pages = int(Path(f"/proc/{supervisor}/statm").read_text(encoding="ascii").split()[0])
    soft, hard = resource.prlimit(supervisor, resource.RLIMIT_AS)
    # Enough memory for anything but the stack of another thread.
    resource.prlimit(supervisor, resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 21), hard))
    killed = set[int]()

    def starts_no_more() -> bool:
        store = fleet.state.store_pid
        if store is not None and store not in killed:
            killed.add(store)
            os.kill(store, signal.SIGKILL)
        return fleet.logged("the embedded store does not start")

    # The stack of a thread that has just ended may do for the next one.
    wait_until_sync(starts_no_more, what="the store to lack memory")
    resource.prlimit(supervisor, resource.RLIMIT_AS, (soft, hard))
    wait_until_sync(lambda: fleet.state.store_pid not in (None, *killed), 60, "another store process")


def test_a_second_fleet_on_the_same_directory_or_port_is_refused(fleet: RunningFleet, tmp_path: Path) -> None:
    same_directory = fleet_command("up", "--data-dir", str(fleet.data_dir), "--port", "0")
    assert same_directory.returncode == Exit.DATA_DIR
    assert same_directory.stderr == (
        f"fleet: the data directory {fleet.data_dir} is in use by a running fleet (process {fleet.process.pid}, "
        f"{fleet.state.base_url}): stop that one, or choose another directory (--data-dir or FLEET_DATA_DIR)\n"
    )
    same_port = fleet_command("up", "--data-dir", str(tmp_path / "other"), "--port", str(fleet.port))
    assert same_port.returncode == Exit.PORT_BUSY
    assert once(fleet.port, "/readyz")[0] == 200


def test_nothing_outlives_a_killed_supervisor_and_the_next_fleet_finds_the_data(start: Start) -> None:
    fleet = start("--workers", "2")
    item = make_item(fleet, "survives the supervisor")
    pids = fleet.pids
    assert len(pids) == 5
    fleet.end(signal.SIGKILL)
    # At once, while the old processes may still be exiting.
    again = start("--workers", "0", "--frontends", "1", data_dir=fleet.data_dir)
    assert fleet.all_gone(pids)
    assert title_of(again, item) == "survives the supervisor"


_UNHURRIED = """
from coordinator.processes import frontend

frontend.GRACE_SECONDS = 3.0
"""


def test_a_request_in_flight_is_answered_during_the_drain(start: Start, tmp_path: Path) -> None:
    # It keeps listening long enough to be observed on a busy machine.
    (tmp_path / "sitecustomize.py").write_text(_UNHURRIED)
    fleet = start("--workers", "1", "--frontends", "1", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    port, pids = fleet.port, fleet.pids
    body = call_body("get_next_item", {})
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(call_head(len(body)) + body[:10])
        inflight = "coordinator_inflight{slot=fe-0}"
        wait_until_sync(lambda: scrape(port).get(inflight, 0) >= 1, what="the request to have begun")
        fleet.process.send_signal(signal.SIGTERM)
        seen: set[int] = set()

        def closed() -> bool:
            try:
                seen.add(once(port, "/readyz")[0])
            except OSError:
                return True
            return False

        wait_until_sync(closed, what="the port to be closed")
        assert 503 in seen, "it was never unready before it stopped listening"
        assert fleet.process.poll() is None
        client.sendall(body[10:])
        answer = b""
        while data := client.recv(65536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b'"result"' in answer
    assert fleet.process.wait(60) == Exit.OK
    assert fleet.all_gone(pids)
    assert not fleet.logged("killing what did not end in time")
    assert not (fleet.data_dir / "fleet.json").exists()
    assert not list((fleet.data_dir / "run" / "metrics").iterdir())


def test_a_second_signal_ends_the_drain(start: Start) -> None:
    fleet = start("--workers", "0", "--frontends", "1", "--drain-seconds", "600")
    pids, frontend = fleet.pids, fleet.pid("fe-0")
    assert frontend is not None
    os.kill(frontend, signal.SIGSTOP)
    fleet.process.send_signal(signal.SIGINT)
    fleet.wait_logged("stopping")
    assert fleet.end(signal.SIGINT) == Exit.OK
    assert fleet.all_gone(pids)


def test_a_start_can_be_cancelled(start: Start, tmp_path: Path) -> None:
    with RunningFleet(tmp_path / "early", "--port", "0") as fleet:
        wait_until_sync(lambda: read_fleet(fleet.data_dir) is not None, what="the first process")
        pids = fleet.pids
        assert fleet.end() == Exit.OK
        assert fleet.all_gone(pids)
        assert fleet.stdout == ""


def test_a_process_that_never_becomes_ready_aborts_the_start(tmp_path: Path) -> None:
    fleet = RunningFleet(tmp_path / "crashing", "--port", "0", "--frontends", "1", "--workers", "0")
    killed: set[int] = set()

    def crash() -> bool:
        state = read_fleet(fleet.data_dir)
        for pid in {one.pid for one in state.processes if one.pid} - killed if state else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        return fleet.process.poll() is not None

    try:
        wait_until_sync(crash, what="the start to be given up")
        assert fleet.process.returncode == Exit.FAILED
        assert fleet.stderr.splitlines()[-1] == "fleet: front-end fe-0 does not start: it was killed by signal 9"
        assert len(killed) == 3
    finally:
        fleet.clean_up()


def test_shards_of_another_redis_are_refused(tmp_path: Path) -> None:
    done = fleet_command(
        *("up", "--port", "0", "--shards", "2", "--data-dir", str(tmp_path), "--redis-url", "redis://127.0.0.1:1")
    )
    assert done.returncode == Exit.USAGE
    assert "shards are those of the embedded Redis, and redis_url names another: give one" in done.stderr


def test_the_url_of_an_embedded_cluster_is_shown_without_its_password_and_its_time_is_kept(start: Start) -> None:
    fleet = start("--shards", "2", "--workers", "0", "--frontends", "1")
    scheme, _, rest = (find_running(fleet.data_dir) or "").partition("://:")
    password, _, places = rest.partition("@")
    assert f"store: embedded, {scheme}://{places} in {fleet.data_dir})" in fleet.stdout
    shown = [
        fleet_command(*command.split(), "--data-dir", str(fleet.data_dir))
        for command in ("cluster status", "doctor --verbose")
    ]
    assert all(f"{scheme}://{places}\n" in one.stdout for one in shown), shown
    assert password
    assert not any(password in text for one in shown for text in (one.stdout, one.stderr, fleet.stdout, fleet.stderr))
    file = fleet.data_dir / "store.moment"
    wait_until_sync(lambda: file.exists() and any(json.loads(file.read_bytes()).values()), what="the time to be kept")


def test_the_queues_can_be_listed_by_the_lines_of_the_page(start: Start, tmp_path: Path) -> None:
    """In a folder with a blank, whose store has no socket."""
    folder = tmp_path / "my fleet"
    fleet = start("--workers", "1", "--frontends", "1", data_dir=folder / ".fleet")
    page = (ROOT / "deploy" / "README.md").read_text()
    lines = page[page.index("store=$(") :].partition("```")[0].replace(".venv/bin/python", shlex.quote(sys.executable))
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": programs, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-ec", lines], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "fleet-steps" in done.stdout
    assert fleet.process.poll() is None


@pytest.mark.chaos
def test_a_process_that_does_not_exit_in_time_is_killed(start: Start) -> None:
    fleet = start("--workers", "1", "--frontends", "1", "--drain-seconds", "6")
    pids, frontend = fleet.pids, fleet.pid("fe-0")
    assert frontend is not None
    os.kill(frontend, signal.SIGSTOP)
    fleet.process.terminate()
    ended = [("fe-0", frontend, True), ("w-0", None, False)]
    wait_until_sync(
        lambda: [(one.slot, one.pid, one.ready) for one in fleet.state.processes] == ended, what="the worker's end"
    )
    assert fleet.process.wait(80) == Exit.OK
    assert fleet.all_gone(pids)
    assert fleet.logged("killing what did not end in time", processes="front-end fe-0")


def test_processes_follow_a_moved_store(start: Start, tmp_path: Path) -> None:
    """If the path is too long for a socket, the store listens on a port, which changes with each start."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    fleet = start("--workers", "0", "--frontends", "1", data_dir=deep / "fleet")
    item = make_item(fleet, "moves house")
    before = fleet.state
    assert before.store_pid is not None
    os.kill(before.store_pid, signal.SIGKILL)
    wait_until_sync(
        lambda: fleet.state.processes[0].ready and fleet.state.processes[0].pid != before.processes[0].pid,
        what="another front-end",
    )
    assert title_of(fleet, item) == "moves house"


def test_a_data_directory_with_characters_special_to_rq_works(start: Start, tmp_path: Path) -> None:
    fleet = start("--workers", "1", "--frontends", "1", data_dir=tmp_path / "Application Support=a\nb" / "fleet")
    assert all(process.ready for process in fleet.state.processes)
    assert title_of(fleet, make_item(fleet, "anywhere")) == "anywhere"
    assert fleet.end() == 0


@pytest.mark.chaos
def test_a_hung_store_is_restarted(start: Start) -> None:
    fleet = start("--workers", "0", "--frontends", "1", "--watchdog-seconds", "3")
    item = make_item(fleet, "kept")
    before = fleet.state.store_pid
    assert before is not None
    os.kill(before, signal.SIGSTOP)
    wait_until_sync(lambda: fleet.state.store_pid not in (None, before), what="another store process")
    wait_until_sync(lambda: once(fleet.port, "/readyz")[0] == 200, what="readiness")
    assert title_of(fleet, item) == "kept"
    assert fleet.logged("the embedded store hangs, killing it", pid=before)
    assert fleet.end() == 0
