"""Collects what one part of an operation writes into the ``Advance`` for the script.

``planner.py`` decides; a builder keeps the task and the advance consistent.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from coordinator.settings.sections.gateway.model import State, Transition, Workflow
from coordinator.steps.model import Failure
from coordinator.steps.results import cut_of
from coordinator.toolsets.gateway.rules import machine
from coordinator.toolsets.gateway.rules.redact import redacted
from coordinator.toolsets.gateway.rules.results import arranged
from coordinator.toolsets.gateway.rules.task import (
    Advance,
    Approval,
    Ending,
    Event,
    HopTaken,
    NextStep,
    OperationProblem,
    Task,
)

SELECTION = "selection_error"
PERMANENT = "permanent_error"

_encode = msgspec.json.Encoder().encode


class AdvanceBuilder:
    """Builds the advance of a task, and updates the task."""

    def __init__(self, workflow: Workflow, task: Task) -> None:
        self._workflow = workflow
        self._task = task
        self.advance = Advance(
            op=task.op, base=task.version, state=task.state, version=task.version, actor=task.principal.id
        )

    def record(self, kind: str, /, **payload: Any) -> None:
        public = redacted({key: value for key, value in payload.items() if value is not None})
        self.advance.audit = [*self.advance.audit, Event(kind, _encode(public).decode())]

    def commit(self, target: str, draft: dict[str, Any], outcome: str, *, bump: bool = True) -> None:
        """Commits the hop: the instance takes its state and context.

        Args:
            outcome: of the workflow, if it ends in that state; empty: it does not end.
            bump: whether this raises the version.
        """
        task, advance = self._task, self.advance
        transition = self._workflow.states[task.state].transitions[task.transition] if task.transition else None
        came_from = task.state
        task.state, task.context = target, draft
        if bump:
            task.version += 1
        advance.state, advance.version = task.state, task.version
        advance.context = _encode(draft).decode()
        advance.failure = "-"
        if task.wholes:
            self._keep_wholes()
        self._record_evidence(transition)
        self._update_approvals(transition, came_from != target or bool(outcome), outcome)
        if task.first_done:
            task.chain = [*task.chain, HopTaken(came_from, task.transition, target, task.version)]
            self.record(
                "chain.step", transition=task.transition, **{"from": came_from}, to=target, version=task.version
            )
        if bump:
            self.record(
                "workflow.transitioned", transition=task.transition or None, **{"from": came_from}, to=target,
                version=task.version,
            )  # fmt: skip
        task.first_done = True
        task.phase, task.candidate, task.tries, task.draft, task.target = "run", 0, 0, None, ""
        task.carried_out = False

    def _keep_wholes(self) -> None:
        """Keeps the values whole that the hop has cut."""
        task, advance = self._task, self.advance
        for key in task.wholes:
            if (cut := cut_of(task.context[key])) is not None:
                about = {"key": key, "bytes": cut.bytes, "kept": cut.kept}
                self.record("context.cut", transition=task.transition or None, **about)
        task.kept, changed = arranged(task.kept, task.wholes, task.version)
        task.wholes = {}
        advance.kept = _encode(task.kept).decode()
        advance.results = list(dict([*advance.results, *changed]).items())

    def _record_evidence(self, transition: Transition | None) -> None:
        task, advance = self._task, self.advance
        kinds = [*task.marks, *(transition.evidence if transition is not None else ())]
        if not kinds:
            return
        counts = dict(task.evidence)
        for kind in kinds:
            counts[kind] = counts.get(kind, 0) + 1
            about = {"kind": kind, "transition": task.transition, "version": task.version, "correlationId": task.op}
            advance.evidence = [*advance.evidence, _encode(about).decode()]
        task.evidence, task.marks = counts, []
        advance.counts = _encode(counts).decode()

    def _update_approvals(self, transition: Transition | None, left: bool, outcome: str) -> None:
        """Closes the approvals of the old state, and asks for new ones."""
        task, advance = self._task, self.advance
        if task.open_approvals and (left or task.asked):
            resolved = transition is not None and transition.actor == "human"
            what: Literal["resolved", "withdrawn"] = "resolved" if resolved else "withdrawn"
            via = task.via if not task.first_done else ""
            how = Approval(what, by=task.principal.id, transition=task.transition, via=via)
            advance.approvals = [*advance.approvals, how]
            if resolved:
                self.record(
                    "human.approval.resolved", by=task.principal.id, transition=task.transition, via=via or None
                )
            task.open_approvals = False
        if task.asked and not outcome:
            advance.approvals = [*advance.approvals, *task.asked]
            task.open_approvals = True
        task.asked = []

    def wait_for(
        self, kind: Literal["run", "child"], *, delay_ms: int = 0, expires_ms: int = 0, child: str = ""
    ) -> Advance:
        """Makes the operation wait for a step; see ``NextStep``."""
        self.advance.next = NextStep(kind, self._task.packed(), delay_ms, expires_ms, child)
        return self.advance

    def end(self, outcome: str = "", *, stopped: str = "", retry: str = "") -> Advance:
        """Ends the operation and, if there is an outcome, the workflow. ``stopped`` and ``retry``: see ``Ending``."""
        task = self._task
        if task.chain:
            self.record("chain.completed", steps=len(task.chain), finalState=task.state, stopped=stopped or None)
        if outcome:
            self.advance.ended = outcome
            self.record("workflow.completed", state=task.state, outcome=outcome, version=task.version)
        return self._ended(self._ending(outcome=outcome, stopped=stopped, retry=retry))

    def fail(self, failure: Failure) -> Advance:
        """Ends the operation with the failure of an executor. Committed hops stay."""
        what = f"The executor of {self._place} failed: {failure.message}"
        if self._task.carried_out:
            what += f" (The executor of transition {self._task.transition!r} was carried out before.)"
        return self._fail(what, failure.type, self._task.carried_out or failure.carried_out)

    def fail_result(self, problem: str) -> Advance:
        """Ends the operation because the result of its executor cannot be used. Committed hops stay."""
        task, place = self._task, self._place
        done = f"The call of {place} was carried out, but its result" if task.carried_out else f"The result of {place}"
        what = f"{done} cannot be used: {problem}"
        details = {"message": what, "carriedOut": task.carried_out or None}
        self.record("transition.failed", transition=task.transition or None, errorClass=PERMANENT, **details)
        return self._fail(what, PERMANENT, task.carried_out)

    @property
    def _place(self) -> str:
        """The present part of the hop, in words."""
        task = self._task
        if task.phase == "enter" or not task.transition:
            return f"the entry into state {task.target!r}"
        return f"transition {task.transition!r}"

    def _fail(self, message: str, kind: str, carried_out: bool) -> Advance:
        task = self._task
        details: dict[str, Any] = {"errorClass": kind}
        if carried_out:
            details["carriedOut"] = True
        if task.first_done:
            details |= {"chain": True, "attemptedTransition": task.transition}
            self.record("chain.failed", transition=task.transition, errorClass=kind, steps=len(task.chain))
        problem = OperationProblem(code="EXECUTOR_FAILED", message=message, details=details)
        retry = task.transition if task.first_done else ""
        return self._ended(self._ending(outcome=self._failed_start(), error=problem, retry=retry))

    def _failed_start(self) -> str:
        """Ends the instance if nobody can continue after a failed start. Returns its outcome; empty: it goes on."""
        task = self._task
        if task.kind != "start" or (task.first_done and not task.nesting):
            return ""
        # It never reached its first state, or it is a sub-workflow whose parent waits for its end.
        self.advance.ended = machine.FAILURE
        self.record("workflow.completed", state=task.state, outcome=machine.FAILURE, version=task.version)
        return machine.FAILURE

    def fail_choice(self, state: State) -> Advance:
        """Ends the operation with a failure: not exactly one deterministic transition is possible."""
        task = self._task
        names = ", ".join(state.transitions)
        self.record("chain.failed", state=task.state, errorClass=SELECTION, steps=len(task.chain))
        problem = OperationProblem(
            code="CHAIN_FAILED",
            message=f"In state {task.state!r} exactly one of these transitions must be possible: {names}.",
            details={"errorClass": SELECTION, "chain": True, "attemptedTransition": next(iter(state.transitions))},
        )
        return self._ended(self._ending(outcome=self._failed_start(), error=problem))

    def _ending(
        self, *, outcome: str = "", stopped: str = "", retry: str = "", error: OperationProblem | None = None
    ) -> Ending:
        task = self._task
        return Ending(
            state=task.state, version=task.version, context=task.context, outcome=outcome, terminal=bool(outcome),
            chain=task.chain, stopped=stopped, retry=retry, error=error,
        )  # fmt: skip

    def _ended(self, ending: Ending) -> Advance:
        """Adds the ending, and the failure that the instance shows from now on."""
        if ending.error is not None:
            failure = {"transition": self._task.transition, "code": ending.error.code, "message": ending.error.message}
            self.advance.failure = _encode(failure).decode()
        self.advance.ending = _encode(ending).decode()
        return self.advance
