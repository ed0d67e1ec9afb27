"""Structs that flows and the gateway share: a step as a worker gets it, its outcome, and what follows.

``spec`` of a run and ``key``, ``context`` and ``arguments`` of a step have a meaning only to the run's kind (``flows``
or ``gateway``); to workers they are opaque.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from msgspec import Struct

from coordinator.store.keys import DEFAULT_PROJECT

Backoff = Literal["fixed", "exponential"]
BACKOFFS: tuple[Backoff, ...] = get_args(Backoff)
Verdict = Literal["", "poisoned", "expired", "recorded"]

JITTER = 0.2
"""Retries come up to this share earlier or later than their policy says, never after its longest delay."""


class StepRun(Struct, array_like=True, frozen=True):
    """One attempt of one step, as the script that takes steps hands it to a worker."""

    project: str
    run_kind: str
    """The kind of its run: ``flows`` or ``gateway``."""
    run: str
    step: str
    attempt: int
    """The number of the attempt, from 1; also the fence."""
    key: str
    """The step's name within the run; in a flow, the name of its specification."""
    context: str
    """From the plan that created the step."""
    arguments: str
    """From the plan that created the step; empty: they follow from the run's spec. If the verdict is ``recorded``, the
    step's result as JSON."""
    creator: str
    """The creator, on whose behalf the run executes."""
    name: str
    ready_at: int
    """When it could have begun. (All times here are ms of the store's clock.)"""
    started_at: int
    failures: int
    """How many earlier attempts have failed."""
    crashes: int
    """How many earlier attempts have lost their worker."""
    verdict: Verdict
    """Empty: execute the step. Else its outcome is known, and only its successors have to be planned: it has lost its
    worker too often (``poisoned``), it has waited too long (``expired``), or it is done already (``recorded``)."""
    spec: int = 0
    """The position of the run's spec in the reply, from 1; 0: this worker has it already."""
    trace: str = ""
    """The trace context of the call that started the run or its present part; see ``coordinator.metrics.tracing``."""
    owner: str = ""
    """Whose states of servers its calls use, if not its run's; set by the worker."""

    @property
    def state_owner(self) -> str:
        """Whose states of servers its calls use (``coordinator.steps.states``)."""
        return self.owner or self.run

    @property
    def idempotency_key(self) -> str:
        """The same for all attempts. Tools get it, so that a second call has no second effect."""
        return f"{_prefix(self.project)}{self.run}-{self.step}"

    @property
    def job_id(self) -> str:
        """Id of the RQ job that points to this attempt."""
        return job_id(self.project, self.run, self.step, self.attempt)


def job_id(project: str, run: str, step: str, attempt: int) -> str:
    """Id of the RQ job that points to an attempt; Must match ``job_id`` in steps.lua."""
    return f"{_prefix(project)}{run}-{step}-{attempt}"


def _prefix(project: str) -> str:
    # Ids of runs and steps are unique within a project only.
    return "" if project == DEFAULT_PROJECT else f"{project}-"


class Retry(Struct, frozen=True):
    """How often and how soon a failed attempt is followed by another."""

    max_attempts: int = 1
    """How many attempts may fail in all; lost workers do not count."""
    delay_ms: int = 1_000
    backoff: Backoff = "exponential"
    max_delay_ms: int = 60_000

    def delay(self, failures: int, jitter: float, retry_after_ms: int = 0) -> int:
        """Milliseconds before the next attempt.

        Args:
            failures: attempts that failed before the last one.
            jitter: from 0.0 to 1.0: where the delay lies between the earliest and the latest that ``JITTER`` allows.
            retry_after_ms: the delay that the refusing side asks for; at most ``max_delay_ms`` of it is used.
        """
        longest = self.max_delay_ms
        delay = min(longest, self.delay_ms if self.backoff == "fixed" else self.delay_ms << min(failures, 40))
        earliest, latest = delay * (1 - JITTER), min(longest, delay * (1 + JITTER))
        return max(round(earliest + (latest - earliest) * jitter), min(retry_after_ms, longest))


class Work(Struct, frozen=True):
    """What an attempt has to do; the planner makes it from the run's spec just before the attempt."""

    tool: str | None
    """None: nothing is called, and the result is null."""
    arguments: Any = None
    timeout_ms: int = 60_000
    """An attempt that takes longer is cancelled and counts as failed."""
    retry: Retry = Retry()

    def retries(self, failure: Failure) -> bool:
        """Whether another attempt may follow this failure, if the policy has one left."""
        return failure.retryable


class Success(Struct, frozen=True):
    """An attempt has succeeded."""

    value: Any = None
    """A JSON value."""


class Failure(Struct, frozen=True):
    """An attempt has failed."""

    message: str
    """A sentence for the record, without secrets."""
    type: str
    """Class of the failure: ``timeout``, ``permission_denied``, ``tool_error`` ..."""
    retryable: bool = True
    """False: another attempt would fail the same way."""
    after_ms: int = 0
    """The delay that the refusing side asks for; at most the longest delay of the retry policy is used."""
    carried_out: bool = False
    """Whether the call was carried out, and only its answer cannot be used; the message says so, too."""


Outcome = Success | Failure

STATE_LOST = "state_lost"
"""The type of the failure of a call that was not made, because the state of the server that it is about is gone."""


class NewStep(Struct, array_like=True, frozen=True):
    key: str
    state: Literal["ready", "gate", "done"] = "ready"
    """ready: a worker executes it; gate: it waits for its release; done: it does nothing, and is recorded with the
    result null."""
    queue: str = ""
    """The pool of workers; empty: the project's."""
    priority: Literal["", "high", "normal", "low"] = ""
    """Empty: the run's."""
    delay_ms: int = 0
    """For a ready step: the time from now until it may begin."""
    expires_ms: int = 0
    """For a gate: the time from now until it fails if nobody releases it; 0: never."""
    context: str = ""
    arguments: str = ""


class Arrival(Struct, array_like=True, frozen=True):
    """A branch of a fork has reached its join."""

    counter: str
    """The name of the fork's counter."""
    then: NewStep
    """The step after the join, created by the last arrival."""


class Plan(Struct, array_like=True, frozen=True):
    """What follows a step, or what a run begins with. Committed together with the step's result, or not at all."""

    create: tuple[NewStep, ...] = ()
    forks: tuple[tuple[str, int], ...] = ()
    """Counters of new forks: name, and the number of arrivals that the join waits for."""
    arrive: Arrival | None = None
    complete: bool = False
    error: str = ""
    """The run has failed: a sentence that names the step."""
