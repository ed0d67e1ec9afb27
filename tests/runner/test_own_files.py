"""Files that the runner writes itself are not the command's work."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.cli.runners.flags import options_of, workspaces_of
from coordinator.client import Fleet
from coordinator.runner.workspaces import Directories
from coordinator.runner.workspaces.own_files import changed_since
from tests.client.backlog import add, context, seen
from tests.runner.repositories import Place
from tests.support.fleets import ROOT, RunningCommand, RunningFleet, environment

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

LONG_AGO = 1_000_000_000


def test_only_what_is_new_and_of_others_counts(tmp_path: Path) -> None:
    def write(*names: str) -> None:
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
            os.utime((tmp_path / name).parent, (0, 0))

    write(".git/index", "node_modules/x.js", "fleet/fleet.lock", "fleet/store.json", "fleet/redis/log", "own/state")
    write("old/file")
    os.utime(tmp_path / "old/file", (0, 0))
    one = (tmp_path / "own").stat()
    own = {(one.st_dev, one.st_ino)}
    for name in tmp_path.iterdir():
        os.utime(name, (0, 0))
    assert not changed_since(tmp_path, LONG_AGO, own)
    assert changed_since(tmp_path, LONG_AGO)
    write("old/new")
    assert changed_since(tmp_path, LONG_AGO, own)


async def test_files_that_this_process_writes_are_its_own(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    work, state = tmp_path / "work", tmp_path / "work" / "state"
    state.mkdir(parents=True)
    space = await Directories(str(work), own=(state, tmp_path / "nowhere")).open(place.attempt())
    (state / "record").touch()
    log = work / "run.log"
    with log.open("a") as output:
        output.write("a line\n")
        output.flush()
        assert not space.changed(LONG_AGO)
        assert not space.changed_since(LONG_AGO)
        (work / "made").touch()
        assert space.changed(LONG_AGO)
        (work / "made").unlink()
    assert space.changed(LONG_AGO)  # now that it is closed


async def test_metrics_of_runners_are_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those of a page nor those in a directory that is named; a fleet's are in its data directory."""
    place, work = Place(tmp_path / "place"), tmp_path / "work"
    monkeypatch.setenv("FLEET_METRICS_DIR", str(work / "named"))
    for written in ("state/metrics/run-0/counter_run-0.db", "named/counter_run-0.db"):
        (work / written).parent.mkdir(parents=True)
        (work / written).touch()
    flags = {"workspace": str(work), "state_dir": str(work / "state")}
    space = await workspaces_of(flags, options_of(("true",), flags)).open(place.attempt())
    assert not space.changed_since(LONG_AGO)
    (work / "made").touch()
    assert space.changed_since(LONG_AGO)


FINDS = """
import os, sys
from coordinator.runner.workspaces.own_files import own_files
from tests.support.wait import wait_until_sync

def known():
    return os.path.exists(sys.argv[1]) and (os.stat(sys.argv[1]).st_dev, os.stat(sys.argv[1]).st_ino) in own_files(())

wait_until_sync(known, what="the file is found")
"""


@pytest.mark.parametrize("ways", ["> {}", "2> {}", "| tee {}", "2>&1 | cat | tee -a {} | cat", "| cat > {}"])
def test_files_behind_the_output_are_found(tmp_path: Path, ways: str) -> None:
    log = shlex.quote(str(tmp_path / "run.log"))
    words = shlex.join([sys.executable, "-c", FINDS, str(tmp_path / "run.log")])
    line = f"set -o pipefail; {words} {ways.format(log)}"
    ended = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=environment(), check=False, capture_output=True, timeout=100
    )
    assert ended.returncode == 0, ended.stderr


async def test_a_log_in_the_workspace_is_no_sign_of_life(running: RunningFleet, fleet: Fleet, tmp_path: Path) -> None:
    (item,) = await add(fleet, "long", maxAttempts=0)
    command = ["run", "--url", running.state.base_url, "--project", fleet.project, "--workspace", str(tmp_path)]
    command += ["--state-dir", str(tmp_path / "state"), "--ttl", "10", "--stall", "1s", "--max-items", "1"]
    with RunningCommand(tmp_path / "run", *command, "--", "sleep", "600") as runner:
        assert runner.process.wait(60) == 0, runner.stderr
        assert "it stalled" in runner.stdout
    assert (await seen(fleet, item))["role"] == "work"
    assert (await context(fleet, item))["attempts"]["count"] == 1
