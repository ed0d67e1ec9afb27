"""Runs a flow by its plans in memory, in any order that the test chooses: a small model of the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.steps.model import NewStep, Plan, Success
from coordinator.toolsets.flows.rules import planner
from coordinator.toolsets.flows.rules.spec import Flow

Choose = Callable[[list[str]], str]


class Machine:
    """One workflow."""

    def __init__(self, flow: Flow, results: dict[str, Any]) -> None:
        self._flow = flow
        self._results = results
        self.open: list[str] = []
        """Keys of the steps that can run, or be released, now."""
        self.ran: list[str] = []
        self._waits: dict[str, int] = {}
        self.status = "running"
        self.error = ""
        self._apply(planner.begin(flow))

    def run(self, choose: Choose) -> None:
        """Runs steps one by one until none is left."""
        while self.open and self.status == "running":
            key = choose(self.open)
            self.open.remove(key)
            self.ran.append(key)
            step = self._flow[key]
            value = None if step.tool is None else self._results.get(key)
            self._apply(planner.after(self._flow, key, Success(value)))

    def _apply(self, plan: Plan) -> None:
        for fork, branches in plan.forks:
            assert fork not in self._waits, "a fork ran twice"
            self._waits[fork] = branches
        for step in plan.create:
            self._create(step)
        if plan.arrive is not None:
            self._waits[plan.arrive.counter] -= 1
            if not self._waits[plan.arrive.counter]:
                self._create(plan.arrive.then)
        if plan.complete:
            assert not self.open, "others still ran"
            self.status = "completed"
        if plan.error:
            self.status, self.error = "failed", plan.error

    def _create(self, step: NewStep) -> None:
        (self.ran if step.state == "done" else self.open).append(step.key)
