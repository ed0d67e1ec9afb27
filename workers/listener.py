"""Brings work to an engine that has free slots.

The script that makes a step ready rings the bell of its queue. A bell is a list on which idle workers block, each with
one call for all of its queues. It wakes one worker. It only says that there may be work, so a lost ring loses no work.
A worker that has no free slot rings again for the others. An idle worker also polls once a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import redis.exceptions

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.steps.handoff import RQ_PREFIX
from coordinator.steps.store import Popped, QueuedJob, StepStore, Taken
from coordinator.steps.times import IDLE_POLL_SECONDS, STORE_RETRY_SECONDS
from coordinator.store import Store, StoreError
from coordinator.store.fences.known import Fenced
from workers.engine import Engine


class Listener:
    """Polls for work and waits for bells.

    Args:
        queue: the Redis that holds the queues.
        queues: the names of the queues, in the order in which they are served.
        own: the name of one more queue, which no other worker serves; empty: there is none.
        on_project: called with each project that pointers lead to.
    """

    def __init__(
        self,
        engine: Engine,
        steps: StepStore,
        queue: Store,
        queues: Sequence[str],
        on_project: Callable[[str], None] = lambda project: None,
        own: str = "",
    ) -> None:
        self._on_project = on_project
        self._engine = engine
        self._steps = steps
        self._queue = queue
        self._source = steps.take if steps.handoff.direct else self._pop
        self._warn = ThrottledWarnings()
        self._bells = [f"{RQ_PREFIX}:bell:{name}" for name in ([own] if own else []) + list(queues)]
        self._own_bell = f"{RQ_PREFIX}:bell:{own}".encode()

    async def run(self) -> None:
        while True:
            await self._engine.wait_for_capacity()
            try:
                if not await self._engine.take(self._source):
                    await self._wait()
            except (ToolFailure, StoreError, redis.exceptions.RedisError, OSError) as error:
                self._warn("take", "no work can be taken, trying again", reason=str(error))
                await asyncio.sleep(STORE_RETRY_SECONDS)

    async def _wait(self) -> None:
        """Waits for a bell, at most until the next poll is due."""
        rung = await self._queue.pop_first(self._bells, IDLE_POLL_SECONDS)
        if rung is not None and self._engine.want() == 0 and not self._engine.paused and rung[0] != self._own_bell:
            await self._queue.command("RPUSH", rung[0], 1)

    async def _pop(self, want: int) -> Taken:
        """Takes pointers from queues outside the store until some lead to work, and begins that work."""
        brought = Taken(0, [], [], [], False)
        while not (brought.steps or brought.plain_jobs) and (pointers := await self._steps.pop(want)):
            await self._begin(pointers, brought)
        return brought

    async def _begin(self, popped: Sequence[Popped], brought: Taken) -> None:
        """Leases the steps that the pointers lead to and adds them to ``brought``."""
        by_project: dict[str, list[Popped]] = {}
        for pointer in popped:
            by_project.setdefault(pointer.project, []).append(pointer)
        brought.plain_jobs = [QueuedJob(pointer.job, pointer.queue) for pointer in by_project.pop("", ())]
        for project in by_project:
            self._on_project(project)
        runs = await asyncio.gather(
            *(self._steps.begin(project, [one.job for one in pointers]) for project, pointers in by_project.items()),
            return_exceptions=True,
        )
        for pointers, begun in zip(by_project.values(), runs, strict=True):
            if isinstance(begun, Fenced) and begun.for_good:
                await asyncio.gather(*(self._steps.acknowledge(pointer) for pointer in pointers))
                continue
            if isinstance(begun, ToolFailure) and (self._steps.store.sharded or isinstance(begun, Fenced)):
                # Its shard is away, or it is being copied; others are not. A sweep finds what these pointers lead to.
                self._engine.lost_reply_of_store()
                self._warn("begin", "steps cannot be begun", reason=begun.message)
                continue
            if isinstance(begun, BaseException):
                raise begun
            brought.now = begun.now
            for step in begun.steps:
                spec = step.spec and step.spec + len(brought.specs)
                brought.steps.append(msgspec.structs.replace(step, spec=spec))
            brought.specs += begun.specs
            await asyncio.gather(*(self._steps.acknowledge(pointer) for pointer in pointers))
