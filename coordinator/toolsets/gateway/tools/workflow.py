"""workflow.start, workflow.get and workflow.submit."""

from __future__ import annotations

from typing import Any

from coordinator.settings.gateway.model import PROXY
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.gateway.contract.base import Link
from coordinator.toolsets.gateway.contract.workflow import Get, Start, Submit, WorkflowAnswer
from coordinator.toolsets.gateway.operations import StartRequest, SubmitRequest, new_operation
from coordinator.toolsets.gateway.rules import checks, machine
from coordinator.toolsets.gateway.rules.checks import Called, Rejected
from coordinator.toolsets.gateway.rules.guards import Circumstances, Principal
from coordinator.toolsets.gateway.rules.resolve import READY, session_of
from coordinator.toolsets.gateway.rules.scope import Scope
from coordinator.toolsets.gateway.snapshot import Snapshot
from coordinator.toolsets.gateway.tools.answers import answer, refusal_of, rejected
from coordinator.toolsets.gateway.tools.desk import Desk
from coordinator.toolsets.gateway.tools.discovery import sees
from coordinator.toolsets.request_id import keyed
from coordinator.toolsets.tool import Call, Criticality, Reply, Tool

_START = (
    "Start a workflow at its initial state, or a session with a capability (definitionId proxy_default, input "
    "{capability: id, ...arguments}; with arguments it is called at once, and context.lastResult is what it returned). "
    "Answers with the state and links to everything that can be done next."
)
_GET = "How a workflow stands, with a link for every legal next move. Use it whenever an answer was lost."
_SUBMIT = (
    "Take a transition, as its link says. expectedVersion must be the workflow's present version: if somebody else was "
    "faster, nothing happens and the answer is STALE_WORKFLOW_VERSION. inFlight in the answer means that it goes on; "
    "look again with workflow.get."
)


def tools(desk: Desk) -> tuple[Tool, ...]:
    """The tools."""
    links, refusal = desk.links, refusal_of(desk.links)

    async def start(call: Call, args: Start) -> WorkflowAnswer | Reply:
        principal = Principal.of(call.caller)
        request = keyed(principal.id, args.request_id, "workflow.start", args.definition_id, args.input)
        try:
            if args.definition_id == PROXY:
                snapshot = await _start_session(desk, call.project, principal, args, request)
            else:
                snapshot = await _start_workflow(desk, call.project, principal, args, request)
        except Rejected as refused:
            hurried = not _may_wait(desk, args)
            if (repeated := await desk.operations.repeated(call.project, request, hurried=hurried)) is not None:
                # It began under definitions that this process does not have, or has no more.
                return answer(repeated, principal, links)
            asked = args.input.get("capability") if args.definition_id == PROXY else None
            capability = asked if isinstance(asked, str) else ""
            await desk.operations.refuse(call.project, principal, args.definition_id, capability, refused)
            return rejected(refused, principal, links, more=_ways_out(desk, args, principal))
        return answer(snapshot, principal, links)

    async def get(call: Call, args: Get) -> WorkflowAnswer | Reply:
        principal = Principal.of(call.caller)
        try:
            snapshot = await desk.operations.get(call.project, args.workflow_id)
        except Rejected as refused:
            return rejected(refused, principal, links)
        return answer(snapshot, principal, links)

    async def submit(call: Call, args: Submit) -> WorkflowAnswer | Reply:
        principal = Principal.of(call.caller)
        asked = (args.workflow_id, args.expected_version, args.transition, args.arguments)
        request = keyed(principal.id, args.request_id, "workflow.submit", *asked)
        try:
            hurried = not submitting(args)
            submission = SubmitRequest(call.project, principal, *asked, request, new_operation(), hurried)
            snapshot = await desk.operations.submit(submission)
        except Rejected as refused:
            return rejected(refused, principal, links)
        return answer(snapshot, principal, links)

    def starting(args: Start) -> bool:
        return _may_wait(desk, args)

    def submitting(args: Submit) -> bool:
        return desk.operations.may_wait(args.workflow_id, args.transition)

    return (
        Tool(
            "workflow.start",
            _START,
            Start,
            (WorkflowAnswer,),
            start,
            waits=starting,
            parks=True,
            destructive=True,
            open_world=True,
            refusal=refusal,
        ),
        Tool("workflow.get", _GET, Get, (WorkflowAnswer,), get, read_only=True, idempotent=True, refusal=refusal),
        Tool(
            "workflow.submit",
            _SUBMIT,
            Submit,
            (WorkflowAnswer,),
            submit,
            waits=submitting,
            parks=True,
            criticality=Criticality.CRITICAL,
            destructive=True,
            open_world=True,
            refusal=refusal,
        ),
    )


