"""Time limits for many short tasks, without a timer for each.

A timer per request would cost more than all protocol checks together. Instead each task registers its deadline, and
one sweep checks all of them at a fixed interval. So a task may overrun its deadline by up to one interval.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any


class Deadlines:
    """The limits of the tasks of one event loop.

    Args:
        interval: seconds between two sweeps.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._until: dict[asyncio.Task[Any], float] = {}
        self._expired: set[asyncio.Task[Any]] = set()
        self._sweeping = False

    def start(self, until: float) -> asyncio.Task[Any]:
        """Cancels the current task at ``until`` (of ``perf_counter``) unless it is stopped before."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task")
        self._until[task] = until
        if not self._sweeping:
            self._sweep_later()
        return task

    def stop(self, task: asyncio.Task[Any]) -> None:
        if self._until.pop(task, None) is None:
            self._expired.discard(task)

    def expired(self, task: asyncio.Task[Any]) -> bool:
        """Whether the ``CancelledError`` that ``task`` has just caught came from its limit, and from nowhere else.

        If so, the cancellation is undone, and the task continues as after a timeout.
        """
        return task in self._expired and task.uncancel() == 0

    def _sweep_later(self) -> None:
        self._sweeping = True
        asyncio.get_running_loop().call_later(self._interval, self._sweep)

    def _sweep(self) -> None:
        now = perf_counter()
        late = [task for task, until in self._until.items() if until < now]
        for task in late:
            del self._until[task]
            self._expired.add(task)
            task.cancel()
        self._sweeping = False
        if self._until:
            self._sweep_later()
