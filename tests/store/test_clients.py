"""The end of tasks that use a client of Redis."""

from __future__ import annotations

import asyncio

import pytest

from coordinator import service
from coordinator.service import end_tasks

pytestmark = pytest.mark.anyio


async def test_a_task_that_loses_cancellations_is_cancelled_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CANCEL_AGAIN_SECONDS", 0.001)
    lost = 0

    async def try_for_ever() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    async def fail() -> None:
        raise ConnectionError("the server is gone")

    stubborn, failed = asyncio.ensure_future(try_for_ever()), asyncio.ensure_future(fail())
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await end_tasks(stubborn, failed)
    assert stubborn.cancelled()
    assert failed.done()
    assert lost == 3


async def test_no_tasks_end_at_once() -> None:
    await end_tasks()
