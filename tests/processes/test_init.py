"""A command as process 1 of a container, here of a PID namespace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.cli.exits import Exit
from tests.support.fleets import RunningCommand, environment

BELOW = (
    "import os, signal, subprocess, time\nfrom coordinator.processes.supervision.init import run_below\nrun_below()\n"
)


def _namespace() -> list[str]:
    """The command that runs another one as process 1, or nothing if that is not allowed."""
    for more in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *more, "--pid", "--fork", "--mount-proc", "--kill-child"]
        if (
            shutil.which("unshare")
            and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
        ):
            return command
    return []


NAMESPACE = _namespace()
pytestmark = pytest.mark.skipif(not NAMESPACE, reason="no namespaces of process ids here (unshare)")


class AsProcess1(RunningCommand):
    """A ``fleet`` command under ``unshare``."""

    prefix = NAMESPACE

    @property
    def pid(self) -> int:
        """The id of process 1, as seen from outside."""
        (pid,) = children_of(self.process.pid)
        return pid

    def end(self, number: int = signal.SIGTERM, timeout: float = 80.0) -> int:
        os.kill(self.pid, number)
        return self.process.wait(timeout)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def as_process_1(code: str) -> subprocess.CompletedProcess[str]:
    command = [*NAMESPACE, sys.executable, "-c", BELOW + code]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)


def test_process_1_exits_like_the_command() -> None:
    assert as_process_1("raise SystemExit(3)").returncode == 3
    assert as_process_1("os.kill(os.getpid(), signal.SIGKILL)").returncode == 128 + signal.SIGKILL


def test_elsewhere_nothing_is_forked() -> None:
    code = BELOW + "print(os.getppid())"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert int(done.stdout) == os.getpid()


def test_orphans_are_reaped_but_not_children_of_the_command() -> None:
    code = """
for _ in range(50):
    # The shell exits before its child, which exits when the pipe is closed.
    read, write = os.pipe()
    subprocess.run(["sh", "-c", "cat <&0 & exit 0"], stdin=read, check=True)
    os.close(read)
    os.close(write)
    assert subprocess.run(["sh", "-c", "exit 7"]).returncode == 7
deadline = time.monotonic() + 30
# Process 1 and this one.
while len(left := [name for name in os.listdir("/proc") if name.isdigit()]) > 2:
    assert time.monotonic() < deadline, left
"""
    done = as_process_1(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("role", ["serve", pytest.param("worker", marks=pytest.mark.chaos)])
def test_a_signal_to_process_1_drains_the_command(role: str, tmp_path: Path, output: Path, redis_url: str) -> None:
    with AsProcess1(
        output, role, "--data-dir", str(tmp_path / "data"), FLEET_REDIS_URL=redis_url, FLEET_PORT="0"
    ) as command:
        command.wait_ready()
        assert len(children_of(command.pid)) == 1, "process 1 does nothing else"
        assert command.end() == Exit.OK
        assert command.logged("front-end stopped" if role == "serve" else "worker stopped"), command.stderr
