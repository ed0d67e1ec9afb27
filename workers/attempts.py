"""One attempt of a step: it is prepared, executed within its timeout, and turned into a report.

An attempt is *interrupted* when it takes too long, when its run was cancelled, when its lease
was lost, or when the worker drains. Interrupting cancels the attempt's task. What is reported then
depends on the reason.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Literal

import msgspec
import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics.tracing import Scope
from coordinator.steps.model import Failure, NewStep, Outcome, Plan, StepRun, Success, Work
from coordinator.steps.results import failure_json, presentable, result_json
from coordinator.steps.run_kind import NotHere, RunKind, timeout
from coordinator.steps.store import DONE, FAILED, GIVEN_BACK, RETRIED, Report

_log = structlog.get_logger(__name__)
_decode = msgspec.json.Decoder().decode

Interruption = Literal["timeout", "stopped", "lost", "drain"]

PREPARE_SECONDS = 30.0
"""How long a step's preparation may take: reading its spec, looking up rights, resolving arguments."""
GRACE_SECONDS = 5.0
"""How long an interrupted attempt may take to end before its slot is given up."""
RETURN_MS = 1_000
"""After this delay, a step that this worker could not carry out is offered again."""


class StepAttempt:
    """An attempt running in a slot, in the slot's task.

    Args:
        kind: the step's kind of run; None if this worker does not know it.
        on_stuck: called if the attempt does not end within ``GRACE_SECONDS`` after it was interrupted.
    """

    __slots__ = (
        "_grace",
        "_kind",
        "_on_stuck",
        "_seconds",
        "_task",
        "_work",
        "abandoned",
        "began",
        "deadline",
        "expiry",
        "interrupted",
        "outcome",
        "span",
        "step",
    )

    def __init__(
        self, step: StepRun, kind: RunKind | None, task: asyncio.Task[Any], on_stuck: Callable[[StepAttempt], None]
    ) -> None:
        self.step = step
        self.began = monotonic()
        self.deadline = 0.0
        """When the attempt should have ended, by ``monotonic``. 0: it has no timeout now."""
        self.interrupted: Interruption | None = None
        self.abandoned = False
        """Whether the engine has reported for this attempt because it hangs."""
        self.span: Scope | None = None
        """Set if the attempt is traced."""
        self.outcome = "lost"
        """For metrics: ok, failed, retry or returned. lost: nothing was reported."""
        self._kind = kind
        self._work = Work(None)
        """Its work, once it is prepared."""
        self._seconds = 0.0
        self._task = task
        self._on_stuck = on_stuck
        self.expiry: asyncio.TimerHandle | None = None
        """The timer of its timeout, from the first time that it has one."""
        self._grace: asyncio.TimerHandle | None = None

    def interrupt(self, why: Interruption) -> None:
        """Cancels the attempt. Only the first reason counts."""
        if self.interrupted is None:
            self.interrupted = why
            self._task.cancel()
            self._grace = self._task.get_loop().call_later(GRACE_SECONDS, self._stuck)

    async def run(self, spec: Any, load: Callable[[StepRun], Awaitable[Any]]) -> Report | None:
        """Executes the attempt. Returns the report, or None if nothing may be reported.

        Args:
            spec: the spec of the step's run; None if it is not cached.
            load: reads the spec; returns None if the run is gone.
        """
        kind = self._kind
        if kind is None:
            return self.returned()
        outcome: Outcome | None = None
        where: int | str = RETURN_MS
        self._expire_in(PREPARE_SECONDS)
        try:
            outcome = _known(self.step)
            if spec is None:
                spec = await load(self.step)
            if spec is None:
                self.outcome = "failed"
                why = "the spec of the flow is gone"
                return self._report(FAILED, failure_json(why, "gone"), Plan(error=why))
            if outcome is None:
                outcome = await self._prepare_and_execute(kind, spec)
        except NotHere as elsewhere:
            where = elsewhere.queue or RETURN_MS
        except asyncio.CancelledError:
            if self.interrupted is None:
                if self._task.cancelling():
                    raise
                # Nobody cancelled this task. The tool cancelled itself, or something that it waited for.
                outcome = Failure("the call that the tool waited for was cancelled", "cancelled")
        except Exception as error:
            _log.warning("step failed unexpectedly", step=self.step.job_id, exc_info=True)
            outcome = Failure(f"the step failed unexpectedly: {type(error).__name__}", "unexpected")
        finally:
            for timer in (self.expiry, self._grace):
                if timer is not None:
                    timer.cancel()
        if self.interrupted is not None:
            # This also applies to an attempt that ran to its end although it was interrupted.
            self._task.uncancel()
            return self.cut_short(spec)
        return self.returned(where) if outcome is None else self._conclude(kind, spec, outcome)

    async def _prepare_and_execute(self, kind: RunKind, spec: Any) -> Outcome | None:
        """Returns the outcome of the step; None if the store did not answer and nothing was executed."""
        try:
            prepared = await kind.planner.prepare(self.step, spec)
        except ToolFailure as failure:
            if failure.kind == "permanent":
                raise
            return None
        if not isinstance(prepared, Work):
            return prepared
        self._work = prepared
        return await self._execute(kind, prepared)

    def cut_short(self, spec: Any) -> Report | None:
        """The report of an interrupted attempt; None if nothing may be reported."""
        if self.interrupted == "lost" or self._kind is None:
            return None
        if self.interrupted == "drain":
            return self.returned(0)
        if spec is None:
            return self.returned()
        if self.interrupted == "stopped":
            outcome = Failure("the step was stopped", "stopped", retryable=False)
        else:
            outcome = Failure(f"the step took longer than {round(self._seconds * 1000)} ms", "timeout")
        return self._conclude(self._kind, spec, outcome)

    async def _execute(self, kind: RunKind, work: Work) -> Outcome:
        if work.tool is None:
            return Success()
        if self.span is not None:
            self.span.name_tool(work.tool)
        self._expire_in(work.timeout_ms / 1000)
        token = timeout.set(self)
        try:
            return await kind.executor.execute(self.step, work)
        finally:
            # Timers copy the context. Those of the next attempt in this task would keep this one alive, and so on.
            timeout.reset(token)

    def suspend(self) -> None:
        """Suspends the timeout until ``restart``, while the attempt waits for a child process to run in."""
        if self.expiry is not None:
            self.expiry.cancel()
        self.deadline = 0.0

    def restart(self) -> None:
        """Restarts the timeout: the attempt has its full time from now on."""
        self._expire_in(self._seconds)

    def _expire_in(self, seconds: float) -> None:
        """Interrupts the attempt in ``seconds`` from now, unless another limit is set before."""
        if self.expiry is not None:
            self.expiry.cancel()
        self._seconds = seconds
        self.deadline = monotonic() + seconds
        self.expiry = self._task.get_loop().call_later(seconds, self.interrupt, "timeout")

    def _conclude(self, kind: RunKind, spec: Any, outcome: Outcome) -> Report:
        step, text = self.step, ""
        if isinstance(outcome, Success):
            try:
                text = step.arguments if step.verdict == "recorded" else result_json(outcome.value)
            except Exception:
                outcome = Failure(
                    "the call was carried out, but it returned a value that is not JSON",
                    "invalid_result",
                    retryable=False,
                    carried_out=True,
                )
        if isinstance(outcome, Failure):
            outcome = presentable(outcome)
            text = failure_json(outcome.message, outcome.type)
            retry = self._work.retry
            if step.failures + 1 < retry.max_attempts and self._work.retries(outcome):
                self.outcome = "retry"
                return self._report(RETRIED, text, retry.delay(step.failures, random.random(), outcome.after_ms))
        try:
            plan = _sound(kind.planner.plan(step, spec, outcome))
        except Exception:
            _log.exception("the successors of a step could not be planned", step=step.job_id)
            plan = Plan(error=f"what follows step {step.key!r} could not be planned")
        self.outcome = "ok" if isinstance(outcome, Success) else "failed"
        return self._report(DONE if self.outcome == "ok" else FAILED, text, plan)

    def returned(self, where: int | str = RETURN_MS) -> Report:
        """The report that gives a step back, to be offered again after so many ms, or by the queue of one worker."""
        self.outcome = "returned"
        return self._report(GIVEN_BACK, "", where)

    def _report(self, how: str, result: str, follows: Plan | int | str) -> Report:
        return Report(self.step.step, self.step.attempt, how, result, follows)

    def _stuck(self) -> None:
        self.abandoned = True
        self._on_stuck(self)


def _sound(plan: Any) -> Plan:
    """Checks that a plan can be written. A faulty planner must not spoil the outcomes reported with its own."""
    if not isinstance(plan, Plan) or not all(type(new) is NewStep for new in plan.create):
        raise TypeError("no plan")
    return plan


def _known(step: StepRun) -> Outcome | None:
    """The outcome of a step that need not be executed any more; None: it has to be executed."""
    if step.verdict == "poisoned":
        return Failure(f"its worker was lost {step.crashes} times", "poisoned", retryable=False)
    if step.verdict == "expired":
        return Failure("nobody released it in time", "expired", retryable=False)
    return Success(_decode(step.arguments)) if step.verdict == "recorded" else None
