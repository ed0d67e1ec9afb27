"""Periodic tasks of the whole fleet: rounds that fail, and the end."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, leader_task
from coordinator.store.leader_lease import LeaderLeases
from coordinator.store.leader_task import LeaderTask
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


class Counting(LeaderTask):
    """Counts its rounds; they fail if it is told so."""

    def __init__(self, store: Store, fails: bool) -> None:
        super().__init__(store, "counting", "one")
        self.rounds = 0
        self._fails = fails

    async def _look(self) -> None:
        self.rounds += 1
        if self._fails:
            raise ToolFailure("store_unavailable", "gone")

    def _clear(self) -> None:
        pass


async def test_a_round_that_fails_is_made_again(alone: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_task, "ROUND_SECONDS", 0.01)
    task = Counting(alone, fails=True)
    running = asyncio.create_task(task.run())
    await wait_until(lambda: task.rounds > 1)
    task.stop()
    await running


async def test_it_rests_between_rounds_and_gives_the_lease_back_when_it_is_stopped(
    alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_task, "ROUND_SECONDS", 3600)
    task, others = Counting(alone, fails=False), LeaderLeases(alone)
    running = asyncio.create_task(task.run())
    await wait_until(lambda: task.rounds == 1)
    for _ in range(20):
        assert not await others.acquire("counting", "two", 1000)
    assert task.rounds == 1
    task.stop()
    await running
    assert await others.acquire("counting", "two", 1000)
