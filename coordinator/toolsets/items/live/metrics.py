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

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice

from coordinator.metrics import Gauge
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.fleet.leader_task import LeaderTask
from coordinator.store.projects.due import DueProjects, Note
from coordinator.store.projects.lists import ProjectList
from coordinator.toolsets.items.metrics import levels, usage
from coordinator.toolsets.items.metrics.claims import ATTEMPTS, CLAIM_HOLD, CLAIM_LOSERS, QUARANTINES
from coordinator.toolsets.items.metrics.resources import CAPACITY, HELD, LEFT, MODES, RESERVATIONS, WAITED, WAITING
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.store.measures.items import (
    EMPTY_SECONDS,
    PROJECTS,
    RESOURCES,
    MeasureStore,
    ResourceLevel,
)

_LEVELS = (
    levels.OLDEST_READY,
    levels.ABANDONED,
    levels.OLDEST_ABANDONED,
    levels.QUARANTINED,
    levels.IN_BACKOFF,
    levels.POSTPONED,
    levels.OVERDUE,
    usage.SPENT,
    levels.AGENTS_KNOWN,
    levels.AGENT_DRAINS,
    usage.TODAY_TOKENS,
    usage.TODAY_COST,
)
"""Gauges of one number for the whole fleet."""
Shares = dict[tuple[str, str], float]
"""The spent shares of budgets, by name and period."""


class ItemMetrics(LeaderTask):
    """Measures the items of all projects, in one process of the fleet.

    Args:
        process: the name of this process, unique in the fleet.
        settings: they name resources and budgets.
    """

    def __init__(self, store: Store, process: str, settings: Settings) -> None:
        super().__init__(store, "measure items", process)
        self._measures = MeasureStore(store)
        self._projects = ProjectList(store, "items")
        self._due = DueProjects(store)
        self._used: dict[str, tuple[int, ...]] = {}
        """What was last measured of usage, by project."""
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        self._config = schema_config(settings)

    async def _look(self) -> None:
        roles: Counter[str] = Counter()
        totals: defaultdict[Gauge, float] = defaultdict(float)
        ends: list[Note] = []
        config = self._config
        limits = config.resources.limits
        resources = {key: ResourceLevel.unused(limits[key]) for key in islice(limits, RESOURCES)}
        used: dict[str, tuple[int, ...]] = {}
        of_projects: Shares = {}
        of_agents: Shares = {}
        for project, age in (await self._projects.ages(most=PROJECTS)).items():
            if not await self._goes_on():
                break
            measured = None
            with self._store.others_go_on():
                measured = await self._measures.measure(project, config)
            if measured is None:
                used |= {project: self._used[project]} if project in self._used else {}
                continue
            roles.update(measured.roles)
            for gauge, longest in (
                (levels.OLDEST_READY, measured.oldest_seconds),
                (levels.OLDEST_ABANDONED, measured.abandoned_seconds),
            ):
                totals[gauge] = max(totals[gauge], longest)
            totals[levels.ABANDONED] += measured.abandoned
            for held in measured.held:
                CLAIM_HOLD.labels(held.end).add(held.counts, held.seconds)
            CLAIM_LOSERS.labels().add(measured.lost.counts, measured.lost.losers)
            for end, count in measured.attempts.items():
                ATTEMPTS.labels(end).inc(count)
            QUARANTINES.inc(measured.quarantines)
            totals[levels.QUARANTINED] += measured.quarantined
            totals[levels.IN_BACKOFF] += measured.in_backoff
            totals[levels.POSTPONED] += measured.postponed
            totals[levels.OVERDUE] += measured.overdue
            totals[usage.SPENT] += measured.spent
            totals[levels.AGENTS_KNOWN] += measured.agents
            totals[levels.AGENT_DRAINS] += measured.drains
            if measured.usage:
                used[project] = measured.usage
            if measured.today:
                totals[usage.TODAY_TOKENS] += measured.today[0] + measured.today[1]
                totals[usage.TODAY_COST] += measured.today[3]
            for key, level in measured.resources.items():
                resources[key] = resources[key].joined(level)
            _add_shares(of_projects, project, *measured.budgets.project)
            for name, day, total in measured.budgets.agents:
                _add_shares(of_agents, name, day, total)
            if measured.next_end:
                ends.append((project, measured.next_end, False))
            if not any(measured.roles.values()) and age > EMPTY_SECONDS:
                await self._projects.forget(project, EMPTY_SECONDS)
        _record(roles, totals, used)
        self._used = used
        usage.PROJECT_BUDGET.set_all(of_projects)
        usage.AGENT_BUDGET.set_all(of_agents)
        _record_resources(resources, config)
        await self._due.take(0, 0, ends)

    def _clear(self) -> None:
        _record(Counter(), defaultdict(float), {})
        usage.PROJECT_BUDGET.set_all({})
        usage.AGENT_BUDGET.set_all({})
        _record_resources({}, self._config)


def _record(roles: Counter[str], totals: defaultdict[Gauge, float], used: Mapping[str, Sequence[int]]) -> None:
    """Records the items by role, the values of ``_LEVELS``, and what was used in each project since it began: input,
    output and cached tokens, micro-USD, ms."""
    for role in levels.ITEMS.dimensions[0].values:
        levels.ITEMS.labels(role).set(roles[role])
    for gauge in _LEVELS:
        gauge.set(totals[gauge])
    usage.TOKENS.set_all(
        {(project, kind): sums[n] for project, sums in used.items() for n, kind in enumerate(usage.KINDS)}
    )
    usage.COST.set_all({(project,): sums[3] for project, sums in used.items()})
    usage.SECONDS.set_all({(project,): sums[4] / 1000 for project, sums in used.items()})


def _record_resources(resources: Mapping[str, ResourceLevel], config: SchemaConfig) -> None:
    limits = config.resources.limits
    CAPACITY.set_all({(key,): limits[key].capacity for key in resources})
    held = {key: zip(MODES, (level.exclusive, level.shared), strict=True) for key, level in resources.items()}
    HELD.set_all({(key, mode): units for key, by_mode in held.items() for mode, units in by_mode})
    RESERVATIONS.set_all({(key,): level.reservations for key, level in resources.items()})
    WAITING.set_all({(key,): level.waiting for key, level in resources.items()})
    WAITED.set_all({(key,): level.waited_ms / 1000 for key, level in resources.items()})
    LEFT.set_all({(key,): level.left for key, level in resources.items() if level.left >= 0})


def _add_shares(shares: Shares, name: str, *measured: float) -> None:
    """Adds the shares by period of a budget; -1: there is none."""
    for period, share in zip(usage.PERIODS, measured, strict=True):
        if share >= 0:
            shares[name, period] = max(share, shares.get((name, period), 0.0))
