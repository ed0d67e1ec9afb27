"""The interface between a kind of run (flows or gateway) and the workers that execute its steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from coordinator.service import Service
from coordinator.steps.model import Outcome, Plan, StepRun, Work
from coordinator.store import Script
from coordinator.store.fleet.connection_states import ConnectionStatus


class Timeout(Protocol):
    """The timeout of an attempt, for executors that have to wait before they can begin."""

    def suspend(self) -> None:
        """Stops the clock until ``restart``."""
        ...

    def restart(self) -> None:
        """Starts the clock anew: from now on, the attempt has its full time."""
        ...


timeout: ContextVar[Timeout | None] = ContextVar("timeout", default=None)
"""The timeout of the attempt that is being executed."""


class Isolated(Protocol):
    """Runs Python callables in child processes: those that compute, or that are not trusted."""

    async def call(self, target: str, arguments: Mapping[str, Any], idempotency_key: str) -> Any:
        """Calls ``module:function`` with these keyword arguments in a child process; returns a JSON value.

        The function gets the key as the environment variable IDEMPOTENCY_KEY. Cancelling
        the call kills the child.

        Args:
            target: from the settings or an entry point, never from a caller.

        Raises:
            CallFailed: it raised an exception, ended its process, or did not return a JSON value.
        """
        ...


class CallFailed(Exception):
    """A callable in a child process has failed. The text is a sentence for the record.

    Attributes:
        type: the class of the exception that it raised, or ``crashed``.
    """

    def __init__(self, message: str, type: str) -> None:
        super().__init__(message)
        self.type = type


class NotHere(Exception):
    """This worker cannot execute the attempt, and has done nothing: the step is given back.

    Attributes:
        queue: the queue of the worker that can; empty: any may, after a while.
    """

    def __init__(self, queue: str = "") -> None:
        super().__init__(queue)
        self.queue = queue


class Executor(Service, ABC):
    """Executes work: calls tools, however these are reached. It is started before the first attempt."""

    def connections(self) -> Sequence[ConnectionStatus]:
        """How the connections go that it knows of; by default it knows of none."""
        return ()

    @abstractmethod
    async def execute(self, step: StepRun, work: Work) -> Outcome:
        """Executes one attempt.

        Many attempts run at once on one event loop, so this must not block it. The attempt is cancelled
        (``asyncio.CancelledError``) if it takes longer than ``work.timeout_ms``, if its run is cancelled, or if the
        worker drains. Any other exception counts as a failure that may be retried. ``step.idempotency_key`` has to be
        passed to the tool, because an earlier attempt whose worker was lost may have had its effect.

        Raises:
            NotHere: nothing was done; no failure is counted.
        """


class Planner(Protocol):
    """Decides what the steps of one kind of run do, and what follows them."""

    def load(self, spec: bytes) -> Any:
        """Decodes a run's spec for the other methods; kept for all steps of the run."""
        ...

    async def prepare(self, step: StepRun, spec: Any) -> Work | Outcome:
        """The work of this attempt; or its outcome, if there is nothing to do or nothing can be done (the creator has
        lost a permission, an argument cannot be resolved).

        Raises:
            ToolFailure: the store does not answer. Unless it is permanent, the step is offered again, and no
                failure is counted.
        """
        ...

    def plan(self, step: StepRun, spec: Any, outcome: Outcome) -> Plan:
        """What follows the step after its final outcome (when there are no more retries). Pure: no I/O, no clock."""
        ...


class RunKind(Protocol):
    """One kind of run: that of ``flows`` or of ``gateway``."""

    @property
    def name(self) -> str:
        """The name of the toolset; each of its runs has it."""
        ...

    @property
    def planner(self) -> Planner:
        """Decides what its steps do, and what follows them."""
        ...

    @property
    def executor(self) -> Executor:
        """Executes the work of its steps."""
        ...

    @property
    def report(self) -> Script[Any]:
        """Its script that records outcomes: takes the arguments of ``StepStore.report``, and includes ``take``."""
        ...

    async def tidy(self, project: str) -> bool:
        """Deletes a bounded number of the project's runs whose retention is over; one worker calls it periodically.

        Returns:
            Whether the project has no more runs that will have to be deleted.
        """
        ...
