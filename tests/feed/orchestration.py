"""An orchestrator that gives 200 items to 20 agents and waits for them, over the front-ends of a fleet."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import time

from coordinator.client import Fleet, Job, Observer
from coordinator.client.calls import WAIT_MS
from tests.support.fleets import RunningFleet, scrape
from tests.support.wait import wait_until

ITEMS, AGENTS = 200, 20
_BROKEN = (OSError, http.client.HTTPException, AssertionError, ValueError, KeyError)
"""What a request raises if its front-end or the store was killed."""


class Waits(Observer):
    """How many calls of the orchestrator were answered, and how many were broken or refused."""

    def __init__(self) -> None:
        self.answers = self.failures = 0

    def answered(self, tool: str, seconds: float) -> None:
        self.answers += 1

    def retried(self, failure: Exception) -> None:
        self.failures += 1


def waiting(port: int) -> float:
    """How many reads wait; -1 if nobody can say."""
    try:
        found = scrape(port)
    except _BROKEN:
        return -1
    return sum(value for name, value in found.items() if name.startswith("coordinator_reads_waiting"))


async def work_off(fleet: RunningFleet, *victims: str) -> None:
    """Has a tree worked off, kills these meanwhile, and checks what that took the orchestrator."""
    url, waits, done = fleet.state.base_url, Waits(), 0

    async def work(job: Job) -> None:
        nonlocal done
        await job.done()
        done += 1

    async with Fleet(url, observer=waits, kind="orchestrator") as boss, Fleet(url) as workers:
        made = await workers.call("manage_items", {"operation": "create", "items": [{"title": "root"}]})
        root = made["items"][0]["id"]
        items = [{"title": f"task {number}", "parentId": root} for number in range(ITEMS)]
        await workers.call("manage_items", {"operation": "create", "items": items})
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            finished = tasks.create_task(boss.tree(root).finished())
            await wait_until(lambda: waiting(fleet.port) == 1, what="the orchestrator's wait")
            tasks.create_task(workers.work(work, slots=AGENTS, signals=False, parent=root, until=workers.tree(root)))
            for number, victim in enumerate(victims, start=1):
                enough = number * ITEMS // (len(victims) + 2)
                await wait_until(lambda: done >= enough, what="some work")  # noqa: B023
                pid = fleet.state.store_pid if victim == "store" else fleet.pid(victim)
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                await wait_until(lambda: pid not in fleet.pids, what="its end")  # noqa: B023
        took = time.monotonic() - began
        assert (await workers.call("get_context", {"itemId": root}))["item"]["role"] == "terminal"
    assert finished.result()["terminal"] == ITEMS
    # One for each wait; one that a kill broke, or that was refused until the store was back, counts as a failure.
    assert waits.answers <= 1 + took // (0.94 * WAIT_MS / 1000)
    assert waits.failures <= 30 * len(victims)
    await wait_until(lambda: waiting(fleet.port) == 0, what="no wait")
