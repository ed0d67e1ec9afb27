"""Answers about instances, and refusals, in the gateway's own shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from coordinator.errors import ToolFailure
from coordinator.settings.sections.gateway.model import PROXY
from coordinator.toolsets.gateway.contract.base import Hop, Link, Problem, Refusal
from coordinator.toolsets.gateway.contract.workflow import (
    EvidenceShown,
    Guidance,
    LastFailure,
    PendingHuman,
    UnderWay,
    WorkflowAnswer,
)
from coordinator.toolsets.gateway.rules import checks
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.links import Links
from coordinator.toolsets.gateway.rules.task import Ending, HopTaken, OperationProblem
from coordinator.toolsets.gateway.snapshot import Snapshot, retry_ms
from coordinator.toolsets.gateway.store.instances import Instance
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import Reply

_decode = msgspec.json.decode


class _Position(NamedTuple):
    """Where an instance is."""

    state: str
    version: int
    context: dict[str, Any]
    terminal: bool
    outcome: str


def _position(snapshot: Snapshot) -> _Position:
    """The instance's position after the requested operation; without one, its current position."""
    ending, instance = snapshot.ending, snapshot.instance
    if ending is not None:
        return _Position(ending.state, ending.version, ending.context, ending.terminal, ending.outcome)
    return _Position(instance.state, instance.version, _decode(instance.context), instance.ended, instance.outcome)


def answer(snapshot: Snapshot, principal: Principal, links: Links) -> WorkflowAnswer | Reply:
    """The answer about an instance; a refusal if the requested operation has failed."""
    ending = snapshot.ending
    if ending is not None and ending.error is not None:
        return failed(snapshot, ending, ending.error, principal, links)
    instance = snapshot.instance
    at = _position(snapshot)
    present = at.version == instance.version
    made = WorkflowAnswer(
        workflow_id=snapshot.id,
        definition_id=instance.definition,
        state=at.state,
        version=at.version,
        context=at.context,
        links=[],
    )
    if at.terminal:
        made.terminal = True
        stated = snapshot.workflow.states[at.state].outcome
        made.outcome = at.outcome if stated is not None or at.outcome != "success" else UNSET
    elif instance.operation and present:
        made.links = [links.myself(snapshot.id)]
        made.in_flight = UnderWay(
            transition=instance.transition, since=iso(instance.since), retry_after_ms=retry_ms(instance)
        )
    else:
        circumstances = snapshot.circumstances(principal)
        made.links = links.transitions(
            snapshot.id, snapshot.workflow, at.state, at.version, circumstances, ending.retry if ending else ""
        ) or [links.myself(snapshot.id)]  # nothing is legal for this caller now; only ended instances have no links
    if present:
        made.links += [links.result(snapshot.id, kept.key) for kept in snapshot.kept]
    if ending is not None and ending.chain:
        made.chain = [_hop(hop) for hop in ending.chain]
    if ending is not None and ending.stopped:
        made.chain_stopped = ending.stopped
    _add_guidance(made, snapshot, at.state)
    if present:
        _add_facts(made, instance)
    return made


def failed(snapshot: Snapshot, ending: Ending, problem: OperationProblem, principal: Principal, links: Links) -> Reply:
    """The answer to a transition whose executor failed, or whose chain cannot go on."""
    moves = [links.myself(snapshot.id)]
    if problem.code == checks.STALE:
        pass  # only the link to the current state
    elif ending.terminal:
        moves.append(_start_again(snapshot, links))
    else:
        at = snapshot.circumstances(principal)
        moves += links.transitions(snapshot.id, snapshot.workflow, ending.state, ending.version, at, ending.retry)
    body = Refusal(
        workflow_id=snapshot.id,
        state=ending.state,
        version=ending.version,
        error=Problem(code=problem.code, message=problem.message, details=problem.details or UNSET),
        links=moves,
        chain=[_hop(hop) for hop in ending.chain] or UNSET,
    )
    return Reply(structured=body, is_error=True)


def rejected(refusal: Rejected, principal: Principal, links: Links, *, more: list[Link] | None = None) -> Reply:
    """The answer to a call that was rejected before anything began.

    Args:
        more: the links, if the call is not about an instance.
    """
    body = Refusal(
        error=Problem(code=refusal.code, message=refusal.message, details=refusal.details or UNSET),
        links=more if more is not None else [links.home(), links.search()],
    )
    snapshot = refusal.snapshot
    if isinstance(snapshot, Snapshot):
        instance = snapshot.instance
        body.workflow_id, body.state, body.version = snapshot.id, instance.state, instance.version
        body.links = [links.myself(snapshot.id)]
        if refusal.code != checks.STALE and not instance.ended and not instance.operation:
            at = snapshot.circumstances(principal)
            body.links += links.transitions(snapshot.id, snapshot.workflow, instance.state, instance.version, at)
    return Reply(structured=body, is_error=True)


def refusal_of(links: Links) -> Any:
    """Makes a function that shapes failures of the store, permissions and arguments as the gateway's refusals."""

    def shape(failure: ToolFailure) -> Reply:
        details: dict[str, Any] = {"kind": failure.kind}
        if failure.retry_after_ms is not None:
            details["retryAfterMs"] = failure.retry_after_ms
        body = Refusal(
            error=Problem(code=failure.code, message=failure.message, details=details),
            links=[links.home(), links.search()],
        )
        return Reply(structured=body, is_error=True)

    return shape


def _add_guidance(made: WorkflowAnswer, snapshot: Snapshot, state: str) -> None:
    definition = snapshot.workflow.states[state]
    if definition.goal or definition.guidance:
        made.guidance = Guidance(goal=definition.goal or UNSET, instructions=definition.guidance or UNSET)


def _add_facts(made: WorkflowAnswer, instance: Instance) -> None:
    """Adds evidence, open approvals and the last failure."""
    evidence = []
    for line in instance.last_evidence:
        at, _, text = line.partition(" ")
        about = _decode(text)
        evidence.append(EvidenceShown(kind=about["kind"], transition=about["transition"], at=iso(int(at))))
    if evidence:
        made.evidence = evidence
    if instance.approvals:
        made.pending_human = [
            PendingHuman(request_id=approval.id, queue=approval.queue, requested_at=iso(approval.asked_at))
            for approval in instance.approvals
        ]
    if instance.failure:
        failure = _decode(instance.failure)
        made.last_failure = LastFailure(
            transition=failure["transition"],
            code=failure["code"],
            message=failure["message"],
            at=iso(instance.failed_at),
        )


def _start_again(snapshot: Snapshot, links: Links) -> Link:
    definition = snapshot.instance.definition
    return links.start_again(definition) if definition != PROXY else links.home()


def _hop(hop: HopTaken) -> Hop:
    return Hop(from_state=hop.from_state, transition=hop.transition, to_state=hop.to_state, version=hop.version)
