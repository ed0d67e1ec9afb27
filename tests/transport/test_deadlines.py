"""Deadlines that share one timer: which tasks are cancelled, and cleanup."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest

from coordinator.transport.deadlines import Deadlines
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

INTERVAL = 0.0123
"""An interval that no other timer of these tests has."""


async def limited(deadlines: Deadlines, seconds: float, gate: asyncio.Event) -> bool:
    """Waits for the gate with a deadline; returns whether it expired."""
    task = deadlines.start(perf_counter() + seconds)
    try:
        await gate.wait()
    except asyncio.CancelledError:
        if not deadlines.expired(task):
            raise
        return True
    finally:
        deadlines.stop(task)
    return False


async def test_only_late_tasks_are_cancelled() -> None:
    deadlines, gate = Deadlines(INTERVAL), asyncio.Event()
    patient = asyncio.create_task(limited(deadlines, 3600, gate))
    assert await asyncio.create_task(limited(deadlines, 0.02, gate))
    assert not patient.done()
    gate.set()
    assert not await patient


async def test_tasks_share_timers_and_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, planned, over = asyncio.get_running_loop(), list[int](), list[int]()
    call_later = loop.call_later

    def counting(delay: float, callback: Callable[..., object], *args: Any, **more: Any) -> asyncio.TimerHandle:
        if delay != INTERVAL:
            return call_later(delay, callback, *args, **more)

        def counted() -> None:
            callback(*args)
            over.append(1)

        planned.append(1)
        return call_later(delay, counted)

    monkeypatch.setattr(loop, "call_later", counting)
    deadlines, gate = Deadlines(INTERVAL), asyncio.Event()
    tasks = [asyncio.create_task(limited(deadlines, 3600, gate)) for _ in range(50)]
    tasks.append(asyncio.create_task(limited(deadlines, 0, asyncio.Event())))
    gate.set()
    late = [await task for task in tasks]
    assert late == [False] * 50 + [True]
    assert 0 < len(planned) < 50, "a timer for each"
    await wait_until(lambda: len(over) == len(planned), what="the last sweep")
    left = [weakref.ref(task) for task in tasks]
    tasks.clear()
    await asyncio.sleep(0)  # one loop iteration, until the loop drops the last task
    gc.collect()
    assert not [task for one in left if (task := one()) is not None]
