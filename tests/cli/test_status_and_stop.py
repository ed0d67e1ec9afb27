"""``fleet status`` and ``fleet stop``, over real fleets: what runs, and orderly ends, also after kills."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from coordinator import __version__, cli
from coordinator.cli.exits import Exit
from coordinator.metrics import slots
from coordinator.processes import stopping
from coordinator.processes.fleetfile import Fleet, FleetFile, Process
from tests.support.fleets import RunningFleet
from tests.support.wait import process_alive, wait_until_sync

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes through /proc")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on a data directory, in this process: exit code, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)

    def run(command: str, data_dir: Path, *more: str) -> tuple[int, str, str]:
        code = cli.run([command, "--data-dir", str(data_dir), *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@contextmanager
def started(tmp_path: Path, *arguments: str) -> Iterator[RunningFleet]:
    small = ("--port", "0", "--frontends", "1", "--workers", "1")
    with RunningFleet(tmp_path / "fleet", *small, *arguments) as fleet:
        fleet.wait_ready()
        yield fleet


@contextmanager
def foreigner() -> Iterator[int]:
    """A process of nobody's fleet."""
    waiting = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        yield waiting.pid
        assert waiting.poll() is None, "it was killed"
    finally:
        waiting.kill()
        waiting.communicate()


def a_fleet(pid: int, data_dir: Path, *processes: Process) -> Fleet:
    return Fleet(
        pid, __version__, "http://127.0.0.1:1", True, "2026-01-01T00:00:00Z", str(data_dir / "m"), "redis://h:1", None,
        processes,
    )  # fmt: skip


def test_a_fleet_is_shown_and_stopped(run: Run, tmp_path: Path) -> None:
    with started(tmp_path) as fleet:
        state, pids = fleet.state, fleet.pids
        code, out, _ = run("status", fleet.data_dir)
        assert code == Exit.OK, out
        first, *rows = out.splitlines()
        assert first.startswith(f"the fleet on {fleet.data_dir} is running: {state.base_url}, version {__version__}, ")
        assert [row.split()[:4] for row in rows[:3]] == [
            ["supervisor", "up", str(state.pid), "runs"],
            *(
                [{"frontend": "front-end"}.get(one.role, one.role), one.slot, str(one.pid), "ready"]
                for one in state.processes
            ),
        ]
        assert re.fullmatch(rf"  store +embedded +{state.store_pid}  (Redis|Valkey) [\d.]+", rows[3])
        code, out, _ = run("status", fleet.data_dir, "--json")
        told = json.loads(out)
        assert (told["state"], told["well"], told["ready"], told["problems"]) == ("running", True, True, [])
        assert msgspec.convert(told["fleet"], Fleet) == state

        worker = fleet.pid("w-0")
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        wait_until_sync(lambda: run("status", fleet.data_dir)[0] == Exit.FAILED, what="the worker's end to be shown")
        wait_until_sync(lambda: run("status", fleet.data_dir)[0] == Exit.OK, what="the next worker")

        pids += [one for one in fleet.pids if one not in pids]
        code, out, err = run("stop", fleet.data_dir)
        assert (code, out) == (Exit.OK, f"the fleet on {fleet.data_dir} has ended (process {state.pid})\n"), err
        assert fleet.process.wait(10) == Exit.OK
        assert fleet.all_gone(pids)
        assert fleet.logged("stopping")
        assert run("status", fleet.data_dir)[:2] == (Exit.STORE_UNREACHABLE, f"no fleet runs on {fleet.data_dir}\n")
        assert run("stop", fleet.data_dir)[:2] == (Exit.OK, f"no fleet runs on {fleet.data_dir}\n")


