"""Waiting reads that have found nothing yet."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from coordinator.feed.waits import Waits
from tests.support.wait import wait_until

T = TypeVar("T")


async def parked(room: Waits, wait: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begins a wait, and returns once it was read and goes on."""
    before = room.begun
    task = asyncio.create_task(wait)
    await wait_until(lambda: task.done() or (room.begun > before and room.settled))
    assert not task.done(), task.result()
    return task
