"""The figures about items that no call can know: one front-end of the fleet has the store count them now and then.

How many items there are in each role, how old the oldest ready one is, how long claims were held and how
many lost the race for each: the scripts that refuse and end claims count in the project, whichever front-ends
they run for, and whoever measures takes these counts away, so that each claim is in one process's histogram.
"""

from __future__ import annotations

from collections import Counter

from coordinator.metrics import Recorder
from coordinator.store import Store
from coordinator.store.leader_task import LeaderTask
from coordinator.store.project_list import ProjectList
from coordinator.toolsets.items.store.measures import EMPTY_SECONDS, PROJECTS, MeasureStore


class ItemMetrics(LeaderTask):
    """Measures the items of all projects in one process of the fleet.

    Args:
        process: its name, which no other process of the fleet has.
    """

    def __init__(self, store: Store, recorder: Recorder, process: str) -> None:
        super().__init__(store, "measure items", process)
        self._measures = MeasureStore(store)
        self._projects = ProjectList(store, "items")
        self._recorder = recorder

    async def _look(self) -> None:
        roles: Counter[str] = Counter()
        oldest = 0.0
        for project, age in (await self._projects.ages(most=PROJECTS)).items():
            if not await self._goes_on():
                break
            found = await self._measures.measure(project)
            roles.update(found.roles)
            oldest = max(oldest, found.oldest_seconds)
            for held in found.held:
                self._recorder.claims_held(held.end, held.counts, held.seconds)
            self._recorder.claim_losers(found.lost.counts, found.lost.losers)
            if not any(found.roles.values()) and age > EMPTY_SECONDS:
                await self._projects.forget(project, EMPTY_SECONDS)
        self._recorder.items(roles, oldest)

    def _clear(self) -> None:
        self._recorder.items(Counter(), 0.0)
