"""Counts the steps that wait for a worker. Runs in front-ends, because the metric must work without any worker."""

from __future__ import annotations

from coordinator.steps.metrics import STEPS_QUEUED
from coordinator.steps.store import StepStore
from coordinator.store import Store
from coordinator.store.fleet.leader_task import LeaderTask


class QueueDepth(LeaderTask):
    """Counts the steps of all projects, in one process of the fleet.

    Args:
        process: the name of this process, unique in the fleet.
    """

    def __init__(self, store: Store, steps: StepStore, process: str) -> None:
        super().__init__(store, "count steps", process)
        self._steps = steps

    async def _look(self) -> None:
        waiting = 0
        for project in await self._steps.projects.ages():
            if not await self._goes_on():
                return
            with self._store.others_go_on():
                waiting += await self._steps.queued(project)
        STEPS_QUEUED.set(waiting)

    def _clear(self) -> None:
        STEPS_QUEUED.set(0)
