"""Approvals as people see them: what is asked, what each answer leads to, and whether a person may give it.

For the command line and the console. Both answer by ``Decisions.answer``, as a caller's own submit would.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, NamedTuple

import msgspec

from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY, IdempotencyKey
from coordinator.toolsets.gateway.listener import Listener
from coordinator.toolsets.gateway.operations import WORKFLOW, Operations, SubmitRequest, new_operation
from coordinator.toolsets.gateway.rules import checks, guards, machine
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.graph import targets
from coordinator.toolsets.gateway.rules.guards import HUMAN, Principal
from coordinator.toolsets.gateway.snapshot import Snapshot
from coordinator.toolsets.gateway.store.audit import Answered, ApprovalPage, AuditStore, ListedApproval, OwnEntries
from coordinator.toolsets.gateway.store.instances import InstanceStore

APPROVAL = re.compile(r"hr_[0-9a-f]{8,64}")
"""The form of ids of approvals."""
MOST = 50
"""How many open approvals a page has at most: each is read with its instance."""

_decode = msgspec.json.Decoder().decode


class AnswerTarget(NamedTuple):
    """A state that an answer may lead to."""

    state: str
    description: str
    outcome: str
    """success or failure, if the workflow ends there; else empty."""


class AnswerChoice(NamedTuple):
    """A transition by which people may answer."""

    transition: str
    title: str
    description: str
    targets: list[AnswerTarget]
    """The state that it leads to, and those of its branches."""
    input_schema: dict[str, Any] | None
    """JSON Schema of its arguments; None: there are none."""
    arguments: dict[str, Any]
    """Arguments to begin with."""
    refusal: str
    """Why this principal may not give it, whatever the arguments; empty: they may."""


class Evidence(NamedTuple):
    kind: str
    transition: str
    at: int
    """In ms of the store's clock."""


class OpenApproval(NamedTuple):
    """A decision that an instance waits for. Times are ms of the store's clock."""

    id: str
    queue: str
    requester: str
    distinct: bool
    """Whether the requester must not answer (four eyes)."""
    asked_at: int
    asked_by: str
    declined: list[str]
    """Those who were asked through their clients, and gave no answer."""
    workflow: str
    definition: str
    title: str
    state: str
    version: int
    """What an answer has to state as the expected version."""
    goal: str
    guidance: str
    context: dict[str, Any]
    input: dict[str, Any]
    evidence: list[Evidence]
    """The last of it, oldest first."""
    deadline: int
    """When the instance times out; 0: never."""
    operation: str
    """The transition in progress, after which one can answer; empty: none."""
    answers: list[AnswerChoice]

    @property
    def refusal(self) -> str:
        """Why the principal may give none of the answers; empty: they may give one."""
        refusals = [answer.refusal for answer in self.answers]
        return "" if "" in refusals else next(iter(refusals), "There is no answer that people may give.")

    def problem(self, transition: str) -> str:
        """Why a transition is none of the answers; empty: it is one."""
        possible = [answer.transition for answer in self.answers]
        if transition in possible:
            return ""
        return f"{transition[:64]!r} is not a possible answer; people may take: {', '.join(possible) or 'none'}"


class OpenPage(NamedTuple):
    now: int
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[OpenApproval]


