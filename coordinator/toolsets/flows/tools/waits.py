"""workflow_get with waitMs: what it waits for."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from coordinator.feed.subjects import Met, Reading
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.permissions import may_approve
from coordinator.toolsets.flows.rules.spec import unpack
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.waiting.reads import WaitingReads, version

_OPEN = ("running", "paused")
_SHOWN = ("running", "done", "failed", "cancelled")
"""Statuses of steps that have events: that a step waits for a worker, or for its time, has none."""


class _Standing(NamedTuple):
    """What is kept of a workflow while calls wait for it."""

    ended: bool
    gates: list[str]
    """The keys of gates that wait."""
    spec: bytes
    """The packed ``Spec``; empty if none waits."""


class WatchedFlows:
    """Workflows of any project; a key is a workflow's id."""

    def __init__(self, flows: FlowStore, waiting: WaitingReads) -> None:
        self._flows = flows
        self.source = waiting.source("flows", self._reading)

    async def _reading(self, project: str, key: str) -> Reading | None:
        flow = await self._flows.outline(project, int(key))
        if flow is None:
            return None
        steps = [(step.id, step.status, step.attempt, step.gate) for step in flow.steps if step.status in _SHOWN]
        gates = [step.key for step in flow.steps if step.gate]
        standing = _Standing(flow.row.status not in _OPEN, gates, flow.spec if gates else b"")
        return Reading(version(flow.row.status, steps), False, (key,), facts=standing)


def met(condition: str, caller: Caller | None) -> Met:
    """Whether a workflow has ended or, for ``attention``, has a gate that the caller may release."""
    return partial(_met, condition == "attention", caller)


def _met(attention: bool, caller: Caller | None, reading: Reading) -> bool:
    standing: _Standing = reading.facts
    if standing.ended or not attention or not standing.gates:
        return standing.ended
    spec = unpack(standing.spec)
    return any(may_approve(caller, spec.flow[key].approver_role) for key in standing.gates)
