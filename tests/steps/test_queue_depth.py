"""Which process counts the queued steps, and what the others report."""

from __future__ import annotations

import pytest

from coordinator.metrics import Recorder
from coordinator.metrics.catalogue import STEPS_QUEUED
from coordinator.metrics.cells import MemoryCells
from coordinator.steps.queue_depth import QueueDepth
from tests.steps.rig import Rig
from tests.support.counts import counted

pytestmark = pytest.mark.anyio


class Process:
    """The counting part of a front-end."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.recorder = Recorder(MemoryCells(), name)
        self.depth = QueueDepth(rig.store, rig.worker.steps, self.recorder, name)

    async def round(self) -> float:
        """Its metric after a round."""
        await self.depth.round()
        return counted(STEPS_QUEUED, of=self.recorder)


async def test_one_process_counts_the_steps_of_all_projects_until_it_ends(rig: Rig) -> None:
    for project, flows in {"a": 2, "b": 1}.items():
        for _ in range(flows):
            await rig.create(project=project)
    first, second = Process(rig, "h/fe-0"), Process(rig, "h/fe-1")
    assert (await first.round(), await second.round()) == (3, 0)
    await rig.worker.take()
    assert (await first.round(), await second.round()) == (2, 0)
    first.depth.stop()
    await first.depth.run()
    assert (await second.round(), await first.round()) == (2, 0)
