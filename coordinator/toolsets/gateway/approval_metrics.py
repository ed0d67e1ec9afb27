"""Metrics of the approvals that instances wait for. One front-end of the fleet counts them periodically."""

from __future__ import annotations

from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.store.fleet.leader_task import LeaderTask
from coordinator.store.projects.lists import ProjectList
from coordinator.toolsets.gateway.metrics import OLDEST_APPROVAL, OPEN_APPROVALS
from coordinator.toolsets.gateway.store.audit import AuditStore

PROJECTS = 1_000
"""In how many projects they are counted: those written to last. Others than these may still have open approvals, but
no list of projects has all of them: where nothing runs, a project leaves that of the workers."""


class ApprovalMetrics(LeaderTask):
    """Counts the open approvals of all projects, in one process of the fleet.

    Args:
        process: the name of this process, unique in the fleet.
    """

    def __init__(self, store: Store, settings: Settings, process: str) -> None:
        super().__init__(store, "count approvals", process)
        self._audit = AuditStore(store, settings)
        self._known = ProjectList(store, "known")

    async def _look(self) -> None:
        count, oldest = 0, 0
        for project in await self._known.ages(most=PROJECTS):
            if not await self._goes_on():
                return
            with self._store.others_go_on():
                if first := await self._audit.first_open(project):
                    count += int(await self._store.command("ZCARD", keys.gate_asked.key(project)))
                    oldest = min(oldest or first.asked_at, first.asked_at)
        age = (await self._store.time() - oldest) / 1000 if oldest else 0.0
        OPEN_APPROVALS.set(count)
        OLDEST_APPROVAL.set(max(age, 0.0))

    def _clear(self) -> None:
        OPEN_APPROVALS.set(0)
        OLDEST_APPROVAL.set(0)
