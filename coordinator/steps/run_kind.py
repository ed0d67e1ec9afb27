"""The interface between a kind of runs (flows or gateway) and the workers that execute its steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from coordinator.steps.model import Outcome, Plan, StepRun, Work
from coordinator.store import Script

if TYPE_CHECKING:
    from coordinator.settings import Settings


class Timeout(Protocol):
    """The timeout of an attempt, for executors that have to wait before they can begin."""

    def suspend(self) -> None:
        """Does not run out until ``restart``."""
        ...

    def restart(self) -> None:
        """Begins anew: the attempt has all of its time from now on."""
        ...


timeout: ContextVar[Timeout | None] = ContextVar("timeout", default=None)
"""That of the attempt that is being executed."""


class Isolated(Protocol):
    """Python callables in a process of their own: for those that compute, or that nobody trusts."""

    async def call(self, target: str, arguments: Mapping[str, Any], idempotency_key: str) -> Any:
        """Calls ``module:function`` with these keyword arguments in a child process; returns a JSON value.

        The function gets the key as the environment variable IDEMPOTENCY_KEY. Cancelling
        the call kills the child.

        Args:
            target: from the configuration or an entry point, never from a caller.

        Raises:
            CallFailed: it raised, ended its process or returned what is no JSON value.
        """
        ...


class CallFailed(Exception):
    """A callable in a child process did not return; its text is a sentence for the record.

    Attributes:
        type: the class of what it raised, or ``crashed``.
    """

    def __init__(self, message: str, type: str) -> None:
        super().__init__(message)
        self.type = type


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
    """Knows what the steps of one kind of runs mean."""

    def load(self, spec: bytes) -> Any:
        """The run's spec in the form that the other methods take; kept for all steps of the run."""
        ...

    async def prepare(self, step: StepRun, spec: Any) -> Work | Outcome:
        """What this attempt is to do, or its outcome where nothing has to be done (or can be:
        the creator lost a permission, an argument cannot be resolved).

        Raises:
            ToolFailure: the store does not answer. Unless it is permanent, the step is offered again, and no
                failure is counted.
        """
        ...

    def plan(self, step: StepRun, spec: Any, outcome: Outcome) -> Plan:
        """What follows the step after this final outcome, when retries are over. Pure: no I/O, no clock."""
        ...


@runtime_checkable
class Configurable(Protocol):
    """A kind of runs, or a part of one, that takes over settings while it works."""

    def configure(self, settings: Settings) -> None:
        """Goes by these settings, for every attempt that begins later. Does not fail."""
        ...


class RunKind(Protocol):
    """One kind of runs: those of ``flows`` or of ``gateway``."""

    @property
    def name(self) -> str:
        """The name of the toolset whose runs they are; each run has it."""
        ...

    @property
    def planner(self) -> Planner:
        """What its steps mean."""
        ...

    @property
    def executor(self) -> Executor:
        """What carries out their work."""
        ...

    @property
    def report(self) -> Script[Any]:
        """Its script that records outcomes: takes what ``StepStore.report`` sends, and includes ``take``."""
        ...

    async def tidy(self, project: str) -> bool:
        """Forgets a bounded number of the project's runs whose retention is over; one worker calls it now and then.

        Returns:
            Whether none are left that it will have to forget one day.
        """
        ...


@asynccontextmanager
async def opened(kinds: Mapping[str, RunKind]) -> AsyncIterator[Mapping[str, RunKind]]:
    """These kinds with their executors open, until the end of the block."""
    done: list[RunKind] = []
    try:
        for kind in kinds.values():
            await kind.executor.open()
            done.append(kind)
        yield kinds
    finally:
        for kind in done:
            await kind.executor.close()
