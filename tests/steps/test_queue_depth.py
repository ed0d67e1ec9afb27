"""Which process counts the queued steps, and what the others report."""

from __future__ import annotations

import pytest

from coordinator.metrics import MemoryCells, Recording
from coordinator.steps.metrics import STEPS_QUEUED
from coordinator.steps.queue_depth import QueueDepth
from tests.steps.rig import Rig
from tests.support.counts import counted, recorded_in

pytestmark = pytest.mark.anyio


class Process:
    """The counting part of a front-end."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.recording = Recording(MemoryCells(), name)
        self.depth = QueueDepth(rig.store, rig.worker.steps, name)

    async def round(self) -> float:
        """Its metric after a round."""
        with recorded_in(self.recording):
            await self.depth.round()
            return counted(STEPS_QUEUED)

    async def end(self) -> None:
        """As when the front-end ends."""
        await self.depth.stop()
        with recorded_in(self.recording):
            await self.depth.run()


async def test_one_process_counts_the_steps_of_all_projects_until_it_ends(rig: Rig) -> None:
    for project, flows in {"a": 2, "b": 1}.items():
        for _ in range(flows):
            await rig.create(project=project)
    first, second = Process(rig, "h/fe-0"), Process(rig, "h/fe-1")
    assert (await first.round(), await second.round()) == (3, 0)
    await rig.worker.take()
    assert (await first.round(), await second.round()) == (2, 0)
    await first.end()
    assert (await second.round(), await first.round()) == (2, 0)
