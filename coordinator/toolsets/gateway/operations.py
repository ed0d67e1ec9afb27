"""Starts and advances instances, for tools, commands and sub-workflows: checks, runs the scripts, and waits.

A refusal is raised as ``Rejected``, a failure of the store as ToolFailure.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict
from typing import Any, NamedTuple, Protocol

import msgspec

from coordinator.errors import ToolFailure
from coordinator.settings.sections.gateway.model import Workflow
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY, IdempotencyKey, recorded_reply
from coordinator.toolsets.deferral import GRACE_SECONDS
from coordinator.toolsets.gateway.apart import apart
from coordinator.toolsets.gateway.durations import QUICK_SECONDS, Durations, Key
from coordinator.toolsets.gateway.listener import Listener
from coordinator.toolsets.gateway.metrics import SUBMITS
from coordinator.toolsets.gateway.rules import checks, machine, planner
from coordinator.toolsets.gateway.rules.bundle import Bundle, Packed
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.task import Task, ending_of
from coordinator.toolsets.gateway.snapshot import Snapshot, cancelled, retry_ms, timed_out
from coordinator.toolsets.gateway.store.audit import AuditStore
from coordinator.toolsets.gateway.store.instances import BegunTransition, InstanceStore, NewInstance
from coordinator.toolsets.metrics import RESTARTS_OF_OPERATIONS

LOSER_SECONDS = 2.0
"""How long a submit waits for another one that began before it."""
_ROOMY_MS = 4_000
"""The shortest deadline of quick calls within which a submit can wait for another one and then be carried out."""
_LOOK_SECONDS = 1.0
"""How often a waiting call reads the instance even if no message comes."""
_MOST_SEEN = 20_000
"""How many instances a process remembers the definitions of."""
_ROUNDS = 20
"""How often a call retries because the instance changed meanwhile."""

WORKFLOW = re.compile(r"wf_[0-9a-f]{12,64}")
"""The form of ids of instances."""
_encode = msgspec.json.Encoder().encode


class Haste(Protocol):
    """Whether a call must be answered soon."""

    @property
    def hurried(self) -> bool:
        """Whether within the deadline of quick calls."""

    @property
    def deferred(self) -> bool:
        """Whether the caller asks later for the result."""


class StartRequest(NamedTuple):
    """An instance to start. Its input was checked."""

    project: str
    principal: Principal
    definition: str
    """Key in the bundle."""
    packed: Packed
    input: dict[str, Any]
    request: IdempotencyKey = NO_KEY
    capability: str = ""
    """For a session: the capability. It is called at once if there are arguments."""
    arguments: dict[str, Any] | None = None
    session_ms: int = 0
    """How long a session is kept after its last call."""
    new_id: str = ""
    """The id of the instance; empty: a random one."""
    parent: str = ""
    """The instance and the operation that wait for its result."""
    owner: str = ""
    """As ``Task.owner``."""
    nesting: int = 0
    wait: bool = True
    """Whether to wait, as long as the limits allow, for the end of the operation."""
    hurried: bool = False
    """Whether the call must be answered within the deadline of quick calls."""
    deferred: bool = False
    """Whether the caller asks later for the result, so that the call need not wait long."""


class SubmitRequest(NamedTuple):
    """A transition to take."""

    project: str
    principal: Principal
    workflow: str
    expected: int
    transition: str
    arguments: dict[str, Any]
    request: IdempotencyKey
    operation: str
    """Its correlation id."""
    hurried: bool = False
    """Whether the call must be answered within the deadline of quick calls."""
    deferred: bool = False
    """Whether the caller asks later for the result, so that the call need not wait long."""
    via: str = ""
    """As ``Task.via``."""
    owner: str = ""
    """As ``Task.owner``, of a session: its state is that of whoever calls."""


class _Seen(NamedTuple):
    """The definition of an instance that this process has read."""

    bundle: str
    """The hash of its bundle."""
    name: str
    """The key of its workflow in the bundle."""
    workflow: Workflow


class Operations:
    """Reads, starts and advances instances for one process.

    Args:
      listener: notifies of the end of operations.
        deadline_ms: the deadline of quick calls.
        longest_ms: how long any call may wait.
    """

    def __init__(
        self,
        store: Store,
        instances: InstanceStore,
        audit: AuditStore,
        listener: Listener,
        deadline_ms: int = 10_000,
        longest_ms: int = 49_000,
    ) -> None:
        self._store = store
        self._roomy = deadline_ms >= _ROOMY_MS
        self._hurried_seconds = deadline_ms * 0.4 / 1000
        self._longest_seconds = longest_ms / 1000
        self.durations = Durations()
        """Durations of the operations that this process waited for."""
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        """By the id of the instance."""
        self._executes: dict[Key, bool] = {}
        """Whether a transition of a workflow may execute something."""
        self._instances = instances
        self._audit = audit
        self._listener = listener

    def may_wait(self, workflow: str, transition: str) -> bool:
        """Whether a submit may take long. True if this process does not know the instance."""
        if not self._roomy:
            return True
        seen = self._seen.get(workflow)
        if seen is None:
            return True
        key = seen.bundle, seen.name, transition
        executes = self._executes.get(key)
        if executes is None:
            if len(self._executes) >= _MOST_SEEN:
                self._executes.clear()
            executes = self._executes[key] = machine.executes(seen.workflow, transition)
        return executes and not self.durations.quick(key)

    # --- reading ----------------------------------------------------------------------------------

    async def get(self, project: str, workflow: str, waiter: str = "", operation: str = "") -> Snapshot:
        """The current instance. If it has timed out, its timeout is carried out first.

        Args:
            waiter: the process to notify when the operation in progress is over; empty: none.
            operation: the operation whose ending is wanted; empty: none.

        Raises:
            Rejected: WORKFLOW_NOT_FOUND.
        """
        if not WORKFLOW.fullmatch(workflow):
            # An id becomes part of a key, so its form is checked.
            raise checks.unknown_workflow(workflow)
        for _ in range(_ROUNDS):
            instance = await self._instances.read(project, workflow, operation, waiter)
            bundle = await self._instances.bundle(project, instance.bundle) if instance is not None else None
            if instance is None or bundle is None:
                raise checks.unknown_workflow(workflow)
            snapshot = Snapshot(workflow, instance, bundle, ending_of(instance.ending) if instance.ending else None)
            self._seen[workflow] = _Seen(instance.bundle, instance.definition, snapshot.workflow)
            if len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
            if not instance.late:
                return snapshot
            await self._expire(project, snapshot)
        raise _keeps_changing()

    async def _expire(self, project: str, snapshot: Snapshot) -> None:
        """Carries out the timeout of an instance, if the sweep has not done so yet."""
        advance, late = timed_out(snapshot)
        if not await self._instances.expire(project, snapshot.id, late, advance):
            RESTARTS_OF_OPERATIONS.labels("workflow.get").inc()

    # --- starting ---------------------------------------------------------------------------------

    async def start(self, request: StartRequest) -> Snapshot:
        """Starts an instance, and waits for the end of the operation if asked to."""
        packed = request.packed
        workflow = packed.bundle.definitions[request.definition]
        task = Task(
            op=new_operation(),
            kind="start",
            workflow=request.new_id or new_workflow(),
            definition=request.definition,
            principal=request.principal,
            input=request.input,
            nesting=request.nesting,
            owner=request.owner,
            state=workflow.initial_state,
            version=1,
            context=dict(workflow.initial_context),
            then=request.capability if request.arguments is not None else "",
            then_arguments=request.arguments or {},
        )
        new = NewInstance(
            id=task.workflow,
            definition=request.definition,
            creator=request.principal.id,
            bundle=packed,
            input=_encode(request.input).decode(),
            timeout_ms=workflow.timeout_ms or 0,
            parent=request.parent,
            nesting=request.nesting,
            session_ms=request.session_ms,
            transition=task.then,
            owner="" if request.session_ms else request.owner,
        )
        advance = planner.start(packed.bundle, task)
        if request.wait and advance.next is not None:
            await self._listener.ready()
        with self._listener.expecting(request.project, new.id) as changed:
            waiter = self._listener.process if request.wait else ""
            instance, operation = await self._instances.start(request.project, request.request, waiter, new, advance)
            if instance != new.id:
                # The request id was used before, so the answer is about the instance of that call.
                changed = asyncio.Event()
            seconds = self._wait_seconds(packed.bundle, request) if request.wait else 0.0
            key = (packed.hash, request.definition, request.capability) if advance.next is not None else None
            return await self._finished(request.project, instance, operation, changed, seconds, key)

    async def refuse(self, project: str, principal: Principal, definition: str, capability: str, why: Rejected) -> None:
        """Records in the audit that a start was refused.

        Args:
            capability: the capability that was to be called; empty: none.
        """
        if why.code != checks.NO_DEFINITION:
            events = checks.refusal_events(capability, why, definitionId=definition)
            await self._audit.write(project, events, operation=new_operation(), actor=principal.id)

    # --- advancing --------------------------------------------------------------------------------

    async def submit(self, request: SubmitRequest) -> Snapshot:
        """Takes a transition, and waits for the end of the operation.

        Raises:
            Rejected: with one of the gateway's codes.
        """
        try:
            snapshot = await self._submitted(request)
        except Rejected as rejected:
            SUBMITS.labels(rejected.code).inc()
            if rejected.code != checks.NO_WORKFLOW:
                await self._audit.write(
                    request.project,
                    checks.refusal_events(request.transition, rejected),
                    workflow=request.workflow,
                    operation=request.operation,
                    actor=request.principal.id,
                )
            raise
        if not request.request.replayed:
            failed = snapshot.ending.error if snapshot.ending is not None else None
            SUBMITS.labels(failed.code if failed is not None else "ok").inc()
        return snapshot

    async def _submitted(self, request: SubmitRequest) -> Snapshot:
        project, workflow = request.project, request.workflow
        began = asyncio.get_running_loop().time()
        if (repeated := await self._repeated(request)) is not None:
            return repeated
        loop = asyncio.get_running_loop()
        until: float | None = None
        rounds = 0
        with self._listener.expecting(project, workflow) as changed:
            while rounds < _ROUNDS:
                changed.clear()
                snapshot = await self.get(project, workflow, self._listener.process)
                instance = snapshot.instance
                # Another call was faster, perhaps an earlier attempt of this one.
                overtaken = bool(instance.operation) or instance.version != request.expected
                if overtaken and (repeated := await self._repeated(request)) is not None:
                    return repeated
                if instance.operation and instance.version == request.expected and not self._listener.closed:
                    # If the other one succeeds, this one is stale; if it fails, this one can begin.
                    await self._listener.ready()
                    until = until or loop.time() + LOSER_SECONDS
                    if (left := until - loop.time()) > 0:
                        # A wake-up need not mean that the other one has ended, so this reads and waits again.
                        await _within(changed, min(left, _LOOK_SECONDS))
                        continue
                rounds += 1
                try:
                    begun = await self._begin(request, snapshot)
                except Rejected as rejected:
                    rejected.snapshot = snapshot
                    raise
                if begun.what == "begun":
                    seconds = self._wait_seconds(snapshot.bundle, request, began)
                    key = instance.bundle, instance.definition, request.transition
                    return await self._finished(project, workflow, begun.operation, changed, seconds, key)
                RESTARTS_OF_OPERATIONS.labels("workflow.submit").inc()
        raise _keeps_changing()

    async def _begin(self, request: SubmitRequest, snapshot: Snapshot) -> BegunTransition:
        instance = snapshot.instance
        if instance.version != request.expected:
            raise checks.stale(request.expected, instance.version)
        if instance.ended:
            raise Rejected(checks.INVALID, f"The workflow has ended in state {instance.state!r}.")
        if instance.operation:
            raise checks.busy(request.expected, instance.version, instance.transition, retry_ms(instance))
        fired = await apart(
            request.arguments,
            checks.fired,
            snapshot.workflow,
            instance.state,
            request.transition,
            request.arguments,
            snapshot.circumstances(request.principal),
            [approval.requester for approval in instance.approvals if approval.distinct],
        )
        task = snapshot.task(request.operation, "submit", request.principal)
        task.transition, task.arguments, task.via = request.transition, fired.arguments, request.via
        if instance.session_ms:
            task.owner = request.owner
        advance = planner.submit(snapshot.bundle, task, fired.guards)
        if advance.next is not None:
            await self._listener.ready()
        return await self._instances.begin(
            request.project, request.request, self._listener.process, snapshot.id, request.transition, advance
        )

    async def _repeated(self, request: SubmitRequest) -> Snapshot | None:
        return await self.repeated(request.project, request.request, request, request.workflow)

    async def repeated(
        self, project: str, request: IdempotencyKey, haste: Haste, workflow: str = ""
    ) -> Snapshot | None:
        """The result of the same call if it was made before; None if it was not. Independent of the current settings.

        Args:
            haste: whether the call must be answered soon.
            workflow: the instance of the call; empty: the one that the call started.

        Raises:
            ToolFailure: ``request_id_reused``.
        """
        reply = await recorded_reply(self._store, project, request)
        if reply is None:
            return None
        request.replayed = True
        # Replies of starts and submits differ only in their first field.
        started, operation, _ = msgspec.msgpack.decode(reply)
        workflow = workflow or started
        snapshot = await self.get(project, workflow)
        seconds = self._wait_seconds(snapshot.bundle, haste)
        return await self._finished(project, workflow, operation, asyncio.Event(), seconds)

    # --- cancelling -------------------------------------------------------------------------------

    async def stop(self, project: str, principal: Principal, workflow: str, operation: str) -> None:
        """Stops an operation, if it is still in progress.

        Raises:
            Rejected: WORKFLOW_NOT_FOUND.
        """
        for _ in range(_ROUNDS):
            snapshot = await self.get(project, workflow)
            if snapshot.instance.operation != operation:
                return
            if await self._instances.stop(project, workflow, operation, cancelled(snapshot, principal)):
                return
            RESTARTS_OF_OPERATIONS.labels("tasks/cancel").inc()
        raise _keeps_changing()

    async def decline(self, project: str, workflow: str, version: int, principal: Principal) -> None:
        """Notes that a principal was asked for the open approvals of this version, and gave no answer."""
        await self._instances.decline(project, workflow, version, principal.id)

    # --- waiting ----------------------------------------------------------------------------------

    def _wait_seconds(self, bundle: Bundle, haste: Haste, began: float | None = None) -> float:
        """How long a call waits for the end of the operation that it began.

        Args:
            began: when the call arrived (the loop's clock), if it has waited for something else before.
        """
        waited = 0.0 if began is None else asyncio.get_running_loop().time() - began
        seconds = min(bundle.limits.submit_wait_ms / 1000, max(0.0, self._longest_seconds - waited))
        if haste.deferred:
            seconds = min(seconds, GRACE_SECONDS)
        return min(seconds, self._hurried_seconds) if haste.hurried else seconds

    async def _finished(
        self,
        project: str,
        workflow: str,
        operation: str,
        changed: asyncio.Event,
        seconds: float,
        key: Key | None = None,
    ) -> Snapshot:
        """Waits for the end of an operation, within a limit, and returns the instance.

        Args:
            seconds: the longest time to wait; 0: not at all.
            key: what is executed, to note how long that takes; None: nothing is.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            snapshot = await self.get(project, workflow, self._listener.process if seconds else "", operation)
            took = loop.time() - began
            over = snapshot.ending is not None or snapshot.instance.operation != operation
            if over or took >= seconds or self._listener.closed:
                if key is not None:
                    self.durations.note(key, took if over else max(took, QUICK_SECONDS))
                return snapshot
            await _within(changed, min(seconds - took, _LOOK_SECONDS))
            changed.clear()


def new_operation() -> str:
    """A correlation id."""
    return "cor_" + secrets.token_hex(8)


def new_workflow() -> str:
    return "wf_" + secrets.token_hex(8)


async def _within(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass  # the caller reads the instance again anyway


def _keeps_changing() -> ToolFailure:
    return ToolFailure("conflict", "other calls keep changing the workflow; repeat the call", retry_after_ms=200)
