"""Which process counts open approvals, and what the others report."""

from __future__ import annotations

import pytest

from coordinator.metrics import MemoryCells, Recording
from coordinator.store import Store, keys
from coordinator.store.projects.lists import ProjectList
from coordinator.toolsets.gateway.approval_metrics import ApprovalMetrics
from coordinator.toolsets.gateway.metrics import OLDEST_APPROVAL, OPEN_APPROVALS
from tests.gateway.lab import Lab, section, settings_of
from tests.gateway.workflows import APPROVAL
from tests.support.counts import counted, recorded_in

pytestmark = pytest.mark.anyio


class Process:
    """The counting part of a front-end."""

    def __init__(self, store: Store, name: str) -> None:
        self.recording = Recording(MemoryCells(), name)
        self.metrics = ApprovalMetrics(store, settings_of(section(), "p"), name)

    async def round(self) -> tuple[float, float]:
        """Its metrics after a round."""
        with recorded_in(self.recording):
            await self.metrics.round()
            return counted(OPEN_APPROVALS), counted(OLDEST_APPROVAL)


async def test_one_process_counts_the_open_approvals_of_all_projects(alone: Store) -> None:
    labs = [Lab(alone, project, settings_of(section(workflows={"w": APPROVAL}), project)) for project in ("a", "b")]
    try:
        asked = []
        for lab, wanted in zip(labs, (2, 1), strict=True):
            await ProjectList(alone, "known").note(lab.project)
            asked += [await lab.follow(await lab.start("w"), "ask") for _ in range(wanted)]
        await ProjectList(alone, "known").note("without")
        oldest = asked[0]["pendingHuman"][0]["requestId"]
        await alone.command("ZINCRBY", keys.gate_asked.key("a"), -3_600_000, oldest)
        await alone.command("HINCRBY", keys.gate_approval.key("a", oldest), "t", -3_600_000)
        counting, other = Process(alone, "h/fe-0"), Process(alone, "h/fe-1")
        count, age = await counting.round()
        assert (count, 3_600 <= age < 3_700) == (3, True)
        assert await other.round() == (0, 0)
        await labs[0].as_("bo", "human").follow(asked[0], "approve")
        count, age = await counting.round()
        assert (count, age < 3_600) == (2, True)
        for lab, one in ((labs[0], asked[1]), (labs[1], asked[2])):
            await lab.follow(one, "drop")
        assert await counting.round() == (0, 0)
    finally:
        for lab in labs:
            await lab.close()
