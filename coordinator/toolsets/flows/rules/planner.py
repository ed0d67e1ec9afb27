"""Plans the successors of a step: the execution rules of a flow, as pure functions.

The worker calls this with the step's outcome, and passes the plan to the script that records the outcome; the same
script creates the next steps and counts joins. A plan does not depend on other steps: only the script
knows which branches have reached a join.

A step that does nothing always has the result null, so it is planned together with its predecessor and created as
done; no worker sees it. If it ends a parallel branch, or is the join, it does go through a worker, because only the
store knows whether other branches are still running.
"""

from __future__ import annotations

from typing import Any

from coordinator.steps.model import STATE_LOST, Arrival, Failure, NewStep, Outcome, Plan
from coordinator.toolsets.flows.rules import conditions
from coordinator.toolsets.flows.rules.spec import START, Flow, Step


def begin(flow: Flow, *, delayed: bool = False) -> Plan:
    """The first steps of a new workflow. The plan never ends the workflow, because only workers end workflows.

    Args:
        delayed: whether the first step is delayed; then nothing after it is created yet.
    """
    plan = _PlanBuilder(flow).enter(START).plan()
    return Plan((_new(START, flow[START]),)) if delayed or plan.complete or plan.error else plan


def after(flow: Flow, key: str, outcome: Outcome) -> Plan:
    """The successors of the step at ``key``.

    A failure ends the workflow, unless the step has ``on_error: continue``. Then the workflow goes on
    as if the step had returned what ``result_of_failed`` says.

    Args:
        flow: a checked flow.
        outcome: the final outcome; retries are over.
    """
    step = flow[key]
    if isinstance(outcome, Failure):
        if step.on_error == "fail":
            return Plan(error=f"step {step.name!r} failed: {outcome.message}")
        return _PlanBuilder(flow).follow(key, result_of_failed(outcome.type)).plan()
    return _PlanBuilder(flow).follow(key, outcome.value).plan()


def result_of_failed(type: str) -> str | None:
    """The result of a step that has failed for good, as conditions and templates see it.

    Args:
        type: the class of its failure.
    """
    return STATE_LOST if type == STATE_LOST else None


class _PlanBuilder:
    """Collects the plan after a step."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._create: list[NewStep] = []
        self._forks: list[tuple[str, int]] = []
        self._arrive: Arrival | None = None
        self._complete = False
        self._error = ""

    def plan(self) -> Plan:
        if self._error:
            # In a failed workflow, no further step may begin.
            return Plan(tuple(step for step in self._create if step.state == "done"), error=self._error)
        return Plan(tuple(self._create), tuple(self._forks), self._arrive, self._complete, self._error)

    def enter(self, key: str) -> _PlanBuilder:
        """Creates a step. If the step does nothing, also creates its successors."""
        step = self._flow[key]
        if step.tool is None and not step.gate and step.join is None and not step.delay_ms:
            self._create.append(NewStep(key, "done"))
            return self.follow(key, None)
        self._create.append(_new(key, step))
        return self

    def follow(self, key: str, value: Any) -> _PlanBuilder:
        """Adds the successors of a step that returned ``value``."""
        step = self._flow[key]
        if step.done:
            self._complete = True
        elif step.next is not None:
            self.enter(step.next)
        elif step.parallel:
            self._forks.append((key, len(step.parallel)))
            for branch in step.parallel:
                self.enter(branch)
        elif step.join is not None:
            self._arrive = Arrival(step.fork or "", _new(step.join, self._flow[step.join]))
        else:
            arm = next((arm for arm in step.branch if conditions.holds(arm.condition, value)), None)
            if arm is not None:
                self.enter(arm.then)
            else:
                self._error = f"no branch matched the result of step {step.name!r}"
        return self


def _new(key: str, step: Step) -> NewStep:
    if step.gate:
        return NewStep(key, "gate", expires_ms=step.timeout_ms)
    return NewStep(key, "ready", step.queue or "", step.priority or "", step.delay_ms)
