"""workflow.start, workflow.get and workflow.submit."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from coordinator.settings.sections.gateway.model import PROXY
from coordinator.steps.states import owner_of_caller
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.canonical import canonical
from coordinator.toolsets.deferral import Pending, Stopped
from coordinator.toolsets.gateway.apart import apart
from coordinator.toolsets.gateway.contract.base import Link
from coordinator.toolsets.gateway.contract.workflow import WAITS_FOR, Get, ResultPage, Start, Submit, WorkflowAnswer
from coordinator.toolsets.gateway.durations import Key
from coordinator.toolsets.gateway.operations import StartRequest, SubmitRequest, new_operation
from coordinator.toolsets.gateway.rules import checks, machine
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.guards import Circumstances, Principal
from coordinator.toolsets.gateway.rules.scope import Scope
from coordinator.toolsets.gateway.rules.visibility import sees, visible
from coordinator.toolsets.gateway.snapshot import Snapshot, was_cancelled
from coordinator.toolsets.gateway.tools.answers import answer, refusal_of, rejected
from coordinator.toolsets.gateway.tools.approvals import DECISION, arguments_of, gate_of, left_gate, question
from coordinator.toolsets.gateway.tools.backend import Backend
from coordinator.toolsets.gateway.tools.results import result_page
from coordinator.toolsets.gateway.tools.waits import WatchedInstances, met
from coordinator.toolsets.questions import VIA_CLIENT, Question
from coordinator.toolsets.questions import Answer as Answered
from coordinator.toolsets.request_id import keyed
from coordinator.toolsets.slots import slot_of
from coordinator.toolsets.tool import AGENT_HEADER, Call, Criticality, Deferral, Reply, Tool
from coordinator.toolsets.waiting.reads import Waited, check, waited
from coordinator.toolsets.waiting.tasks import waiting_read

_START = (
    "Start a workflow at its initial state. To use a single capability, pass definitionId proxy_default and input "
    "{capability: id, ...arguments}; with arguments it is called at once, and context.lastResult has its result. "
    "Returns the state, and links to everything that can be done next."
)
_GET = (
    "The present state of a workflow, with a link for every legal next move. Use it whenever an answer was lost. "
    "waitMs waits for waitFor. A value of context with truncated is the beginning of a longer one: result reads it."
)
_SUBMIT = (
    "Take a transition, with the arguments of its link. expectedVersion must be the workflow's present version. If "
    "somebody else was faster, nothing happens and the error is STALE_WORKFLOW_VERSION. inFlight in the answer: the "
    "transition is still being carried out; wait with workflow.get, waitFor attention."
)


class Operation(msgspec.Struct, array_like=True, frozen=True):
    """What a start or a submit that has become a task consists of."""

    workflow: str
    operation: str
    own: bool
    """Whether it is the transition of the call, which the caller may stop."""


class Empty(msgspec.Struct):
    """Nothing to say."""


class _Haste(NamedTuple):
    hurried: bool
    deferred: bool


class Workflows:
    """The handlers of the tools that start, show and advance instances."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._operations = backend.operations
        self._waiting = backend.waiting
        self._watched = WatchedInstances(backend.operations, backend.waiting)
        self._links = backend.links

    async def start(self, call: Call, args: Start) -> WorkflowAnswer | Reply | Question | Pending:
        """Starts a workflow, or a session with a capability."""
        principal = Principal.of(call.caller)
        if call.answer is not None:
            return await self._decided(call, principal, call.answer)
        request = keyed(principal.id, args.request_id, "workflow.start", canonical(args))
        try:
            if args.definition_id == PROXY:
                snapshot = await self._start_session(call, principal, args, request)
            else:
                snapshot = await self._start_workflow(call, principal, args, request)
        except Rejected as refused:
            haste = _Haste(not self.start_may_wait(args), call.can_defer)
            if (repeated := await self._operations.repeated(call.project, request, haste)) is not None:
                # The same call began earlier, with definitions that this process does not have (any more).
                return self._answer(call, repeated, principal)
            called_directly = args.input.get("capability") if args.definition_id == PROXY else None
            capability = called_directly if isinstance(called_directly, str) else ""
            await self._operations.refuse(call.project, principal, args.definition_id, capability, refused)
            return rejected(refused, principal, self._links, more=self._links_of_refused(args, principal))
        return self._answer(call, snapshot, principal)

    async def get(self, call: Call, args: Get) -> WorkflowAnswer | Reply | Question:
        """An instance and its next moves; with waitMs, when it has come to a state. If the caller waits for what needs
        them, the person behind their client is asked about approvals."""
        if call.answer is not None:
            decided = await self._decided(call, Principal.of(call.caller), call.answer)
            if isinstance(decided, Reply):
                return decided
        if args.result is not None or args.offset is not None:
            return await result_page(self._backend, call, args)
        condition = check(args.wait_ms, args.wait_for, args.after, WAITS_FOR)
        made = await self._get(call, args)
        if condition is None or isinstance(made, Reply):
            return made
        outcome = await self._waiting.wait(
            call,
            self._watched.source,
            args.workflow_id,
            args.wait_ms or 0,
            changed=condition == "changed",
            after=args.after,
            met=met(condition, Principal.of(call.caller)),
        )
        asks = condition == "attention" and outcome.met and call.can_ask
        return await self._get(call, args, waited(outcome), asks)

    async def _get(
        self, call: Call, args: Get, after_wait: Waited | None = None, asks: bool = False
    ) -> WorkflowAnswer | Reply | Question:
        principal = Principal.of(call.caller)
        try:
            snapshot = await self._operations.get(call.project, args.workflow_id)
        except Rejected as refused:
            return rejected(refused, principal, self._links)
        made = answer(snapshot, principal, self._links)
        if isinstance(made, WorkflowAnswer) and after_wait is not None:
            made.waited = after_wait
        return (asks and question(snapshot, principal, made)) or made

    async def submit(self, call: Call, args: Submit) -> WorkflowAnswer | Reply | Question | Pending:
        """Takes a transition from the version that the caller has seen."""
        principal = Principal.of(call.caller)
        if call.answer is not None:
            return await self._decided(call, principal, call.answer)
        wanted = (args.workflow_id, args.expected_version, args.transition, args.arguments)
        request = keyed(principal.id, args.request_id, "workflow.submit", canonical(args))
        try:
            hurried = not self.submit_may_wait(args)
            submission = SubmitRequest(
                call.project, principal, *wanted, request, new_operation(), hurried, call.can_defer, owner=_owner(call)
            )
            snapshot = await self._operations.submit(submission)
        except Rejected as refused:
            return rejected(refused, principal, self._links)
        return self._answer(call, snapshot, principal, own=True)

    async def ended(self, call: Call, state: Operation) -> WorkflowAnswer | Reply | Question | Pending | Stopped:
        """What a start or a submit has come to that has become a task."""
        principal = Principal.of(call.caller)
        if call.answer is not None:
            return await self._decided(call, principal, call.answer)
        try:
            snapshot = await self._operations.get(call.project, state.workflow, operation=state.operation)
        except Rejected as refused:
            return rejected(refused, principal, self._links)
        if was_cancelled(snapshot.ending):
            return Stopped()
        if snapshot.ending is None and snapshot.instance.operation != state.operation:
            # It ended so long ago that only the instance tells of it; later operations belong to other calls.
            return answer(snapshot, principal, self._links)
        if left_gate(snapshot):
            # Somebody has decided since, perhaps in this task.
            return answer(snapshot._replace(ending=None), principal, self._links)
        return self._answer(call, snapshot, principal, own=state.own)

    async def stop(self, call: Call, state: Operation) -> Empty:
        """Stops the transition that a submit has begun. An instance that was started goes on."""
        if state.own:
            try:
                await self._operations.stop(call.project, Principal.of(call.caller), state.workflow, state.operation)
            except Rejected:
                pass  # deleted meanwhile: nothing goes on
        return Empty()

    def _answer(
        self, call: Call, snapshot: Snapshot, principal: Principal, *, own: bool = False
    ) -> WorkflowAnswer | Reply | Question | Pending:
        """The answer about an instance; or the question whose answer it waits for; or that the operation goes on.

        Args:
            own: whether the operation is a submit of this call, so that it may stop it.
        """
        answered, instance = answer(snapshot, principal, self._links), snapshot.instance
        if call.can_defer and snapshot.ending is None and instance.operation:
            what = f"the transition {instance.transition!r}" if instance.transition else "what follows the start"
            return Pending(
                state=Operation(snapshot.id, instance.operation, own),
                ttl_ms=instance.session_ms or self._backend.instances.retention_ms,
                message=f"{what} is being carried out",
                otherwise=answered,
            )
        return (call.can_ask and question(snapshot, principal, answered)) or answered

    async def _decided(
        self, call: Call, principal: Principal, answered: Answered
    ) -> WorkflowAnswer | Reply | Question | Pending:
        """Takes the transition that a person has chosen, once; without a choice, the answer is the instance."""
        gate = gate_of(answered.state)
        try:
            if answered.action != "accept":
                await self._operations.decline(call.project, gate.workflow, gate.version, principal)
                snapshot = await self._operations.get(call.project, gate.workflow)
                return answer(snapshot, principal, self._links)
            decision = gate.workflow, gate.version, answered.content[DECISION]
            snapshot = await self._operations.get(call.project, gate.workflow)
            transition = snapshot.workflow.states[snapshot.instance.state].transitions.get(decision[2])
            arguments = arguments_of(transition, answered.content) if transition is not None else {}
            request = keyed(principal.id, f"answer {answered.once}", "workflow.submit", *decision, answered.content)
            hurried = not self._operations.may_wait(gate.workflow, decision[2])
            submission = SubmitRequest(
                call.project,
                principal,
                *decision,
                arguments,
                request,
                new_operation(),
                hurried,
                call.can_defer,
                VIA_CLIENT,
            )
            snapshot = await self._operations.submit(submission)
        except Rejected as refused:
            return rejected(refused, principal, self._links)
        return self._answer(call, snapshot, principal, own=True)

    def start_may_wait(self, args: Start) -> bool:
        key = self._executed_by(args)
        return key is not None and not self._operations.durations.quick(key)

    def submit_may_wait(self, args: Submit) -> bool:
        return self._operations.may_wait(args.workflow_id, args.transition)

    async def _start_workflow(self, call: Call, principal: Principal, args: Start, request: IdempotencyKey) -> Snapshot:
        """A workflow in its initial state."""
        packed = self._backend.catalogue.definition(args.definition_id)
        if packed is None:
            raise checks.unknown_definition(args.definition_id, self._backend.catalogue.workflows)
        workflow = packed.bundle.definitions[args.definition_id]
        inputs = await apart(args.input, checks.checked, workflow.input_schema, args.input, "input")
        return await self._operations.start(
            StartRequest(
                call.project,
                principal,
                args.definition_id,
                packed,
                inputs,
                request=request,
                hurried=not self.start_may_wait(args),
                deferred=call.can_defer,
            )
        )

    async def _start_session(self, call: Call, principal: Principal, args: Start, request: IdempotencyKey) -> Snapshot:
        """A session with a capability; with arguments it is called at once."""
        inputs = args.input
        name = inputs.get("capability")
        catalogue = self._backend.catalogue
        if isinstance(name, str) and (
            name not in catalogue.capabilities or not sees(catalogue, name, principal, checks.call_arguments(inputs))
        ):
            known = (item.id for item in visible(catalogue, principal) if item.id in catalogue.capabilities)
            raise checks.unknown_capability(name, known)
        called = await apart(inputs, checks.called, self._backend.catalogue, inputs)
        capability = called.capability
        packed = self._backend.catalogue.session(capability.id)
        if packed is None:
            raise checks.unknown_definition(PROXY, ())
        if called.arguments is not None:
            # before a session is created for it
            checks.passed(capability.guards, Circumstances(principal, Scope({}, called.arguments, inputs)))
        hours = self._backend.catalogue.gateway.limits.proxy_hours
        return await self._operations.start(
            StartRequest(
                call.project,
                principal,
                PROXY,
                packed,
                inputs,
                request=request,
                capability=capability.id,
                arguments=called.arguments,
                session_ms=hours * 3_600_000,
                owner=_owner(call),
                hurried=not self.start_may_wait(args),
                deferred=call.can_defer,
            )
        )

    def _links_of_refused(self, args: Start, principal: Principal) -> list[Link]:
        """Links of a rejected start: the same call, with the schema of the input."""
        wanted = args.definition_id
        if wanted == PROXY and isinstance(args.input.get("capability"), str):
            wanted = args.input["capability"]
        listed = self._backend.catalogue.items.get(wanted)
        if listed is None or not sees(self._backend.catalogue, listed.id, principal, checks.call_arguments(args.input)):
            return [self._links.home(), self._links.search()]
        return [*self._links.start(listed, with_schema=True), self._links.describe(listed.id)]

    def _executed_by(self, args: Start) -> Key | None:
        """The key under which the duration of a start is tracked; None if it executes nothing or will be rejected."""
        catalogue = self._backend.catalogue
        if args.definition_id == PROXY:
            capability = args.input.get("capability")
            if not isinstance(capability, str) or len(args.input) == 1:
                return None
            session = catalogue.session(capability)
            return (session.hash, PROXY, capability) if session is not None else None
        packed = catalogue.definition(args.definition_id)
        if packed is None:
            return None
        workflow = packed.bundle.definitions[args.definition_id]
        if not machine.entry_executes(workflow, workflow.initial_state):
            return None
        return packed.hash, args.definition_id, ""


