"""Moves jobs from projects' outboxes to the queues, if these are in another Redis than the store.

A process that makes a step ready wakes the relay of one worker. The sweep finds missed jobs.
"""

from __future__ import annotations

import asyncio

import redis.exceptions

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.steps.store import RELAYED, StepStore
from coordinator.steps.times import IDLE_POLL_SECONDS, STORE_RETRY_SECONDS
from coordinator.store import Store, keys
from coordinator.store.errors import StoreError


class Relay:
    """Relays the jobs of any project.

    Args:
        store: the store that has the outboxes.
    """

    def __init__(self, steps: StepStore, store: Store) -> None:
        self._steps = steps
        self._store = store
        self._waiting: set[str] = set()
        self._news = asyncio.Event()
        self._warn = ThrottledWarnings()

    def tell(self, project: str) -> None:
        """Notes that the project's outbox has jobs."""
        self._waiting.add(project)
        self._news.set()

    async def run(self) -> None:
        """Relays until it is cancelled."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._listen(), name="relay-wakeups")
            both.create_task(self._move(), name="outbox-relay")

    async def _listen(self) -> None:
        while True:
            try:
                woken = await self._store.pop_first([keys.relay_wakeups.key(keys.FLEET)], IDLE_POLL_SECONDS)
            except (redis.exceptions.RedisError, OSError):
                await asyncio.sleep(STORE_RETRY_SECONDS)
            else:
                if woken is not None:
                    self.tell(woken[1].decode(errors="replace"))

    async def _move(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                project = self._waiting.pop()
                try:
                    while await self._steps.relay(project) == RELAYED:
                        pass
                except (ToolFailure, StoreError) as error:
                    if isinstance(error, ToolFailure) and error.kind == "permanent":
                        continue  # no project has such a name
                    self._warn("outbox", "jobs wait in the outbox, trying again", project=project, reason=str(error))
                    self.tell(project)
                    await asyncio.sleep(STORE_RETRY_SECONDS)
