"""What a room gives to the workers so that they can execute its steps."""

from __future__ import annotations

from typing import Any, Protocol

from coordinator.steps.model import Outcome, Plan, StepRun, Work
from coordinator.store import Script


class Executor(Protocol):
    """Carries out work: calls tools, over whatever they are reached."""

    async def open(self) -> None:
        """Called once, in the event loop of the worker, before the first attempt."""
        ...

    async def close(self) -> None:
        """Called once, after the last attempt."""
        ...

    async def execute(self, step: StepRun, work: Work) -> Outcome:
        """Carries out one attempt.

        Many attempts run at once on one event loop, so nothing here may block it. The attempt
        is cancelled (``asyncio.CancelledError``) when it takes longer than ``work.timeout_ms``,
        when its run was cancelled, and when the worker drains. Whatever else is raised counts as
        a failure that may be retried. ``step.idempotency_key`` goes to the tool: an attempt
        whose worker was lost may have had its effect.
        """
        ...


class Planner(Protocol):
    """Knows what the steps of a room mean. ``plan`` is pure: no I/O, no clock."""

    async def prepare(self, step: StepRun, spec: bytes) -> Work | Outcome:
        """What this attempt is to do, or its outcome where nothing has to be done (or can be:
        the creator lost a permission, an argument cannot be resolved).

        Args:
            spec: the run's.
        """
        ...

    def plan(self, step: StepRun, spec: bytes, outcome: Outcome) -> Plan:
        """What follows the step after this final outcome (retries are over)."""
        ...


class StepRoom(Protocol):
    """One room: ``flows``, and later the gateway."""

    name: str
    planner: Planner
    executor: Executor
    report: Script[Any]
    """Its script that records outcomes; includes ``steps`` and takes what ``StepStore.report`` sends."""
