"""Loops over jobs of a project that operators pause and resume by the commands."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from coordinator.client import Fleet, Job
from tests.client.backlog import add, seen
from tests.support.fleets import RunningFleet, fleet_command
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def project(running: RunningFleet, *words: str) -> tuple[int, Any]:
    """Exit code and answer of ``fleet project ... --json``."""
    command = ("project", *words, "--json", "--data-dir", str(running.data_dir))
    done = await asyncio.to_thread(fleet_command, *command)
    return done.returncode, json.loads(done.stdout)


async def test_a_loop_waits_while_its_project_is_paused(
    running: RunningFleet, named: str, fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await add(fleet, "first", "second")
    done: list[str] = []
    paused, resumed = asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> None:
        if job.id == first:
            paused.set()
            await resumed.wait()  # it goes on although the project is paused meanwhile
        await job.done()
        done.append(job.id)
        if len(done) == 2:
            fleet.stop()

    working = asyncio.create_task(fleet.work(handle, signals=False))
    await paused.wait()
    code, told = await project(running, "pause", named, "--reason", "the lab is closed")
    assert (code, told["begun"], told["reason"]) == (0, True, "the lab is closed")
    resumed.set()
    await wait_until(lambda: "the project is paused by" in caplog.text, what="the client to say so")
    assert (await seen(fleet, first))["role"] == "terminal"
    assert (await seen(fleet, second))["role"] == "queue"
    assert done == [first]
    assert (await project(running, "resume", named))[0] == 0
    async with asyncio.timeout(30):
        await working
    assert done == [first, second]
    assert caplog.text.count("the project is paused by") == 1
    assert (await project(running, "resume", named)) == (1, {"project": named, "resumed": False})


async def test_a_loop_that_does_not_wait_ends_and_says_why(running: RunningFleet, named: str, fleet: Fleet) -> None:
    await add(fleet, "one")
    await project(running, "pause", named, "--reason", "the lab is closed")
    jobs = fleet.jobs(wait=False)
    assert [job async for job in jobs] == []
    assert jobs.paused is not None
    assert jobs.paused["reason"] == "the lab is closed"
    code, again = await project(running, "pause", named)
    assert (code, again["begun"], again["reason"]) == (0, False, "the lab is closed")
    await project(running, "resume", named)
    jobs = fleet.jobs(wait=False)
    async with await anext(jobs) as job:
        await job.done()
    assert jobs.paused is None


async def test_what_is_refused(running: RunningFleet) -> None:
    command = ("project", "pause", "nobody-wrote", "--data-dir", str(running.data_dir))
    done = await asyncio.to_thread(fleet_command, *command)
    assert done.returncode == 2
    assert "nobody-wrote" in done.stderr
    done = await asyncio.to_thread(fleet_command, *command, "--reason", " ")
    assert (done.returncode, "--reason" in done.stderr) == (2, True)