def test_a_second_stop_waits_on_and_hurries_nothing(run: Run, tmp_path: Path) -> None:
    with started(tmp_path, "--drain-seconds", "600") as fleet:
        frontend, supervisor = fleet.pid("fe-0"), fleet.state.pid
        assert frontend is not None
        os.kill(frontend, signal.SIGSTOP)
        for _ in range(2):
            code, _, err = run("stop", fleet.data_dir, "--wait", "0.3")
            assert code == Exit.FAILED
            assert err.endswith(f"still runs after 0 s; a second signal ends it at once: kill {supervisor}\n")
            wait_until_sync(lambda: fleet.state.stopping, what="it to say that it stops")
        code, out, _ = run("status", fleet.data_dir)
        assert (code, " is stopping: " in out) == (Exit.FAILED, True)
        os.kill(frontend, signal.SIGCONT)
        assert run("stop", fleet.data_dir)[0] == Exit.OK
        assert not fleet.logged("killing what did not end in time")


def test_what_a_killed_fleet_has_left_is_ended(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "ORPHAN_SECONDS", 0.5)
    with started(tmp_path) as fleet:
        pids, frontend, supervisor = fleet.pids, fleet.pid("fe-0"), fleet.state.pid
        assert frontend is not None
        os.kill(frontend, signal.SIGSTOP)  # it cannot end by itself
        fleet.process.kill()
        fleet.process.wait(10)
        code, out, _ = run("status", fleet.data_dir)
        assert code == Exit.STORE_UNREACHABLE
        assert f"no fleet runs on {fleet.data_dir}; the last one was killed (process {supervisor})\n" in out
        assert f"  ! fe-0 (process {frontend}) still runs\n" in out
        code, out, err = run("stop", fleet.data_dir)
        assert code == Exit.OK, err
        assert out == f"the fleet on {fleet.data_dir} was killed before (process {supervisor}); nothing of it runs\n"
        assert not [pid for pid in pids if process_alive(pid)]
        assert run("stop", fleet.data_dir)[1] == f"no fleet runs on {fleet.data_dir}\n"


def test_no_foreign_process_is_killed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids that a killed fleet has written down may be those of other processes by now."""
    monkeypatch.setattr(stopping, "ORPHAN_SECONDS", 0.1)
    monkeypatch.setattr(stopping, "KILL_SECONDS", 0.1)
    with foreigner() as pid:
        file = FleetFile(tmp_path)
        file.write(a_fleet(pid, tmp_path, Process("fe-0", "frontend", pid, True)))
        file.abandon()
        (tmp_path / "fleet.lock").write_text(f"{pid}\n")
        (tmp_path / "m").mkdir()
        held = slots.own(tmp_path / "m", "fe-0")  # by this process, which the file does not name
        assert run("stop", tmp_path) == (Exit.FAILED, "", "fleet: of an earlier fleet there still runs: fe-0\n")
        os.close(held)
        assert run("stop", tmp_path)[0] == Exit.OK
        assert not (tmp_path / "fleet.json").exists()


def test_the_same_id_in_another_container_is_not_signalled(run: Run, tmp_path: Path) -> None:
    with foreigner() as pid, closing(FleetFile(tmp_path)):
        (tmp_path / "fleet.lock").write_text(f"{pid}\n")
        code, _, err = run("stop", tmp_path, "--wait", "0")
        assert code == Exit.FAILED
        assert f"the process {pid} that holds {tmp_path} is not one of this machine or container" in err


def test_a_fleet_without_its_store_is_not_well(run: Run, tmp_path: Path) -> None:
    with closing(FleetFile(tmp_path)) as file:
        code, out, _ = run("status", tmp_path)
        assert (code, out.splitlines()[0]) == (Exit.FAILED, f"the fleet on {tmp_path} is starting")
        fleet = a_fleet(os.getpid(), tmp_path, Process("fe-0", "frontend", None, False))
        file.write(msgspec.structs.replace(fleet, version="0.0.1"))
        code, out, _ = run("status", tmp_path, "--json")
        told = json.loads(out)
        assert (code, told["state"], told["well"], told["store"]) == (Exit.FAILED, "running", False, "")
        words = ("fe-0 is down", "version 0.0.1", "http://127.0.0.1:1 does not answer", "the store: ")
        assert [problem for problem, word in zip(told["problems"], words, strict=True) if word not in problem] == []
