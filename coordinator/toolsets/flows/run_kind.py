"""The part of this toolset that workers use: prepares a step of a flow, and plans its successors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from coordinator.steps.model import Failure, Outcome, Plan, Retry, StepRun, Work
from coordinator.steps.run_kind import Executor
from coordinator.store import Script
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules import planner, templates
from coordinator.toolsets.flows.rules.spec import Spec, unpack
from coordinator.toolsets.flows.store.flows import REPORT, FlowStore

Permits = Callable[[str, Caller, str], Awaitable[Caller | str]]
"""Called with a project, a workflow's creator and a tool's name. Returns the creator with their present permissions, or
a sentence that says why the creator may not call the tool now."""

TRIM_BATCH, MAX_BATCHES = 100, 1_000
"""The batch size of one trim script, and the most batches per sweep."""


class ToolCall(Work, frozen=True):
    """The work of a flow's step: a call of a tool on somebody's behalf."""

    caller: Caller | None = None
    """The verified caller who created the workflow, with their present permissions; None: the creator is unknown."""
    owner: str = ""
    """Whose states of servers the call uses, if not the workflow's."""


class FlowPlanner:
    """Plans the steps of flows (``coordinator.steps.run_kind.Planner``).

    Args:
        permits: asked before each attempt of a workflow whose creator is known.
    """

    def __init__(self, store: FlowStore, permits: Permits) -> None:
        self._store = store
        self._permits = permits

    def load(self, spec: bytes) -> Spec:
        return unpack(spec)

    async def prepare(self, step: StepRun, spec: Spec) -> Work | Outcome:
        """The step's call; a failure if its creator may not make it, or if a template has no value."""
        definition = spec.flow[step.key]
        if definition.tool is None:
            return Work(None)
        creator = spec.creator
        if creator is not None:
            permitted = await self._permits(step.project, creator, definition.tool)
            if isinstance(permitted, str):
                return Failure(permitted, "permission_denied", retryable=False)
            creator = permitted
        try:
            asked = _asked_for(definition.args)
            results = await self._results(step, spec, asked) if asked else None
            arguments = templates.resolve(definition.args, spec.given, results)
        except templates.TemplateError as error:
            return Failure(str(error), "template", retryable=False)
        retry = definition.retry or Retry()
        return ToolCall(definition.tool, arguments, definition.timeout_ms, retry, creator, spec.owner)

    def plan(self, step: StepRun, spec: Spec, outcome: Outcome) -> Plan:
        return planner.after(spec.flow, step.key, outcome)

    async def _results(self, step: StepRun, spec: Spec, names: Collection[str]) -> Mapping[str, Any]:
        """The results of these steps, by name. A failed step has null, or the text "state_lost"; a step that has not
        ended is left out."""
        keys = [key for key, one in spec.flow.items() if one.name in names]
        found = await self._store.results(step.project, int(step.run), keys)
        return {
            spec.flow[key].name: None if result is None else msgspec.json.decode(result)
            for key, result in found.items()
        }


class FlowRunKind:
    name = "flows"
    report: Script[Any] = REPORT

    def __init__(self, store: FlowStore, permits: Permits, executor: Executor) -> None:
        self._store = store
        self.planner = FlowPlanner(store, permits)
        self.executor = executor

    async def tidy(self, project: str) -> bool:
        """Deletes workflows whose retention has expired."""
        left = 0
        for _ in range(MAX_BATCHES):
            forgotten, left = await self._store.trim(project, TRIM_BATCH)
            if forgotten < TRIM_BATCH:
                break
        return left == 0


def _asked_for(args: Mapping[str, Any]) -> set[str]:
    """The names of the steps whose results are used in templates."""
    asked = (templates.reference(token) for _, token in templates.tokens(dict(args)))
    return {one.step for one in asked if one is not None and one.step}
