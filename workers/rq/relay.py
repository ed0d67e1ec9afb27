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
from coordinator.store.fences.known import Fenced


class Relay:
    """Relays the jobs of any project.

    Args:
        store: the store that has the outboxes.
    """

    def __init__(self, steps: StepStore, store: Store) -> None:
        self._steps = steps
        self._store = store
        self._moving: dict[str, bool] = {}
        """The projects whose jobs are being moved, and whether there may be more since."""
        self._tasks: asyncio.TaskGroup | None = None
        self._warn = ThrottledWarnings()

    def tell(self, project: str) -> None:
        known = project in self._moving
        self._moving[project] = True
        if self._tasks is not None and not known:
            self._tasks.create_task(self._move(project), name=f"outbox-relay {project}")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            for project in self._moving:
                self._tasks.create_task(self._move(project), name=f"outbox-relay {project}")
            await self._listen()

    async def _listen(self) -> None:
        while True:
            try:
                woken = await self._store.pop_first([keys.relay_wakeups.key(keys.FLEET)], IDLE_POLL_SECONDS)
            except (redis.exceptions.RedisError, OSError):
                await asyncio.sleep(STORE_RETRY_SECONDS)
            else:
                if woken is not None:
                    self.tell(woken[1].decode(errors="replace"))

    async def _move(self, project: str) -> None:
        """Moves the jobs of one project, which may be on a shard that is away while others are not."""
        while self._moving[project]:
            self._moving[project] = False
            try:
                while await self._steps.relay(project) == RELAYED:
                    pass
            except (ToolFailure, StoreError) as error:
                if isinstance(error, ToolFailure) and error.kind == "permanent":
                    break  # no project has such a name
                if isinstance(error, Fenced) and error.for_good:
                    break
                self._warn("outbox", "jobs wait in the outbox, trying again", project=project, reason=str(error))
                self._moving[project] = True
                await asyncio.sleep(STORE_RETRY_SECONDS)
        del self._moving[project]
