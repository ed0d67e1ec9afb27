"""Processes below a supervisor: what a command has started ends with it, whatever is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from coordinator.runner.supervision import processes
from coordinator.runner.supervision.processes import Supervised
from tests.support.fleets import ROOT
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

Start = Callable[..., Coroutine[Any, Any, Supervised]]

FAMILY = """
import os, signal, subprocess, sys
kind = sys.argv[1]
if kind == "stubborn":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen(
    ["sh", "-c", "trap '' TERM INT HUP; echo child $$; exec sleep infinity"], start_new_session=True)
print("ready", flush=True)
if kind == "leaves":
    sys.exit(3)
try:
    signal.pause()
except KeyboardInterrupt:
    sys.exit(7)
"""


class Output:
    """What a command has written."""

    def __init__(self) -> None:
        self.stdout = self.stderr = b""

    def __call__(self, stream: str, part: bytes) -> None:
        setattr(self, stream, getattr(self, stream) + part)

    def child(self) -> int:
        """The id of the shell that the family's parent has started, once both are there."""
        words = self.stdout.split()
        return int(words[words.index(b"child") + 1]) if b"child" in words and b"ready" in words else 0


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    running = []

    async def begin(*command: str, sink: Any = lambda *_: None, **more: Any) -> Supervised:
        run = uuid.uuid4().hex
        environment = {"PATH": os.environ["PATH"], "FLEET_RUN": run, **more.pop("environment", {})}
        made = await processes.start(
            command, run_id=run, environment=environment, directory=tmp_path, sink=sink, **more
        )
        running.append(made)
        return made

    yield begin
    for one in running:
        one.kill()
        await one.wait()


def _living(pid: int) -> bool:
    """Whether a process is there that is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


async def _family(start: Start, kind: str, **more: Any) -> tuple[Supervised, int]:
    output = Output()
    run = await start(sys.executable, "-c", FAMILY, kind, sink=output, **more)
    return run, await wait_until(output.child, what="the command has started its child")


async def test_output_exit_code_and_use_are_reported(start: Start, tmp_path: Path) -> None:
    source, output = tmp_path / "prompt", Output()
    source.write_bytes(b"hello " * 50_000)
    run = await start("sh", "-c", "wc -c; echo no >&2; exit 65", source=source, sink=output)
    ended = await run.wait()
    assert (ended.code, output.stdout.split(), output.stderr) == (65, [b"300000"], b"no\n")
    assert ended.memory_bytes > 100_000
    assert not ended.failed
    assert not run.signalled


async def test_input_is_empty_if_there_is_none(start: Start) -> None:
    output = Output()
    assert (await (await start("cat", sink=output)).wait()).code == 0
    assert output.stdout == b""


async def test_only_the_given_environment_and_no_other_file_is_inherited(start: Start) -> None:
    output = Output()
    reads, ends = os.pipe()
    os.set_inheritable(ends, True)
    try:
        await (await start("sh", "-c", "env; ls /proc/self/fd", environment={"A": "b"}, sink=output)).wait()
    finally:
        os.close(reads)
        os.close(ends)
    words = output.stdout.split()
    assert {word.partition(b"=")[0] for word in words if b"=" in word} <= {b"PATH", b"A", b"FLEET_RUN", b"PWD", b"_"}
    # The fourth is the directory that ls reads.
    assert [word for word in words if word.isdigit()] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("command", "errno"), [("no-such-program", 2), ("/etc/passwd", 13)], ids=["missing", "not executable"]
)
async def test_a_command_that_cannot_be_started_is_an_end(start: Start, command: str, errno: int) -> None:
    run = await start(command)
    ended = await run.wait()
    assert ended.errno == errno
    assert command in ended.failed
    assert run.pid == 0


async def test_what_a_command_leaves_behind_is_killed(start: Start) -> None:
    run, child = await _family(start, "leaves", grace=(0, 0.05))
    ended = await run.wait()
    assert ended.code == 3
    assert not run.signalled
    assert not _living(child)


async def test_a_stop_begins_with_an_interrupt(start: Start) -> None:
    run, child = await _family(start, "polite", grace=(60, 0.05))
    run.stop()
    assert (await run.wait()).code == 7
    assert run.signalled
    assert not _living(child)


async def test_a_stop_ends_what_ignores_it(start: Start) -> None:
    run, child = await _family(start, "stubborn", grace=(0.05, 0.05))
    run.stop()
    assert (await run.wait()).code == -signal.SIGKILL
    assert not _living(child)


async def test_killing_the_supervisor_kills_everything(start: Start) -> None:
    run, child = await _family(start, "stubborn")
    alarms: list[int] = []
    run.changed = lambda: alarms.append(1)
    os.kill(run.supervisor, signal.SIGKILL)
    ended = await run.wait()
    assert ended.unsupervised
    assert not alarms
    assert not _living(run.pid)
    assert not _living(child)


async def test_a_stopped_supervisor_is_taken_for_hung(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LATE_SECONDS", 0.05)
    run, child = await _family(start, "stubborn", grace=(0, 0))
    os.kill(run.supervisor, signal.SIGSTOP)
    run.stop()
    assert (await run.wait()).unsupervised
    assert not _living(run.pid)
    assert not _living(child)


async def test_cpu_time_counts_descendants_that_run(start: Start) -> None:
    run = await start("sh", "-c", "sh -c 'while :; do :; done' & wait")
    await wait_until(lambda: _used(run), what="it has used CPU time")


async def _used(run: Supervised) -> bool:
    return await run.cpu() > 0.05


async def test_a_cancelled_wait_stops_nothing(start: Start) -> None:
    run = await start("sleep", "600")
    waiting = asyncio.create_task(run.wait())
    await wait_until(lambda: run.pid)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert _living(run.pid)


FROZEN = """
import asyncio, os, sys
from pathlib import Path
from coordinator.runner.supervision import processes
from tests.support.wait import wait_until

async def main():
    run = await processes.start(["sleep", "600"], run_id="f" * 32, environment={"PATH": os.environ["PATH"]},
        directory=Path("."), sink=lambda *_: None, silence=0.5)
    await wait_until(lambda: run.pid)
    print(run.pid, flush=True)
    ended = await run.wait()
    print(ended.unsupervised, flush=True)

asyncio.run(main())
"""


async def test_a_frozen_runner_does_not_keep_its_command(tmp_path: Path) -> None:
    words = [sys.executable, "-c", FROZEN]
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=where)  # noqa: ASYNC220 (at once)
    assert process.stdout
    with process, process.stdout as said:
        command = int(said.readline())
        process.send_signal(signal.SIGSTOP)
        await wait_until(lambda: not _living(command), what="the command is ended")
        process.send_signal(signal.SIGCONT)
        assert said.readline() == "True\n"
        assert process.wait(30) == 0
