"""Structs that flows and the gateway share: a step as a worker gets it, its outcome, and what follows.

Only a run's kind (``flows`` or ``gateway``) knows what its ``spec`` and its steps' ``key``, ``context`` and
``arguments`` mean; to workers they are opaque.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from coordinator.store.keys import DEFAULT_PROJECT

Backoff = Literal["fixed", "exponential"]
Verdict = Literal["", "poisoned", "expired", "recorded"]

JITTER = 0.2
"""Retries come up to this share earlier or later than their policy says, never after its longest delay."""


class StepRun(Struct, array_like=True, frozen=True):
    """One attempt of one step, handed to this worker: the reply of the script that took it."""

    project: str
    run_kind: str
    """The kind of its run: ``flows`` or ``gateway``."""
    run: str
    step: str
    attempt: int
    """The fence: rises with each hand-out of the step, from 1."""
    key: str
    """What the run calls the step; in a flow the key of its specification."""
    context: str
    """What the plan that created the step gave it."""
    arguments: str
    """As the plan gave them; empty where they follow from the run's spec. Of a step whose verdict is
    ``recorded`` its result as JSON."""
    creator: str
    """On whose behalf the run runs."""
    name: str
    """Name of the run."""
    ready_at: int
    """When it could have begun: ms of the store's clock, as all times here."""
    started_at: int
    failures: int
    """Attempts that ended in a failure, before this one."""
    crashes: int
    """Attempts whose worker was lost, before this one."""
    verdict: Verdict
    """Empty: execute it. Else its outcome is known, and only what follows it is missing: its worker
    was lost too often (``poisoned``), it waited too long (``expired``), or it is done already
    (``recorded``)."""
    spec: int = 0
    """Where in the reply the run's spec is; 0: this worker has had it before."""
    trace: str = ""
    """The trace of what the run, or what goes on in it, was begun with; see ``coordinator.metrics.tracing``."""

    @property
    def idempotency_key(self) -> str:
        """The same for all attempts: what a tool gets so that a second call has no second effect."""
        return f"{_of(self.project)}{self.run}-{self.step}"

    @property
    def job_id(self) -> str:
        """Id of the RQ job that points to this attempt."""
        return job_id(self.project, self.run, self.step, self.attempt)


def job_id(project: str, run: str, step: str, attempt: int) -> str:
    """Id of the RQ job that points to an attempt; ``job_id`` in step.lua says the same."""
    return f"{_of(project)}{run}-{step}-{attempt}"


def _of(project: str) -> str:
    # Ids of runs and steps are a project's own: those of others must not be taken for them.
    return "" if project == DEFAULT_PROJECT else f"{project}-"


class Retry(Struct, frozen=True):
    """How often and how fast a failed attempt is followed by another."""

    max_attempts: int = 1
    """Attempts that may end in a failure altogether; lost workers do not count."""
    delay_ms: int = 1_000
    backoff: Backoff = "exponential"
    max_delay_ms: int = 60_000

    def delay(self, failures: int, share: float, asked: int = 0) -> int:
        """Milliseconds before the next attempt.

        Args:
            failures: attempts that failed before the last one.
            share: where it lies between the earliest (0.0) and the latest (1.0) that jitter makes it.
            asked: what the refusing side asks for; counts up to the longest delay.
        """
        longest = self.max_delay_ms
        delay = min(longest, self.delay_ms if self.backoff == "fixed" else self.delay_ms << min(failures, 40))
        earliest, latest = delay * (1 - JITTER), min(longest, delay * (1 + JITTER))
        return max(round(earliest + (latest - earliest) * share), min(asked, longest))


class Work(Struct, frozen=True):
    """What an attempt is to do: made by the planner from the run's spec just before it starts."""

    tool: str | None
    """None: nothing; the result is null."""
    arguments: Any = None
    timeout_ms: int = 60_000
    """An attempt that takes longer has failed and is stopped."""
    retry: Retry = Retry()

    def retries(self, failure: Failure) -> bool:
        """Whether another attempt may follow this failure, if the policy has one left."""
        return failure.retryable


class Success(Struct, frozen=True):
    """An attempt came to its end."""

    value: Any = None
    """A JSON value."""


class Failure(Struct, frozen=True):
    """An attempt failed."""

    message: str
    """A sentence for the record, without secrets."""
    type: str
    """Class of the failure: ``timeout``, ``permission_denied``, ``tool_error`` ..."""
    retryable: bool = True
    """False: another attempt would fail the same way."""
    after_ms: int = 0
    """Delay that the refusing side asks for; counts up to the longest delay of the policy."""


Outcome = Success | Failure


class NewStep(Struct, array_like=True, frozen=True):
    """A step to be created."""

    key: str
    state: Literal["ready", "gate", "done"] = "ready"
    """ready: a worker executes it; gate: waits for its release; done: a step that does nothing,
    recorded with the result null."""
    queue: str = ""
    """Pool of workers; empty: the project's."""
    priority: Literal["", "high", "normal", "low"] = ""
    """Empty: the run's."""
    delay_ms: int = 0
    """Of a ready step: when it may begin, from now."""
    expires_ms: int = 0
    """Of a gate: when it fails if nobody released it, from now; 0: never."""
    context: str = ""
    arguments: str = ""


class Arrival(Struct, array_like=True, frozen=True):
    """One part of a fork reached its join."""

    counter: str
    """Names the fork."""
    then: NewStep
    """Created by the arrival that is the last one."""


class Plan(Struct, array_like=True, frozen=True):
    """What follows a step, or what a run begins with; committed with the step's result or not at all."""

    create: tuple[NewStep, ...] = ()
    forks: tuple[tuple[str, int], ...] = ()
    """Counters to begin: name, and how many arrivals the join waits for."""
    arrive: Arrival | None = None
    complete: bool = False
    """The run is complete."""
    error: str = ""
    """The run has failed: a sentence that names the step."""
