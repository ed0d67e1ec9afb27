"""Flows and workers without processes: a test plays the worker, and time is moved by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from unittest.mock import patch

from coordinator.settings import Settings
from coordinator.steps import times
from coordinator.steps.handoff import Handoff, queue_names
from coordinator.steps.model import Arrival, NewStep, Plan, StepRun
from coordinator.steps.store import Report, StepStore, Taken
from coordinator.store import Store, keys
from coordinator.store.idempotency import NO_KEY
from coordinator.toolsets.flows.store.flows import REPORT, FlowRecord, FlowStore, NewFlow, StepRecord

DONE = Plan(complete=True)
FAILED = Plan(error="it failed")
NOTHING = Plan()


def then(*names: str, **more: Any) -> Plan:
    """A plan that creates these steps."""
    return Plan(create=tuple(NewStep(name, **more) for name in names))


def fork(counter: str, *names: str) -> Plan:
    """A plan that creates branches."""
    return Plan(create=tuple(NewStep(name) for name in names), forks=((counter, len(names)),))


def join(counter: str, name: str) -> Plan:
    """A branch's end."""
    return Plan(arrive=Arrival(counter, NewStep(name)))


class Player:
    """A worker that a test plays."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        name: str,
        pools: Sequence[str] = ("default",),
        queue: Store | None = None,
        protocol: int = times.PROTOCOL,
    ) -> None:
        with patch.object(times, "PROTOCOL", protocol):
            handoff = Handoff.of(settings, store)
        handoff.identify_worker(name, queue_names(pools))
        self.steps = StepStore(store, handoff, queue)
        self.name = name

    async def take(self, want: int = 1) -> list[StepRun]:
        """Steps from the queues."""
        return (await self.steps.take(want)).steps

    async def report(self, step: StepRun, how: str, what: Any, result: str = "null", want: int = 0) -> Taken:
        """Reports one step."""
        return await self.reports(step.project, [Report(step.step, step.attempt, how, result, what)], want)

    async def reports(self, project: str, reports: Sequence[Report], want: int = 0) -> Taken:
        return await self.steps.report(REPORT, project, want, reports)

    async def done(self, step: StepRun, plan: Plan = DONE, result: str = "null") -> int:
        """Reports success; returns the result of the report."""
        return (await self.report(step, "D", plan, result)).results[0]

    async def failed(self, step: StepRun, plan: Plan = FAILED) -> int:
        """Reports that the step failed for good."""
        return (await self.report(step, "F", plan, '{"error":"it failed","type":"x"}')).results[0]


class Rig:
    """Flows of the project ``default``, and a worker ``w1``."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.flows = FlowStore(store, settings)
        self.worker = Player(store, settings, "w1")
        self.projects = {"default"}

    def player(self, name: str, **more: Any) -> Player:
        """Another worker."""
        return Player(self.store, self.settings, name, **more)

    async def create(self, plan: Plan | None = None, project: str = "default", **more: Any) -> int:
        """A flow that begins with a step ``start``, or as the plan says."""
        self.projects.add(project)
        values = {"name": "flow", "creator": "alice", "spec": b"spec", "steps": 20, **more}
        return await self.flows.create(project, NO_KEY, NewFlow(plan=plan or then("start"), **values))

    async def flow(self, flow: int, project: str = "default") -> FlowRecord:
        found = await self.flows.get(project, flow)
        assert found is not None
        return found

    async def step(self, flow: int, key: str) -> StepRecord:
        """The only step of a flow that has this key."""
        (found,) = [step for step in (await self.flow(flow)).steps if step.key == key]
        return found

    async def statuses(self, flow: int) -> dict[str, str]:
        """Status by key."""
        return {step.key: step.status for step in (await self.flow(flow)).steps}

    async def status(self, flow: int) -> str:
        return (await self.flow(flow)).row.status

    async def expire(self, steps: Iterable[StepRun], project: str = "default") -> None:
        """Ends leases, as time would."""
        await self._due(keys.step_leases.key(project), [step.step for step in steps])

    async def ring(self, *steps: int, project: str = "default") -> None:
        """Makes timers due."""
        await self._due(keys.step_timers.key(project), [str(step) for step in steps])

    async def _due(self, key: bytes, members: list[str]) -> None:
        for member in members:
            assert await self.store.command("ZADD", key, "XX", "CH", 1, member) == 1, f"{member} is not there"

    async def events(self, project: str = "default") -> list[dict[str, str]]:
        """All events about changes."""
        found = await self.store.command("XRANGE", keys.events.key(project), "-", "+")
        return [
            {name.decode(): value.decode() for name, value in zip(fields[::2], fields[1::2], strict=True)}
            for _, fields in found
        ]

    async def queued(self, queue: str = "fleet-steps") -> list[str]:
        """Ids of jobs in a queue."""
        return [job.decode() for job in await self.store.command("LRANGE", f"fc:{{RQ}}:queue:{queue}", 0, -1)]
