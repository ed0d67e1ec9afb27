"""Processes are forks of a template, but children of the supervisor."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli.exits import Exit
from tests.support.fleets import RunningFleet, environment
from tests.support.wait import process_alive, wait_until_sync

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what the template needs")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with RunningFleet(
        tmp_path_factory.mktemp("template") / "data", "--port", "0", "--frontends", "2", "--workers", "1"
    ) as running:
        running.wait_ready()
        yield running


def children(pid: int) -> dict[int, str]:
    """The names of a process's children, zombies included."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, rest = stat.partition("(")[2].rsplit(")", 1)
        if int(rest.split()[1]) == pid:
            found[int(entry.name)] = name
    return found


def template_of(fleet: RunningFleet) -> int | None:
    named = [
        pid for pid, name in children(fleet.process.pid).items() if name == "fleet template" and process_alive(pid)
    ]
    return named[0] if named else None


def restarted(fleet: RunningFleet, slot: str, before: int) -> int | None:
    state = next(one for one in fleet.state.processes if one.slot == slot)
    return state.pid if state.ready and state.pid not in (None, before) else None


def kill(fleet: RunningFleet, slot: str) -> int:
    """Kills a process; returns the id of its successor."""
    before = fleet.pid(slot)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    after = wait_until_sync(lambda: restarted(fleet, slot, before), what=f"{slot} to be back")
    assert after is not None
    return after


def test_a_fork_is_a_child_of_the_supervisor_with_its_own_name(fleet: RunningFleet) -> None:
    found = children(fleet.process.pid)
    for slot in ("fe-0", "fe-1", "w-0"):
        pid = fleet.pid(slot)
        assert pid is not None
        assert found[pid] == f"fleet {slot}"
        assert os.getsid(pid) == pid
    assert template_of(fleet) is not None


def test_a_killed_process_is_respawned_and_leaves_no_zombie(fleet: RunningFleet) -> None:
    template = template_of(fleet)
    for slot in ("fe-0", "w-0", "fe-0"):
        before = fleet.pid(slot)
        after = kill(fleet, slot)
        found = children(fleet.process.pid)
        assert before not in found
        assert found[after] == f"fleet {slot}"
    assert template_of(fleet) == template


@pytest.mark.chaos
def test_processes_outlive_the_template_and_start_without_it(tmp_path: Path) -> None:
    with RunningFleet(tmp_path / "data", "--port", "0", "--frontends", "2", "--workers", "0") as fleet:
        fleet.wait_ready()
        template, others = template_of(fleet), fleet.pids
        assert template is not None
        os.kill(template, signal.SIGKILL)
        after = kill(fleet, "fe-1")
        assert set(fleet.pids) - {after} < set(others)
        anew = wait_until_sync(lambda: template_of(fleet), what="another template")
        assert anew != template
        assert fleet.end() == Exit.OK
        assert not process_alive(anew or 0)


def test_no_process_survives_a_killed_supervisor(tmp_path: Path) -> None:
    with RunningFleet(tmp_path / "data", "--port", "0", "--frontends", "1", "--workers", "1") as fleet:
        fleet.wait_ready()
        template, others = template_of(fleet), fleet.pids
        assert template is not None
        fleet.end(signal.SIGKILL)
        wait_until_sync(lambda: fleet.all_gone([template, *others]), what="all of them to end")


def test_a_template_that_is_ready_too_late_exits_silently() -> None:
    """After the timeout, processes start without it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        command = [sys.executable, "-m", "coordinator.processes.supervision.template", str(theirs.fileno()), "worker"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, pass_fds=[theirs.fileno()], env=environment())
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (Exit.OK, b"")