async def _start_workflow(
    desk: Desk, project: str, principal: Principal, args: Start, request: IdempotencyKey
) -> Snapshot:
    packed = desk.catalogue.definition(args.definition_id)
    if packed is None:
        raise checks.unknown_definition(args.definition_id)
    workflow = packed.bundle.definitions[args.definition_id]
    given = checks.checked(workflow.input_schema, args.input, "input")
    hurried = not _may_wait(desk, args)
    return await desk.operations.start(
        StartRequest(project, principal, args.definition_id, packed, given, request=request, hurried=hurried)
    )


async def _start_session(
    desk: Desk, project: str, principal: Principal, args: Start, request: IdempotencyKey
) -> Snapshot:
    """A session with a capability; with arguments it is called at once."""
    given = args.input
    name = given.get("capability")
    if isinstance(name, str) and not sees(desk.catalogue, name, principal, _told(given)):
        raise checks.unknown_capability(name)
    called = checks.called(desk.catalogue, given)
    capability = called.capability
    packed = desk.catalogue.session(capability.id)
    if packed is None:
        raise checks.unknown_definition(PROXY)
    if called.arguments is not None:
        _check_call(called, principal, given)
    hours = desk.catalogue.gateway.limits.proxy_hours
    return await desk.operations.start(
        StartRequest(
            project,
            principal,
            PROXY,
            packed,
            given,
            request=request,
            capability=capability.id,
            arguments=called.arguments,
            session_ms=hours * 3_600_000,
            hurried=not _may_wait(desk, args),
        )
    )


def _told(given: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments in the input of a session, as guards would see them; None: there are none."""
    rest = {key: value for key, value in given.items() if key != "capability"}
    if not rest:
        return None
    nested = rest.get("arguments")
    return {**nested, **rest} if isinstance(nested, dict) else rest


def _check_call(called: Called, principal: Principal, given: dict[str, Any]) -> None:
    """Refuses a call whose guards do not hold, before there is a session."""
    transition = session_of(called.capability).states[READY].transitions[called.capability.id]
    checks.passed(transition, Circumstances(principal, Scope({}, called.arguments or {}, given)))


def _ways_out(desk: Desk, args: Start, principal: Principal) -> list[Link]:
    """Links of a refused start: the same again, with the schema of the input."""
    wanted = args.definition_id
    if wanted == PROXY and isinstance(args.input.get("capability"), str):
        wanted = args.input["capability"]
    listed = desk.catalogue.items.get(wanted)
    if listed is None or not sees(desk.catalogue, listed.id, principal, _told(args.input)):
        return [desk.links.home(), desk.links.search()]
    return [*desk.links.start(listed, with_schema=True), desk.links.describe(listed.id)]


def _may_wait(desk: Desk, args: Start) -> bool:
    """Whether a start may take long."""
    if args.definition_id == PROXY:
        capability = args.input.get("capability")
        packed = desk.catalogue.session(capability) if isinstance(capability, str) and len(args.input) > 1 else None
        return packed is not None and not desk.operations.durations.quick((packed.hash, PROXY, str(capability)))
    packed = desk.catalogue.definition(args.definition_id)
    if packed is None:
        return False
    workflow = packed.bundle.definitions[args.definition_id]
    if not machine.entry_executes(workflow, workflow.initial_state):
        return False
    return not desk.operations.durations.quick((packed.hash, args.definition_id, ""))
