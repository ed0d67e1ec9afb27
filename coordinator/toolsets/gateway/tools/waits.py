"""workflow.get with waitMs: what it waits for."""

from __future__ import annotations

from functools import partial

from coordinator.feed.subjects import Met, Reading
from coordinator.toolsets.gateway.operations import Operations
from coordinator.toolsets.gateway.rules import machine
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.guards import HUMAN, Principal
from coordinator.toolsets.gateway.snapshot import Snapshot
from coordinator.toolsets.waiting.reads import WaitingReads, version


class WatchedInstances:
    """Instances of any project; a key is an instance's id."""

    def __init__(self, operations: Operations, waiting: WaitingReads) -> None:
        self._operations = operations
        self.source = waiting.source("gateway", self._reading)

    async def _reading(self, project: str, key: str) -> Reading | None:
        try:
            snapshot = await self._operations.get(project, key)
        except Rejected:
            return None
        at = snapshot.instance
        # That an operation has begun, and waits for its executor, has no event of its own.
        facts = (at.status, at.state, at.version, at.failure, at.failed_at, [approval.id for approval in at.approvals])
        return Reading(version(facts), False, (key,), facts=snapshot)


def met(condition: str, principal: Principal) -> Met:
    """Whether an instance has ended or, for ``attention``, nothing goes on and the caller may take it further."""
    return partial(_met, condition == "attention", principal)


def _met(attention: bool, principal: Principal, reading: Reading) -> bool:
    snapshot: Snapshot = reading.facts
    instance = snapshot.instance
    if instance.ended or instance.operation or not attention:
        return instance.ended
    own = any(approval.distinct and approval.requester == principal.id for approval in instance.approvals)
    moves = dict(machine.offered(snapshot.workflow, instance.state, snapshot.circumstances(principal))).values()
    return any(not machine.actor_problem(move, principal.roles) and not (own and move.actor == HUMAN) for move in moves)
