"""Periodic tasks of the whole fleet: rounds that fail, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import ServerError, Store, keys
from coordinator.store.fleet import leader_task
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.store.fleet.leader_task import LeaderTask
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


class Counting(LeaderTask):
    """Counts its rounds, which fail on demand."""

    def __init__(self, store: Store, failure: Exception | None = None) -> None:
        super().__init__(store, "counting", "one")
        self.rounds = 0
        self._failure = failure

    async def _look(self) -> None:
        self.rounds += 1
        if self._failure is not None:
            raise self._failure

    def _clear(self) -> None:
        pass


class Long(Counting):
    """A task whose rounds have several parts, with a hook after each."""

    def __init__(self, store: Store, *events: Callable[[], Awaitable[None]]) -> None:
        super().__init__(store)
        self.parts = 0
        self._events = events

    async def _look(self) -> None:
        for happens in self._events:
            if not await self._goes_on():
                return
            self.parts += 1
            await happens()


@pytest.mark.parametrize("failure", [ToolFailure("store_unavailable", "gone"), ServerError("ERR a defect")], ids=str)
async def test_a_failed_round_is_retried(alone: Store, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    monkeypatch.setattr(leader_task, "ROUND_SECONDS", 0.01)
    task = Counting(alone, failure)
    running = asyncio.create_task(task.run())
    await wait_until(lambda: task.rounds > 1)
    await task.stop()
    await running


async def test_it_pauses_between_rounds_and_gives_the_lease_back_when_stopped(
    alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_task, "ROUND_SECONDS", 3600)
    task, others = Counting(alone), LeaderLeases(alone)
    running = asyncio.create_task(task.run())
    await wait_until(lambda: task.rounds == 1)
    for _ in range(20):
        assert not await others.acquire("counting", "two", 1000)
    assert task.rounds == 1
    await task.stop()
    await running
    assert await others.acquire("counting", "two", 1000)


async def test_a_long_round_renews_the_lease_and_ends_when_it_is_lost(
    alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, key, rests = 1000.0, keys.leader_lease.key(keys.FLEET, "counting"), list[int]()
    monkeypatch.setattr(leader_task, "monotonic", lambda: now)

    async def passes(seconds: float) -> None:
        nonlocal now
        now += seconds
        rests.append(await alone.command("PTTL", key))
        await alone.command("PEXPIRE", key, 1000)

    async def is_lost() -> None:
        await passes(6.0)
        await alone.command("SET", key, "two")

    task = Long(alone, partial(passes, 1.0), partial(passes, 5.0), is_lost, partial(passes, 0.0))
    assert await task.round()
    assert task.parts == 3
    assert [rest > 1000 for rest in rests] == [True, False, True], "as taken, not renewed yet, renewed"
    assert not await task.round()


async def test_a_long_round_ends_when_stopped(alone: Store) -> None:
    async def is_told() -> None:
        await task.stop()

    task = Long(alone, is_told, is_told)
    assert await task.round()
    assert task.parts == 1


async def test_giving_a_lease_back_does_not_fail_while_the_store_is_away() -> None:
    await LeaderLeases(Store("redis://127.0.0.1:1")).release("counting", "one")
