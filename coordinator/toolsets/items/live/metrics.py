"""Metrics about items beyond single calls. One front-end of the fleet measures them periodically.

These are: the number of items in each role, the age of the oldest ready item, what is abandoned, quarantined, in back-
off, not ready before a time or overdue, attempts, how long claims were held, how many callers lost the race for
each claim, what claims hold of the resources of the settings, and how much is spent of the budgets there. Scripts that
refuse or end claims count these in the project's keys. The measuring process fetches and deletes the counts, so each
claim is in the histogram of one process only.

It also notes when something ends in each project (``expiring``), which the process that claimed may have died before it
could.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

from coordinator.metrics import Recorder
from coordinator.metrics.resources import MODES
from coordinator.metrics.usage import PERIODS
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.due_projects import DueProjects, Note
from coordinator.store.leader_task import LeaderTask
from coordinator.store.project_list import ProjectList
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.store.measures import (
    EMPTY_SECONDS,
    PROJECTS,
    RESOURCES,
    MeasureStore,
    ResourceLevel,
)

Shares = dict[tuple[str, str], float]
"""The spent shares of budgets, by name and period."""


class ItemMetrics(LeaderTask):
    """Measures the items of all projects, in one process of the fleet.

    Args:
        process: the name of this process, unique in the fleet.
        settings: they name resources and budgets.
    """

    def __init__(self, store: Store, recorder: Recorder, process: str, settings: Settings) -> None:
        super().__init__(store, "measure items", process)
        self._measures = MeasureStore(store)
        self._projects = ProjectList(store, "items")
        self._due = DueProjects(store)
        self._recorder = recorder
        self._used: dict[str, tuple[int, ...]] = {}
        """What was last measured of usage, by project."""
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Takes the settings in force."""
        self._config = schema_config(settings)

    async def _look(self) -> None:
        roles: Counter[str] = Counter()
        oldest = left_longest = 0.0
        left = quarantined = in_backoff = agents = drains = postponed = overdue = spent = 0
        ends: list[Note] = []
        config, tokens, cost = self._config, 0, 0
        limits = config.resources.limits
        levels = {key: ResourceLevel.unused(limits[key]) for key in islice(limits, RESOURCES)}
        used: dict[str, tuple[int, ...]] = {}
        of_projects: Shares = {}
        of_agents: Shares = {}
        for project, age in (await self._projects.ages(most=PROJECTS)).items():
            if not await self._goes_on():
                break
            found = None
            with self._store.others_go_on():
                found = await self._measures.measure(project, config)
            if found is None:
                used |= {project: self._used[project]} if project in self._used else {}
                continue
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
                used[project] = found.usage
            if found.today:
                tokens, cost = tokens + found.today[0] + found.today[1], cost + found.today[3]
            for key, level in found.resources.items():
                levels[key] = levels[key].joined(level)
            _add_shares(of_projects, project, *found.budgets.project)
            for name, day, total in found.budgets.agents:
                _add_shares(of_agents, name, day, total)
            agents += found.agents
            drains += found.drains
            if found.next_end:
                ends.append((project, found.next_end, False))
            if not any(found.roles.values()) and age > EMPTY_SECONDS:
                await self._projects.forget(project, EMPTY_SECONDS)
        self._recorder.items(roles, oldest)
        self._recorder.abandoned(left, left_longest)
        self._recorder.held_back(quarantined, in_backoff)
        self._recorder.times.items(postponed, overdue)
        self._recorder.used.spent_budgets(spent)
        self._recorder.used.projects(used)
        self._used = used
        self._recorder.used.today(tokens, cost)
        self._recorder.used.budgets(of_projects, of_agents)
        self._record_levels(levels, config)
        self._recorder.agents(agents, drains)
        await self._due.take(0, 0, ends)

    def _record_levels(self, levels: Mapping[str, ResourceLevel], config: SchemaConfig) -> None:
        limits, record = config.resources.limits, self._recorder.resources
        record.capacity({key: limits[key].capacity for key in levels})
        held = {key: zip(MODES, (level.exclusive, level.shared), strict=True) for key, level in levels.items()}
        record.held({(key, mode): units for key, found in held.items() for mode, units in found})
        record.demand({key: (one.reservations, one.waiting, one.waited_ms / 1000) for key, one in levels.items()})
        record.left({key: level.left for key, level in levels.items() if level.left >= 0})

    def _clear(self) -> None:
        self._recorder.items(Counter(), 0.0)
        self._recorder.abandoned(0, 0.0)
        self._recorder.held_back(0, 0)
        self._recorder.times.items(0, 0)
        self._recorder.used.spent_budgets(0)
        self._recorder.used.today(0, 0)
        self._recorder.used.projects({})
        self._recorder.used.budgets({}, {})
        self._record_levels({}, self._config)
        self._recorder.agents(0, 0)


def _add_shares(shares: Shares, name: str, *found: float) -> None:
    """Adds the shares by period of a budget; -1: there is none."""
    for period, share in zip(PERIODS, found, strict=True):
        if share >= 0:
            shares[name, period] = max(share, shares.get((name, period), 0.0))
