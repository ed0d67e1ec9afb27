"""The sweep: expired leases, due timers, vanished jobs, and runs whose retention is over.

Every half second each worker tries to become the sweeper of this round. If the sweeper dies, another worker
takes the next round. The sweep of a project is one bounded script. Idle projects are swept less often, and in
the end not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from math import inf
from time import monotonic
from typing import Protocol

import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics import process
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.steps.metrics import STEPS_QUEUED
from coordinator.steps.store import QueuedJob, StepStore, Swept
from coordinator.steps.times import RENEW_SECONDS, SWEEP_SECONDS
from coordinator.store.errors import StoreError
from coordinator.store.fences.known import Fenced
from workers.metrics import STEP_JOBS_RESTORED, STEP_LEASES_LOST

_log = structlog.get_logger(__name__)

ACTIVE_SECONDS = 90
"""How long after the last activity a project is swept in every round."""
SLOW_SECONDS = 30.0
"""How often all projects are swept."""
RECLAIM_SECONDS = 1.5
"""How long after a lost reply the steps that it brought are reclaimed. By then all other replies have arrived, so that
their steps are not mistaken for lost ones."""
BACK_SECONDS = RENEW_SECONDS + 1.0
"""How long the projects of a shard that was away are not swept: until then, workers have renewed their leases."""
ROUNDS = 10
"""How often the script runs for one project in one round, at most."""


class TidiesRuns(Protocol):
    """The part of a kind of run that the sweeper needs; see ``RunKind.tidy``."""

    async def tidy(self, project: str) -> bool:
        """Forgets runs whose retention is over. Returns whether no run is left to be forgotten later."""
        ...


class _Part:
    """What the sweep of one shard's projects has found."""

    def __init__(self) -> None:
        self.queued = self.lost = 0
        self.idle: list[str] = []
        self.failure: ToolFailure | None = None


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
        self._listed: dict[str, int] = {}
        """In a cluster, the list of projects when it was read last: its shard may be away while others are not."""
        self._warn = ThrottledWarnings()

    def note(self, project: str) -> None:
        """Notes that the project is active: in a cluster, the list that says so may be away."""
        self._active_until[project] = monotonic() + ACTIVE_SECONDS

    async def run(self) -> None:
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
                    projects = await self._projects(ACTIVE_SECONDS)
                    await asyncio.gather(*map(self._reclaim, self._steps.store.by_shard(projects)))
                    self._reclaim_at = inf
                if await self._takes_turn():
                    await self.round()
                else:
                    STEPS_QUEUED.set(0)  # the worker that sweeps reports the number
            except (ToolFailure, StoreError) as error:
                self._warn("sweep", "nothing can be swept, trying again", reason=str(error))
            slept = monotonic()
            await asyncio.sleep(SWEEP_SECONDS)
            process.loop_lag("worker", max(0.0, monotonic() - slept - SWEEP_SECONDS))

    async def _takes_turn(self) -> bool:
        """Whether this worker sweeps in this round. All do while the shard with the lease is away: sweeps repeat
        nothing."""
        try:
            return await self._steps.acquire_sweep(self._name, round(SWEEP_SECONDS * 900))
        except ToolFailure as failure:
            if not self._steps.store.sharded or failure.code != "store_unavailable":
                raise
            return True

    async def _projects(self, within_seconds: int) -> dict[str, int]:
        """The listed projects (``ProjectList.ages``); those of before if, in a cluster, the list is away."""
        if not self._steps.store.sharded:
            return await self._steps.projects.ages(within_seconds)
        try:
            self._listed = await self._steps.projects.ages()
        except ToolFailure as failure:
            if failure.code != "store_unavailable":
                raise
        return {name: age for name, age in self._listed.items() if not within_seconds or age <= within_seconds}

    async def _reclaim(self, projects: Sequence[str]) -> None:
        for project in projects:
            with contextlib.suppress(Fenced):  # whoever serves the project reclaims them
                await self._steps.reclaim(project, self._held(project))

    async def round(self) -> None:
        """Sweeps the active projects once, and every ``SLOW_SECONDS`` all projects.

        Raises:
            ToolFailure: ``store_full``, but only after every project was tried; others as ``StepStore`` says, but of a
                cluster only if no shard answers.
        """
        slow = monotonic() >= self.slow_at
        if slow:
            self.slow_at = monotonic() + SLOW_SECONDS
        listed = await self._projects(0 if slow else ACTIVE_SECONDS)
        now = monotonic()
        for project, age in listed.items():
            self._active_until[project] = max(now + ACTIVE_SECONDS - age, self._active_until.get(project, now))
        self._active_until = {project: until for project, until in self._active_until.items() if until > now}
        projects = [*dict.fromkeys([*listed, *self._active_until])]
        shards = self._steps.store.by_shard(projects)
        parts = [_Part() for _ in shards]
        await asyncio.gather(*map(self._sweep_some, shards, parts))
        failures = [part.failure for part in parts if part.failure is not None]
        full = next((failure for failure in failures if failure.code == "store_full"), None)
        if failures and full is None and len(failures) == len(parts):
            raise failures[0]
        STEPS_QUEUED.set(sum(part.queued for part in parts))
        if (any(part.lost for part in parts) or slow) and not self._steps.handoff.direct:
            await self._steps.drop_spent()
        if slow and (self._tidying is None or self._tidying.done()):
            # In a task of its own: it may take long, and expired leases must not wait for it.
            idle = [project for part in parts for project in part.idle]
            self._tidying = asyncio.create_task(self._tidy(projects, idle), name="tidy")
        for failure in failures:
            self._warn("shard", "the projects of a shard cannot be swept", reason=failure.message)
        if full is not None:
            raise full

    async def _sweep_some(self, projects: Sequence[str], part: _Part) -> None:
        """Sweeps the projects of one shard. While it was away, nobody could renew leases there: that comes first."""
        with self._steps.store.others_go_on():
            if projects and monotonic() < self._steps.store.away_until(projects[0]) + BACK_SECONDS:
                return
        for project in projects:
            try:
                swept = await self._sweep(project)
            except StoreError:
                _log.exception("a project cannot be swept", project=project)
            except Fenced:
                continue
            except ToolFailure as failure:
                part.failure = failure
                if failure.code == "store_unavailable":
                    return
                # A full store: goes on, because forgetting old runs frees memory.
            else:
                part.queued += swept.queued
                part.lost += swept.lost
                if swept.idle:
                    part.idle.append(project)

    async def _sweep(self, project: str) -> Swept:
        swept = await self._steps.sweep(project)
        for _ in range(ROUNDS):
            STEP_LEASES_LOST.inc(swept.lost)
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
            with self._steps.store.others_go_on():
                await self._steps.projects.note(project)
        return swept

    async def _tidy(self, projects: Sequence[str], idle: Collection[str]) -> None:
        """Lets each kind of run forget old runs. Drops idle projects in which nothing is left to forget."""
        for project in projects:
            try:
                if all([await kind.tidy(project) for kind in self._kinds]) and project in idle:
                    # A flow may begin at this very moment. Its front-end notes the project again soon.
                    await self._steps.projects.forget(project, ACTIVE_SECONDS)
            except Fenced:
                continue
            except (ToolFailure, StoreError) as error:
                _log.warning("a project could not be tidied", project=project, reason=str(error))

    async def _restore(self, project: str, suspects: list[QueuedJob]) -> None:
        missing = await self._steps.missing(project, suspects)
        if missing:
            _log.warning("jobs had vanished from their queue", project=project, jobs=len(missing))
            await self._steps.push(project, missing, force=True)
            STEP_JOBS_RESTORED.inc(len(missing))
