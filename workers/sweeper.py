"""The sweep: expired leases, due timers, vanished jobs, and runs whose retention is over.

Every half second each worker tries to become the sweeper of this round. If the sweeper dies, another worker
takes the next round. The sweep of a project is one bounded script. Idle projects are swept less often, and in
the end not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from math import inf
from time import monotonic
from typing import Protocol

import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics import recorder
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.steps.store import QueuedJob, StepStore, Swept
from coordinator.steps.times import SWEEP_SECONDS
from coordinator.store.errors import StoreError

_log = structlog.get_logger(__name__)

ACTIVE_SECONDS = 90
"""How long after the last activity a project is swept in every round."""
SLOW_SECONDS = 30.0
"""How often all projects are swept."""
RECLAIM_SECONDS = 1.5
"""How long after a lost reply the steps that it brought are reclaimed. By then all other replies have arrived, so that
their steps are not mistaken for lost ones."""
ROUNDS = 10
"""How often the script runs for one project in one round, at most."""


class TidiesRuns(Protocol):
    """The part of a kind of run that the sweeper needs; see ``RunKind.tidy``."""

    async def tidy(self, project: str) -> bool:
        """Forgets runs whose retention is over. Returns whether no run is left to be forgotten later."""
        ...


class Sweeper:
    """Sweeps, taking turns with the other workers.

    Args:
        name: the name of this worker.
        held: returns the steps of a project that this worker holds.
        lost_reply: whether a reply that may have brought steps was lost since it was last called.
        on_outbox: called with a project when its outbox has jobs for the relay to move.
    """

    def __init__(
        self,
        name: str,
        steps: StepStore,
        kinds: Collection[TidiesRuns],
        held: Callable[[str], list[str]],
        lost_reply: Callable[[], bool],
        on_outbox: Callable[[str], None],
    ) -> None:
        self._name = name
        self._steps = steps
        self._kinds = kinds
        self._held = held
        self._lost_reply = lost_reply
        self._on_outbox = on_outbox
        self.slow_at = 0.0
        """When all projects are swept next, by ``monotonic``."""
        self._reclaim_at = inf
        self._active_until: dict[str, float] = {}
        """Until when a project counts as active, by ``monotonic``: the store's clock may be set forward meanwhile."""
        self._tidying: asyncio.Task[None] | None = None
        self._warn = ThrottledWarnings()

    async def run(self) -> None:
        """Sweeps until it is cancelled."""
        try:
            await self._run()
        finally:
            if self._tidying is not None:
                self._tidying.cancel()

    async def _run(self) -> None:
        while True:
            if self._lost_reply():
                self._reclaim_at = monotonic() + RECLAIM_SECONDS
            try:
                if monotonic() >= self._reclaim_at:
                    for project in await self._steps.projects.ages(ACTIVE_SECONDS):
                        await self._steps.reclaim(project, self._held(project))
                    self._reclaim_at = inf
                if await self._steps.acquire_sweep(self._name, round(SWEEP_SECONDS * 900)):
                    await self.round()
                else:
                    recorder().steps_queued(0)  # the worker that sweeps reports the number
            except (ToolFailure, StoreError) as error:
                self._warn("sweep", "nothing can be swept, trying again", reason=str(error))
            slept = monotonic()
            await asyncio.sleep(SWEEP_SECONDS)
            recorder().loop_lag("worker", max(0.0, monotonic() - slept - SWEEP_SECONDS))

    async def round(self) -> None:
        """Sweeps the active projects once, and every ``SLOW_SECONDS`` all projects.

        Raises:
            ToolFailure: ``store_full``, but only after every project was tried; others as ``StepStore`` says.
        """
        slow = monotonic() >= self.slow_at
        if slow:
            self.slow_at = monotonic() + SLOW_SECONDS
        queued, lost, idle, full = 0, 0, [], None
        listed = await self._steps.projects.ages(0 if slow else ACTIVE_SECONDS)
        now = monotonic()
        for project, age in listed.items():
            self._active_until[project] = max(now + ACTIVE_SECONDS - age, self._active_until.get(project, now))
        self._active_until = {project: until for project, until in self._active_until.items() if until > now}
        projects = [*dict.fromkeys([*listed, *self._active_until])]
        for project in projects:
            try:
                swept = await self._sweep(project)
            except StoreError:
                _log.exception("a project cannot be swept", project=project)
            except ToolFailure as failure:
                if failure.code != "store_full":
                    raise
                full = failure  # goes on: forgetting old runs frees memory
            else:
                queued += swept.queued
                lost += swept.lost
                if swept.idle:
                    idle.append(project)
        recorder().steps_queued(queued)
        if (lost or slow) and not self._steps.handoff.direct:
            await self._steps.drop_spent()
        if slow and (self._tidying is None or self._tidying.done()):
            # In a task of its own: it may take long, and expired leases must not wait for it.
            self._tidying = asyncio.create_task(self._tidy(projects, idle), name="tidy")
        if full is not None:
            raise full

    async def _sweep(self, project: str) -> Swept:
        swept = await self._steps.sweep(project)
        for _ in range(ROUNDS):
            recorder().step_leases_lost(swept.lost)
            if swept.lost:
                _log.warning("steps lost their worker and get another attempt", project=project, steps=swept.lost)
            if swept.suspects:
                await self._restore(project, swept.suspects)
            if not swept.more:
                break
            swept = await self._steps.sweep(project)
        if swept.to_relay:
            self._on_outbox(project)
        if not swept.idle:
            await self._steps.projects.note(project)
        return swept

    async def _tidy(self, projects: Sequence[str], idle: Collection[str]) -> None:
        """Lets each kind of run forget old runs. Drops idle projects in which nothing is left to forget."""
        for project in projects:
            try:
                if all([await kind.tidy(project) for kind in self._kinds]) and project in idle:
                    # A flow may begin at this very moment. Its front-end notes the project again soon.
                    await self._steps.projects.forget(project, ACTIVE_SECONDS)
            except (ToolFailure, StoreError) as error:
                _log.warning("a project could not be tidied", project=project, reason=str(error))

    async def _restore(self, project: str, suspects: list[QueuedJob]) -> None:
        missing = await self._steps.missing(project, suspects)
        if missing:
            _log.warning("jobs had vanished from their queue", project=project, jobs=len(missing))
            await self._steps.push(project, missing, force=True)
            recorder().step_jobs_restored(len(missing))
