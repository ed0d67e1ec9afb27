"""What pages read of the fleet and of a project in numbers, for all tabs of the process together."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from coordinator.console.inbox.waiting import KINDS, TOOLSET, Kind, count_waiting
from coordinator.console.numbers.searches import search
from coordinator.console.numbers.spent import Held, held
from coordinator.console.view import Visit
from coordinator.metrics.conditions import Holding, holding
from coordinator.store import keys
from coordinator.store.facts import StoreFacts, read_facts
from coordinator.store.fleet.drains import Drains
from coordinator.store.fleet.processes import Process, Processes, ProcessStatus, Role, read_processes
from coordinator.toolsets.flows import FlowReads, FlowStatus, administers
from coordinator.toolsets.items import (
    DAY_ROWS,
    HOUR_ROWS,
    ProjectState,
    Samples,
    Wanted,
    read_project_state,
    read_samples,
)

SILENT_SECONDS = 10
"""A process that has not reported for so long hangs, or is gone; it reports every 5 s."""
FACTS_SECONDS = 3.0
CONDITIONS_SECONDS = 10.0
RECENT_ROWS = 30
"""Samples of the last five minutes, from which present rates are taken."""
_OF_PROJECTS = frozenset(("project", "webhook"))
"""Labels that say something about a project."""
_STATUSES: tuple[FlowStatus, ...] = ("running", "paused", "failed")


class FleetState(NamedTuple):
    processes: Processes
    drains: dict[str, int]
    """Scopes that are drained, and since when."""

    def running(self, role: Role) -> list[tuple[Process, ProcessStatus]]:
        return [
            (run, run.status) for run in self.processes.running if run.status is not None and run.status.role == role
        ]

    def is_silent(self, process: Process) -> bool:
        """Whether a process has not reported in time."""
        return process.status is None or self.processes.now // 1000 - process.noted_at > SILENT_SECONDS


async def fleet_state(visit: Visit) -> FleetState:
    """The processes of the fleet, and what is drained; one round trip. Raises ToolFailure."""
    store = visit.reads.store

    async def read() -> FleetState:
        return FleetState(*await asyncio.gather(read_processes(store), Drains(store).read()))

    return await visit.reads.vital("fleet state", read)


async def store_facts(visit: Visit) -> StoreFacts:
    """Facts of the store. Raises ToolFailure."""
    return await visit.reads.vital("store facts", lambda: read_facts(visit.reads.store), FACTS_SECONDS)


async def held_conditions(visit: Visit) -> list[Holding]:
    """The states that alerts are about and that hold on this host, as far as the viewer may see them."""

    async def read() -> list[Holding]:
        return list(holding(await asyncio.to_thread(visit.reads.samples)))

    known = await visit.reads.shared("conditions", read, CONDITIONS_SECONDS)
    viewer = visit.viewer
    if viewer.projects is None:
        return known
    return [one for one in known if viewer.sees(one.labels.get("project", "")) or _OF_PROJECTS.isdisjoint(one.labels)]


class Flows(NamedTuple):
    running: int
    paused: int
    failed: int


class ProjectNumbers(NamedTuple):
    state: ProjectState
    samples: Samples
    flows: Flows | None
    """None: the viewer may not see all workflows."""
    queued_steps: int
    """Steps that wait for a worker."""
    asks: dict[Kind, int]
    """What waits for a person."""
    fleet: FleetState
    held: Held
    available: tuple[int, bool]
    """Items in the queue that are ready and that no spent budget holds back; and whether there may be more."""


async def project_numbers(visit: Visit, day: bool) -> ProjectNumbers:
    """A project in numbers; three round trips. Raises ToolFailure.

    Args:
        day: whether samples of the last day are read, and not those of the last hour.
    """
    store, project, viewer = visit.reads.store, visit.project, visit.viewer
    kinds = [kind for kind in KINDS if viewer.reads(TOOLSET[kind])]
    sees_flows = viewer.reads("flows") and administers(viewer.caller)

    async def flows() -> Flows | None:
        if not sees_flows:
            return None
        counts = (FlowReads(store).count(project, status=status) for status in _STATUSES)
        return Flows(*(size or 0 for size in await asyncio.gather(*counts)))

    async def read() -> tuple[ProjectState, Samples, Flows | None, int, dict[Kind, int]]:
        reading: tuple[ProjectState, Samples, Flows | None, int, dict[Kind, int]] = await asyncio.gather(
            read_project_state(store, project, visit.reads.config),
            read_samples(store, project, *((RECENT_ROWS, DAY_ROWS) if day else (HOUR_ROWS, 1))),
            flows(),
            store.command("ZCARD", keys.step_queue.key(project)),
            count_waiting(store, project, viewer.caller, kinds=kinds),
        )
        return reading

    numbers, fleet, budgets = await asyncio.gather(visit.reads.admitted(project, read), fleet_state(visit), held(visit))
    return ProjectNumbers(*numbers, fleet, budgets, await _available(visit, numbers[0].ready, budgets))


async def _available(visit: Visit, ready: int, budgets: Held) -> tuple[int, bool]:
    if budgets.project is not None:
        return 0, False
    if not budgets.of("item"):
        return ready, False
    hits = await search(visit, Wanted(role="queue", state="available"))
    return sum(not row.spent for row in hits.rows), hits.more
