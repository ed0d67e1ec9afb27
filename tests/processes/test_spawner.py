"""Orphans of a fleet's processes are reaped, in any session."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.fleets import START_SECONDS, environment

# Exit in this order, the stranger first: it has its own session, the other one that of its parent.
WORKER = """
import subprocess, sys
for own_session in (True, False):
    print(subprocess.Popen(["cat"], stdin=0, stdout=2, start_new_session=own_session).pid, flush=True)
"""
SUPERVISOR = """
import os, subprocess, sys
from coordinator import linux
from coordinator.processes.supervision import spawner

def nowhere(place):
    raise AssertionError(f"{place} is read although nothing has exited")

fleet = spawner.Spawner(())
real, linux.Path = linux.Path, nowhere
assert list(linux.ended_children()) == []
line, end = os.pipe()
worker = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1]], stdin=line, stdout=subprocess.PIPE, start_new_session=True
)
fleet.note(worker)
assert list(linux.ended_children()) == []
linux.Path = real
pids = map(int, worker.stdout.read().split())
names = dict(zip(pids, ("stranger", "command")))
assert worker.wait() == 0
mine = subprocess.Popen(["true"])
names[mine.pid] = "mine"
os.close(line)
os.close(end)
for pid in names:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

def left():
    return sorted(names[pid] for pid in linux.ended_children())

print(left())
assert fleet.reap_orphans()
print(left())
assert mine.wait() == 0
spawner.UNREAPED_SECONDS = 0.0
assert not fleet.reap_orphans()
print(left())
again = subprocess.Popen(["true"], start_new_session=True)
names[again.pid] = "namesake"
worker.pid = again.pid  # it has been given the number of the worker
fleet.note(worker)
os.waitid(os.P_PID, again.pid, os.WEXITED | os.WNOWAIT)
spawner.UNREAPED_SECONDS = 60.0
assert fleet.reap_orphans()
print(left())
spawner.UNREAPED_SECONDS = 0.0
assert not fleet.reap_orphans()
print(left())
"""
ALONE = """
import asyncio, os, pathlib, subprocess
from coordinator import linux
from coordinator.processes.supervision import spawner, supervisor

async def main():
    spawner.UNREAPED_SECONDS = 0.1
    fleet = supervisor.Supervisor((), pathlib.Path("."), 0)
    stranger = subprocess.Popen(["true"], start_new_session=True)
    os.waitid(os.P_PID, stranger.pid, os.WEXITED | os.WNOWAIT)
    fleet.reap()
    assert list(linux.ended_children()) == [stranger.pid]
    while list(linux.ended_children()):
        await asyncio.sleep(0.01)

asyncio.run(main())
"""

FULL = """
import asyncio, os, pathlib, socket, subprocess, sys
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.supervision import spawner, supervised, supervisor
from coordinator.settings import Settings

tried = []

def full(command, *_, **__):
    tried.append(command[3] if isinstance(command, list) else "pair")
    raise BlockingIOError(11, "Resource temporarily unavailable")

async def main():
    if "descriptors" in sys.argv:
        socket.socketpair = full  # the event loop has its own
    before = os.listdir("/proc/self/fd")
    fleet = supervisor.Supervisor(
        [supervised.Spec("worker", "w-0", Settings, pathlib.Path("."))], pathlib.Path("."), 0
    )
    try:
        await fleet.start()
    except ProcessProblem as failed:
        print(failed)
    await fleet.stop()
    assert os.listdir("/proc/self/fd") == before
    print(*tried)

subprocess.Popen = full
asyncio.run(main())
"""


def run(*program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", *program],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        env=environment(),
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts orphans")
def test_orphans_are_reaped_but_not_children_of_others() -> None:
    done = run(SUPERVISOR, WORKER)
    assert done.stdout.splitlines() == [
        "['command', 'mine', 'stranger']",
        "['mine', 'stranger']",
        "[]",
        "['namesake']",
        "[]",
    ], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts orphans")
def test_an_orphan_is_reaped_without_another_exit() -> None:
    done = run(ALONE)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no template")
@pytest.mark.parametrize(
    ("short", "first"), [("processes", "coordinator.processes.supervision.template"), ("descriptors", "pair")]
)
def test_a_failed_fork_is_reported(short: str, first: str) -> None:
    done = run(FULL, short)
    assert done.returncode == 0, done.stderr
    reason = "no process can be created for it: Resource temporarily unavailable"
    told = f"worker w-0 does not start: {reason}"
    assert done.stdout.splitlines()[-2:] == [told, " ".join([first] + 3 * ["coordinator.processes.supervision.child"])]
