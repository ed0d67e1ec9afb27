"""A front-end that stands still for longer than what it holds lasts: calls that wait, and tasks of the fleet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.client import Fleet, Job
from coordinator.store import Store, keys
from coordinator.store.embedded.server import EmbeddedServer
from tests.client.backlog import add, held, seen
from tests.support.fleets import RunningCommand
from tests.support.stopped import END_SECONDS, stopped
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

PROJECT = "stopped"


@pytest.fixture
def front_ends(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[list[RunningCommand]]:
    """Two, without a supervisor."""
    words = ("serve", "--port", "0", "--frontends", "1", "--data-dir", str(tmp_path / "data"))
    started = [RunningCommand(tmp_path / name, *words, FLEET_REDIS_URL=own_server.url) for name in ("one", "other")]
    yield started
    for command in started:
        command.clean_up()


async def holder(store: Store, agent: str) -> bytes:
    """The front-end that holds the waiting call of an agent; empty: it has none."""
    for key in await store.command("KEYS", keys.waiter.key(PROJECT, "") + b"*"):
        process, name = await store.command("HMGET", key, "p", "a")
        if process and name == agent.encode():
            return bytes(process)
    return b""


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.chaos, pytest.mark.timeout(1200)])])
async def test_a_front_end_that_was_stopped_goes_on(
    alone: Store, front_ends: list[RunningCommand], rounds: int
) -> None:
    old = front_ends[0]
    urls = [f"http://127.0.0.1:{one.wait_ready().rsplit(':', 1)[1]}" for one in front_ends]
    done: list[str] = []

    async def handle(job: Job) -> None:
        await job.done()
        done.append(job.id)

    async with (
        Fleet(urls[0], project=PROJECT, agent="waits") as waits,
        Fleet(urls[1], project=PROJECT) as caller,
    ):
        work = asyncio.create_task(waits.work(handle, ttl=2, signals=False))
        expected: list[str] = []
        for _ in range(rounds):
            process = await wait_until(lambda: holder(alone, "waits"), what="a call that waits")
            alive = keys.alive.key(PROJECT, process.decode())
            with stopped(old.process.pid):
                # It is handed to that call, whose claim ends before anybody hears of it.
                (lost,) = await add(caller, "lost")
                assert await held(caller) == 1
                async with Fleet(urls[1], project=PROJECT, agent="another") as another:
                    job = await anext(another.jobs())
                    async with job:
                        assert job.id == lost
                        await job.done()
                leases = await alone.command("KEYS", keys.leader_lease.key(keys.FLEET, "*"))
                for key in [*leases, alive] if rounds == 1 else leases:
                    await alone.command("PEXPIRE", key, 1)

                async def forgotten(alive: bytes = alive) -> bool:
                    return not await alone.command("EXISTS", alive)

                await wait_until(forgotten, what="the other to be presumed dead")
                (following,) = await add(caller, "goes on")
                expected.append(following)
            await wait_until(lambda: done == expected, what="the next item to be done")
            for item in (lost, following):
                ends = [one for one in (await seen(caller, item))["transitions"] if one["toRole"] == "terminal"]
                assert len(ends) == 1
        waits.stop()
        await work
    assert [one.end(timeout=END_SECONDS) for one in front_ends] == [0, 0]
