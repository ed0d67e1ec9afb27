"""Workers while front-ends are killed, and workers that are cancelled at every point."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest

from coordinator.client import Fleet
from coordinator.client.wire import Wire
from tests.client.backlog import add, held, seen
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


def front_ends(running: RunningFleet) -> dict[str, int]:
    return {one.slot: one.pid for one in running.state.processes if one.role == "frontend" and one.ready and one.pid}


async def completions(fleet: Fleet, item: str) -> int:
    """How often an item was finished."""
    return sum(one["toRole"] == "terminal" for one in (await seen(fleet, item))["transitions"])


async def test_each_item_is_done_once_while_front_ends_are_killed(running: RunningFleet, named: str) -> None:
    done: list[str] = []
    killed: list[int] = []

    async def worker(number: int, tree: str) -> None:
        async with Fleet(running.state.base_url, project=named, agent=f"worker-{number}") as own:
            async for job in own.jobs(ttl=3, until=own.tree(tree)):
                async with job:
                    await job.note("by", str(number))
                    if len(done) >= 4 and not killed:
                        killed.extend(front_ends(running).values())
                        for pid in killed:
                            os.kill(pid, signal.SIGKILL)
                    await job.done(job.title)
                    done.append(job.title)

    async with Fleet(running.state.base_url, project=named) as fleet:
        steps = [[{"title": f"{row}{n}", "after": [f"{row}{n - 1}"] if n else []} for n in range(5)] for row in "abc"]
        tree = await fleet.plan({"title": "all", "children": [step for row in steps for step in row]})
        async with asyncio.timeout(90):
            await asyncio.gather(*(worker(number, tree.id) for number in range(4)))
        assert len(killed) == 2
        assert sorted(done) == sorted(f"{row}{n}" for row in "abc" for n in range(5))
        assert [await completions(fleet, item) for item in tree.ids.values()] == [1] * 16
        assert set((await tree.results()).values()) == {*done}
        assert await held(fleet) == 0
        await wait_until(lambda: len(front_ends(running)) == 2, what="both front-ends")


@pytest.mark.parametrize("moment", ["before", "during", "after"])
async def test_a_worker_that_is_cancelled_at_any_call_holds_nothing_and_loses_nothing(
    running: RunningFleet, named: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    call = Wire.call
    calls = cut_at = 0
    current: list[asyncio.Task[None]] = []

    async def counted(*arguments: Any) -> dict[str, Any]:
        nonlocal calls
        calls += (ours := threading.current_thread() is threading.main_thread())
        cut = [task.cancel for task in current if ours and calls == cut_at]
        for cancel in cut:
            if moment == "before":
                cancel()
            elif moment == "during":
                asyncio.get_running_loop().call_soon(cancel)
        answer = await call(*arguments)
        if moment == "after":
            for cancel in cut:
                cancel()
        return answer

    async def work() -> None:
        async with Fleet(running.state.base_url, project=named, slots=2) as worker:
            async for job in worker.jobs(wait=False):
                async with job:
                    await job.note("plan", "x")
                    await job.done("result")

    items: list[str] = []
    while True:
        items += await add(fleet, "one", "two")
        monkeypatch.setattr(Wire, "call", counted)
        calls, cut_at = 0, cut_at + 1
        current.append(asyncio.create_task(work()))
        await asyncio.wait(current)
        was_cut = calls >= cut_at
        assert current.pop().cancelled() == was_cut, f"cut at call {cut_at}"
        monkeypatch.setattr(Wire, "call", call)
        assert await held(fleet) == 0, f"cut at call {cut_at}"
        await work()
        assert [await completions(fleet, item) for item in items[-2:]] == [1, 1], f"cut at call {cut_at}"
        assert await held(fleet) == 0
        if not was_cut:
            break
    assert cut_at > 6
