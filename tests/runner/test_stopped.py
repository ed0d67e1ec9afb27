"""Runners that stand still for longer than their claims last."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.support.fleets import RunningCommand, RunningFleet
from tests.support.stopped import END_SECONDS, LONG, lose_claims, program

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

AGENT = f'echo "$FLEET_ITEM_ID" >> "$FLEET_WORKSPACE/begun"; ! grep -q "{LONG}" || exec sleep 600'


@pytest.mark.parametrize("waits", [False, pytest.param(True, marks=pytest.mark.chaos)], ids=["works", "waits"])
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.chaos)])
async def test_a_runner_that_was_stopped_goes_on(
    running: RunningFleet, named: str, tmp_path: Path, rounds: int, waits: bool
) -> None:
    words = (running.state.base_url, named, str(tmp_path), "sh", "-c", AGENT)
    with program("tests.runner.short_lived", *words) as runner:
        await lose_claims(running, named, runner.pid, tmp_path / "begun", rounds=rounds, waits=waits)
        runner.terminate()
        assert runner.wait(END_SECONDS) == 0


@pytest.mark.chaos
async def test_commands_that_were_stopped_go_on(running: RunningFleet, named: str, tmp_path: Path) -> None:
    """``fleet run``, which takes no claims as short as those above; five runners, four times each."""

    async def one(number: int) -> None:
        directory, project = tmp_path / str(number), f"{named}-{number}"
        directory.mkdir()
        words = ["run", "--ttl", "10", "--timeout", "60s", "--url", running.state.base_url, "--project", project]
        words += ["--state-dir", str(directory / "state"), "--workspace", str(directory), "--min-free", "0"]
        with RunningCommand(directory / "output", *words, "--", "sh", "-c", AGENT) as runner:
            begun = directory / "begun"
            await lose_claims(running, project, runner.process.pid, begun, rounds=4, waits=False)
            runner.process.terminate()
            assert await asyncio.to_thread(runner.process.wait, END_SECONDS) == 0

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(one(number))