def tools(backend: Backend) -> tuple[Tool, ...]:
    handle, refusal = Workflows(backend), refusal_of(backend.links)
    deferral = Deferral(Operation, handle.ended, handle.stop, lambda state: f"operations/{state.workflow}")
    return (
        Tool(
            "workflow.start",
            _START,
            Start,
            (WorkflowAnswer,),
            handle.start,
            makes=lambda made: f"operations/{made.workflow_id}",
            asks=True,
            deferral=deferral,
            waits=handle.start_may_wait,
            parks=True,
            destructive=True,
            open_world=True,
            refusal=refusal,
        ),
        waiting_read(
            Tool(
                "workflow.get",
                _GET,
                Get,
                (WorkflowAnswer, ResultPage),
                handle.get,
                idempotent=True,
                asks=True,
                refusal=refusal,
            ),
            lambda args: f"operations/{args.workflow_id}",
        ),
        Tool(
            "workflow.submit",
            _SUBMIT,
            Submit,
            (WorkflowAnswer,),
            handle.submit,
            asks=True,
            deferral=deferral,
            waits=handle.submit_may_wait,
            parks=True,
            criticality=Criticality.CRITICAL,
            destructive=True,
            open_world=True,
            refusal=refusal,
        ),
    )


def _owner(call: Call) -> str:
    """Whose states of servers a session uses: those of what the calling step belongs to, else of the caller with the
    slot that it names; empty: the caller is unknown.

    Raises:
        ToolFailure: the header names somebody else.
    """
    if call.owner or call.caller is None:
        return call.owner
    return owner_of_caller(slot_of(call.agent, call.caller, AGENT_HEADER))
