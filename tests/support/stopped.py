"""Processes that stand still (SIGSTOP) for longer than what they hold, like those of a laptop that is closed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator.client import Fleet
from tests.client.backlog import add, held, notes, seen
from tests.support.fleets import RunningFleet, environment, scrape
from tests.support.wait import wait_until, wait_until_sync

LONG = "stands still"
"""The title of items at which processes stand still; they do others at once."""
END_SECONDS = 20.0
"""A process that goes on after it was stopped has ended so long after SIGTERM, on a busy machine."""


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stops a process while the block runs."""
    os.kill(pid, signal.SIGSTOP)
    wait_until_sync(lambda: _state(pid) == "T", what="the process to stand still")
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@contextmanager
def program(module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program of the tests, at most as long as the block."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def lose_claims(running: RunningFleet, project: str, pid: int, begun: Path, *, rounds: int, waits: bool) -> None:
    """Stops a process until another agent has got, and done, the item that it has; then it does the next one.

    Args:
        pid: does one item at a time.
        begun: where it writes a line when it begins an item, with the id.
        waits: whether it gets the item while it stands still, as the answer to a call that waits.
    """
    expected: list[str] = []

    def all_begun() -> bool:
        return _lines(begun) == expected

    async with Fleet(running.state.base_url, project=project) as fleet:
        for _ in range(rounds):
            if waits:
                await wait_until(lambda: _waiting(running), what="its call to wait")
            else:
                expected += await add(fleet, LONG)
                await wait_until(all_begun, what="the item to be begun")
            with stopped(pid):
                lost = expected[-1] if not waits else (await add(fleet, LONG))[0]
                assert await held(fleet) == 1
                async with Fleet(fleet.url, project=project, agent="another") as another:
                    # Waits until the claim has ended by the store's clock.
                    job = await anext(another.jobs())
                    async with job:
                        assert job.id == lost
                        await job.done("by another")
            (following,) = await add(fleet, "goes on")
            expected.append(following)

            async def done(item: str = following) -> bool:
                return (await seen(fleet, item))["role"] == "terminal"

            await wait_until(done, what="the slot to be free for the next item")
            assert all_begun(), "nothing is begun twice"
            assert [await _ends(fleet, one) for one in (lost, following)] == [1, 1]
            assert (await notes(fleet, lost))["result"] == "by another"


def _waiting(running: RunningFleet) -> bool:
    return any(value for name, value in scrape(running.port).items() if name.startswith("coordinator_agents_waiting"))


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def _ends(fleet: Fleet, item: str) -> int:
    return sum(one["toRole"] == "terminal" for one in (await seen(fleet, item))["transitions"])
