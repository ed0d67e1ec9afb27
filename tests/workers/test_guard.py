"""What a worker has started ends with it, however it ends: servers, commands, and what callables leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.store import Store
from tests.support.downstream import RAW
from tests.support.fleets import environment
from tests.support.wait import process_alive, wait_until, wait_until_sync
from tests.workers.conftest import Start
from tests.workers.fleet import Fleet, Flows, chain
from workers.children import guard_process
from workers.children.guard import Guard

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]

LASTING = "trap '' TERM; echo $$; sleep 300 & sleep 300"
HOLDER = f"""
import asyncio, os, signal, subprocess, sys
from coordinator.toolsets.gateway.rules.calls import CliCall
from workers.gateway.cli import run_command
from workers.children.guard import ProcessGroup

async def main():
    if sys.argv[1] == "command":
        script = "trap '' TERM; sleep 300 & echo $$ > " + sys.argv[2] + "; sleep 300"
        await run_command(CliCall(command="sh", args=("-c", script)), None, os.environ)
    group = ProcessGroup(["sh", "-c", {LASTING!r}], stdout=subprocess.PIPE, start_new_session=True)
    line = group.process.stdout.readline().decode()
    if os.fork() == 0:
        signal.pause()
    open(sys.argv[2], "w").write(line)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def members(group: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, of = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(of) == group and state not in ("Z", "X"):
            found.append(int(entry.name))
    return found


def guards(parent: int) -> list[int]:
    """The guards that a process has started."""
    return [
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if b"guard_process" in _read(entry / "cmdline") and f"PPid:\t{parent}\n".encode() in _read(entry / "status")
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def gone(group: int) -> None:
    wait_until_sync(lambda: not members(group), 20, "the end of a process group")


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[bytes], int]]]:
    """Starts a process with a guarded group of each kind, and returns it with that group."""
    running = []

    def start(kind: str) -> tuple[subprocess.Popen[bytes], int]:
        file = tmp_path / kind
        command = [sys.executable, "-c", HOLDER, kind, str(file)]
        process = subprocess.Popen(command, env=environment(), start_new_session=True)
        running.append(process)
        group = int(wait_until_sync(lambda: file.exists() and file.read_text(), what="the group") or 0)
        wait_until_sync(lambda: len(members(group)) == 3, what="its processes")
        return process, group

    yield start
    for process in running:
        for pid in members(process.pid):  # and the copy
            os.kill(pid, signal.SIGKILL)
        process.wait()


def test_what_is_left_of_a_process_has_to_end_soon() -> None:
    assert guard_process.OWN_SECONDS + guard_process.TERM_SECONDS < 1.5


@pytest.mark.parametrize("kind", ["group", "command"])
def test_a_group_ends_with_its_process(holder: Callable[[str], tuple[subprocess.Popen[bytes], int]], kind: str) -> None:
    process, group = holder(kind)
    (guard,) = wait_until_sync(lambda: guards(process.pid), what="the guard")
    process.kill()
    process.wait()
    gone(group)
    wait_until_sync(lambda: not process_alive(guard), what="the end of the guard")


def test_a_guard_outlasts_signals_to_all_processes(
    holder: Callable[[str], tuple[subprocess.Popen[bytes], int]],
) -> None:
    process, group = holder("group")
    (guard,) = guards(process.pid)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(guard, number)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    gone(group)


def test_a_guard_that_is_gone_is_replaced(tmp_path: Path) -> None:
    guard = Guard()
    first, second = (subprocess.Popen(["sleep", "300"], start_new_session=True) for _ in range(2))
    guard.watch(first.pid)
    assert guard.pid is not None
    old = guard.pid
    os.kill(old, signal.SIGKILL)
    wait_until_sync(lambda: not process_alive(old), what="the end of the guard")
    guard.watch(second.pid)
    assert guard.pid not in (None, old)
    guard.close()
    assert [first.wait(20), second.wait(20)] == [-signal.SIGTERM] * 2
    assert guard.pid is None


def test_a_group_that_is_forgotten_goes_on() -> None:
    guard = Guard()
    kept, ended = (subprocess.Popen(["sleep", "300"], start_new_session=True) for _ in range(2))
    for one in (kept, ended):
        guard.watch(one.pid)
    guard.forget(kept.pid)
    guard.close()
    assert ended.wait(20) == -signal.SIGTERM
    assert kept.poll() is None
    kept.kill()
    kept.wait()


def test_a_later_process_with_the_same_id_is_left_alone() -> None:
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    start = guard_process.started(other.pid)
    assert guard_process.signalled(other.pid, start, 0)
    assert not guard_process.signalled(other.pid, b"%d" % (int(start) - 1), signal.SIGKILL)
    assert other.poll() is None
    other.kill()
    other.wait()
    assert not guard_process.signalled(other.pid, start, 0)


# --- workers --------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A stubborn server, and a callable that starts a process."""
    file = tmp_path / "fleet.yaml"
    server = {
        "kind": "mcp",
        "command": sys.executable,
        "args": [str(RAW), "stubborn"],
        "workingDirectory": str(tmp_path),
    }
    tools = {"leaves": "tests.workers.callables:starts_another"}
    file.write_text(json.dumps({"connections": {"it": server}, "flows": {"tools": tools}}))
    return file


async def server_of(flows: Flows) -> list[int]:
    """Process ids of a server that a step has called, and of what the server has started."""
    (record,) = await flows.ended([await flows.create(chain({"tool": "it.pids"}))])
    pids: list[int] = json.loads(record.steps[0].result_json or "[]")
    assert len(pids) == 2, record
    return pids


async def all_gone(*pids: int) -> None:
    await wait_until(lambda: not any(map(process_alive, pids)), 20, f"the end of {pids}")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


async def test_servers_and_callables_end_with_a_worker_that_nobody_supervises(
    start: Start, store: Store, config: Path, tmp_path: Path
) -> None:
    flows = Flows(store)
    worker = await asyncio.to_thread(start, FLEET_CONFIG=str(config))
    file = tmp_path / "pid"
    await flows.create(chain({"tool": "leaves", "args": {"started": str(file)}}))
    pids = await server_of(flows)
    left = int(await wait_until(lambda: file.exists() and file.read_text(), what="the callable"))
    await asyncio.to_thread(worker.end, signal.SIGKILL)
    await all_gone(*pids, left)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.chaos)])
async def test_servers_end_with_workers_of_a_fleet(config: Path, tmp_path: Path, number: signal.Signals) -> None:
    command = ("--port", "0", "--workers", "1", "--watchdog-seconds", "2", "--config", str(config))
    with Fleet(tmp_path / "data", *command) as fleet:
        await asyncio.to_thread(fleet.wait_ready)
        store = Store(fleet.url, timeout_ms=10_000)
        await store.open()
        flows = Flows(store)
        pids = await server_of(flows)
        fleet.kill(parent(pids[0]), number)  # the watchdog kills a process that has stopped
        await all_gone(*pids)
        # No supervisor is left either.
        pids = await server_of(flows)
        fleet.process.kill()
        fleet.kill(parent(pids[0]))
        await all_gone(*pids)
        await store.close()