class Decisions:
    """The approvals of any project. Every method raises ToolFailure as ``Store.run`` says."""

    def __init__(self, operations: Operations, audit: AuditStore) -> None:
        self._operations = operations
        self._audit = audit

    @classmethod
    def of(cls, store: Store, settings: Settings, listener: Listener) -> Decisions:
        """Those of a process without the gateway's tools.

        Args:
            listener: to be closed by the caller.
        """
        audit = AuditStore(store, settings)
        times = settings.request_deadline_ms, settings.longest_wait_ms
        return cls(Operations(store, InstanceStore(store, settings), audit, listener, *times), audit)

    async def open(self, project: str, who: Principal, *, after: str = "", limit: int = MOST) -> OpenPage:
        """Open approvals with what is needed to answer them, the last one first. Two round trips.

        Args:
            who: whose right to answer is shown.
            after: ``OpenPage.next`` of the page before.
            limit: at most so many, and ``MOST``. Those that are answered meanwhile are left out.
        """
        page = await self._audit.approvals(project, False, after, min(limit, MOST))
        workflows = list(dict.fromkeys(row.workflow for row in page.rows))
        read = await asyncio.gather(*(self._snapshot(project, workflow) for workflow in workflows))
        snapshots = dict(zip(workflows, read, strict=True))
        approvals = (_open(row, snapshots[row.workflow], who) for row in page.rows)
        return OpenPage(page.now, page.next, [approval for approval in approvals if approval is not None])

    async def instance(self, project: str, id: str, who: Principal) -> tuple[Snapshot, list[AnswerChoice]] | None:
        """An instance, and the transitions by which people may leave its state; None: there is none of this id."""
        snapshot = await self._snapshot(project, id)
        return None if snapshot is None else (snapshot, answers(snapshot, who))

    async def entries(self, project: str, workflow: str, start: str = "", limit: int = 50) -> OwnEntries:
        """A page of the audit about an instance, the last entry first; raises as ``AuditStore.of_instance``.

        Args:
            start: ``OwnEntries.next`` of the page before.
        """
        if not WORKFLOW.fullmatch(workflow):
            return OwnEntries([], "", False)  # an id becomes part of a key, so its form is checked
        return await self._audit.of_instance(project, workflow, start, limit)

    async def closed(self, project: str, *, after: str = "", limit: int = 50) -> ApprovalPage:
        """Approvals that were answered or withdrawn, the last one first, as long as their instances are kept."""
        return await self._audit.approvals(project, True, after, limit)

    async def approval(self, project: str, id: str, who: Principal) -> tuple[Answered, OpenApproval | None] | None:
        """An approval, and what is needed to answer it if it is open; None: there is none of this id."""
        record = await self._audit.approval(project, id) if APPROVAL.fullmatch(id) else None
        if record is None:
            return None
        if record.status != "pending":
            return record, None
        row = ListedApproval(**msgspec.structs.asdict(record), id=id)
        approval = _open(row, await self._snapshot(project, record.workflow), who)
        if approval is None:
            # The instance has moved on meanwhile, perhaps to another approval.
            return (again, None) if (again := await self._audit.approval(project, id)) else None
        return record, approval

    async def answer(
        self,
        project: str,
        who: Principal,
        approval: OpenApproval,
        transition: str,
        arguments: dict[str, Any],
        request: IdempotencyKey = NO_KEY,
    ) -> Snapshot:
        """Answers an approval as it was shown, and waits for the end of the operation.

        Args:
            approval: only if the instance has its version still.
            transition: the ``transition`` of one of its answers.

        Raises:
            Rejected: with one of the gateway's codes.
        """
        if problem := approval.problem(transition):
            raise Rejected(checks.INVALID, problem)
        submit = SubmitRequest(
            project, who, approval.workflow, approval.version, transition, arguments, request, new_operation()
        )
        return await self._operations.submit(submit)

    async def _snapshot(self, project: str, workflow: str) -> Snapshot | None:
        try:
            return await self._operations.get(project, workflow)
        except Rejected:  # it has just been deleted
            return None


def _open(row: ListedApproval, snapshot: Snapshot | None, who: Principal) -> OpenApproval | None:
    """What is needed to answer an approval; None: the instance does not wait for it any more."""
    instance = snapshot.instance if snapshot is not None else None
    open_one = next((each for each in instance.approvals if each.id == row.id), None) if instance is not None else None
    if snapshot is None or instance is None or open_one is None:
        return None
    workflow = snapshot.workflow
    state = workflow.states[instance.state]
    return OpenApproval(
        row.id,
        row.queue,
        row.requester,
        row.distinct,
        row.asked_at,
        row.transition,
        _decode(open_one.declined or "[]"),
        snapshot.id,
        instance.definition,
        workflow.title,
        instance.state,
        instance.version,
        state.goal or state.description,
        state.guidance,
        _decode(instance.context),
        _decode(instance.input),
        [evidence_of(text) for text in instance.last_evidence],
        instance.deadline,
        instance.transition,
        answers(snapshot, who),
    )


def answers(snapshot: Snapshot, who: Principal) -> list[AnswerChoice]:
    """The transitions by which people may leave the state that an instance is in, and whether this principal may."""
    workflow, at = snapshot.workflow, snapshot.circumstances(who)
    requesters = [approval.requester for approval in snapshot.instance.approvals if approval.distinct]
    choices = []
    for name, way in workflow.states[snapshot.instance.state].transitions.items():
        if way.actor != HUMAN:
            continue
        rejected = checks.actor_refusal(way, who, requesters)
        failing = next((guard for guard in way.guards if guards.refused([guard], at)), None)
        refusal = rejected.message if rejected else guards.sentence(failing) if failing else ""
        reached = [
            AnswerTarget(target, workflow.states[target].description, machine.outcome_of(workflow, target))
            for target in dict.fromkeys(targets(way))
        ]
        arguments = machine.prefilled(way, at.scope)
        choices.append(
            AnswerChoice(name, way.title or name, way.description, reached, way.input_schema, arguments, refusal)
        )
    return choices


def evidence_of(text: str) -> Evidence:
    """Evidence as instances keep it."""
    at, _, rest = text.partition(" ")
    about = _decode(rest)
    return Evidence(about["kind"], about["transition"], int(at))
