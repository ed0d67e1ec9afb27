"""Metrics about items beyond single calls. One front-end of the fleet measures them periodically.

These are: the number of items in each role, the age of the oldest ready item, what is abandoned, quarantined, in back-
off, not ready before a time or overdue, attempts, how long claims were held, and how many callers lost the race for
each claim. Scripts that refuse or end claims count these in the project's keys. The measuring process fetches and
deletes the counts, so each claim is in the histogram of one process only.

It also notes when something ends in each project (``expiring``), which the process that claimed may have died before it
could.
"""

from __future__ import annotations

from collections import Counter

from coordinator.metrics import Recorder
from coordinator.store import Store
from coordinator.store.due_projects import DueProjects, Note
from coordinator.store.leader_task import LeaderTask
from coordinator.store.project_list import ProjectList
from coordinator.toolsets.items.store.measures import EMPTY_SECONDS, PROJECTS, MeasureStore


class ItemMetrics(LeaderTask):
    """Measures the items of all projects, in one process of the fleet.

    Args:
        process: the name of this process, unique in the fleet.
    """

    def __init__(self, store: Store, recorder: Recorder, process: str) -> None:
        super().__init__(store, "measure items", process)
        self._measures = MeasureStore(store)
        self._projects = ProjectList(store, "items")
        self._due = DueProjects(store)
        self._recorder = recorder
        self._using: set[str] = set()
        """Projects with usage."""

    async def _look(self) -> None:
        roles: Counter[str] = Counter()
        oldest = left_longest = 0.0
        left = quarantined = in_backoff = agents = drains = postponed = overdue = spent = 0
        ends: list[Note] = []
        for project, age in (await self._projects.ages(most=PROJECTS)).items():
            if not await self._goes_on():
                break
            found = await self._measures.measure(project)
            roles.update(found.roles)
            oldest = max(oldest, found.oldest_seconds)
            left += found.abandoned
            left_longest = max(left_longest, found.abandoned_seconds)
            for held in found.held:
                self._recorder.claims_held(held.end, held.counts, held.seconds)
            self._recorder.claim_losers(found.lost.counts, found.lost.losers)
            self._recorder.attempts(found.attempts, found.quarantines)
            quarantined += found.quarantined
            in_backoff += found.in_backoff
            postponed += found.postponed
            overdue += found.overdue
            spent += found.spent
            if found.usage:
                self._using.add(project)
                self._recorder.used.project(project, *found.usage)
            agents += found.agents
            drains += found.drains
            if found.next_end:
                ends.append((project, found.next_end, False))
            if not any(found.roles.values()) and age > EMPTY_SECONDS:
                await self._projects.forget(project, EMPTY_SECONDS)
        self._recorder.items(roles, oldest)
        self._recorder.abandoned(left, left_longest)
        self._recorder.held_back(quarantined, in_backoff)
        self._recorder.timed(postponed, overdue)
        self._recorder.used.spent_budgets(spent)
        self._recorder.agents(agents, drains)
        await self._due.take(0, 0, ends)

    def _clear(self) -> None:
        self._recorder.items(Counter(), 0.0)
        self._recorder.abandoned(0, 0.0)
        self._recorder.held_back(0, 0)
        self._recorder.timed(0, 0)
        self._recorder.used.spent_budgets(0)
        for project in self._using:
            self._recorder.used.project(project, 0, 0, 0, 0, 0)
        self._recorder.agents(0, 0)
