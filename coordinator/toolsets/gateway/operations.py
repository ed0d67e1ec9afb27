"""Starting and advancing instances: the checks, the scripts and the waiting, for tools, commands and sub-workflows.

A refusal is a ``Rejected``; whatever the store cannot do is a ToolFailure.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict
from typing import Any, NamedTuple

import msgspec

from coordinator.errors import ToolFailure
from coordinator.metrics import recorder
from coordinator.settings.gateway.model import Workflow
from coordinator.store import Store
from coordinator.store.idempotency import NO_KEY, IdempotencyKey, recorded_reply
from coordinator.toolsets.gateway.durations import QUICK_SECONDS, Durations, Key
from coordinator.toolsets.gateway.listener import Listener
from coordinator.toolsets.gateway.rules import checks, machine, planner
from coordinator.toolsets.gateway.rules.bundle import Bundle, Packed
from coordinator.toolsets.gateway.rules.checks import Rejected
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.task import Task, ending_of
from coordinator.toolsets.gateway.snapshot import Snapshot, retry_ms, timed_out
from coordinator.toolsets.gateway.store.audit import AuditStore
from coordinator.toolsets.gateway.store.instances import Begun, InstanceStore, NewInstance

LOSER_SECONDS = 2.0
"""How long a submit waits for another one that began before it."""
_LOOK_SECONDS = 1.0
"""How often a waiting call reads the instance although no message came."""
_MOST_SEEN = 20_000
"""Instances whose definitions a process remembers."""
_ROUNDS = 20
"""How often a submit begins again because the instance moved under it."""

_WORKFLOW = re.compile(r"wf_[0-9a-f]{12,64}")
_encode = msgspec.json.Encoder().encode


class StartRequest(NamedTuple):
    """An instance to be started; its input was checked."""

    project: str
    principal: Principal
    definition: str
    """Key in the bundle."""
    packed: Packed
    given: dict[str, Any]
    """The input."""
    request: IdempotencyKey = NO_KEY
    capability: str = ""
    """Of a session: the capability; it is called at once if there are arguments."""
    arguments: dict[str, Any] | None = None
    session_ms: int = 0
    """How long a session is kept after its last call."""
    new_id: str = ""
    """Of the instance; empty: a new one."""
    parent: str = ""
    """The instance and the operation that wait for its result."""
    nesting: int = 0
    wait: bool = True
    """Whether to wait, as long as the limits allow, until what follows the start is over."""
    hurried: bool = False
    """Whether the call has to be answered within its deadline."""


class SubmitRequest(NamedTuple):
    """A transition to be taken."""

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
    """Whether the call has to be answered within its deadline."""


class Operations:
    """What can be done with instances, by one process.

    Args:
        listener: tells when operations are over.
        deadline_ms: of calls that do not wait by design.
    """

    def __init__(
        self, store: Store, instances: InstanceStore, audit: AuditStore, listener: Listener, deadline_ms: int = 10_000
    ) -> None:
        self._store = store
        self._loser_seconds = min(LOSER_SECONDS, deadline_ms / 2000)
        self._hurried_seconds = deadline_ms * 0.4 / 1000
        self.durations = Durations()
        """How long the operations took that this process waited for."""
        self._seen: OrderedDict[str, tuple[str, str, Workflow]] = OrderedDict()
        """Instance -> hash of its bundle, key and definition of its workflow there."""
        self._executes: dict[Key, bool] = {}
        """Whether a transition of a workflow may have to execute something."""
        self._instances = instances
        self._audit = audit
        self._listener = listener

    def may_wait(self, workflow: str, transition: str) -> bool:
        """Whether a submit may take long, as far as this process knows the instance and what it executes."""
        seen = self._seen.get(workflow)
        if seen is None:
            return True
        bundle, name, definition = seen
        key = bundle, name, transition
        found = self._executes.get(key)
        if found is None:
            if len(self._executes) >= _MOST_SEEN:
                self._executes.clear()
            found = self._executes[key] = machine.executes(definition, transition)
        return found and not self.durations.quick(key)

    # --- reading ----------------------------------------------------------------------------------

    async def get(self, project: str, workflow: str, waiter: str = "", operation: str = "") -> Snapshot:
        """An instance as it is now; if its time is over, it is moved on first.

        Args:
            waiter: the process to notify when the operation under way is over; empty: none.
            operation: whose ending is to be read along.

        Raises:
            Rejected: WORKFLOW_NOT_FOUND.
        """
        if not _WORKFLOW.fullmatch(workflow):
            # An id that was not checked must not become part of a key.
            raise checks.unknown_workflow(workflow)
        for _ in range(_ROUNDS):
            instance = await self._instances.read(project, workflow, operation, waiter)
            bundle = await self._instances.bundle(project, instance.bundle) if instance is not None else None
            if instance is None or bundle is None:
                raise checks.unknown_workflow(workflow)
            snapshot = Snapshot(workflow, instance, bundle, ending_of(instance.ending) if instance.ending else None)
            self._seen[workflow] = instance.bundle, instance.definition, snapshot.workflow
            if len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
            if not instance.late:
                return snapshot
            await self._expire(project, snapshot)
        raise _keeps_changing()

    async def _expire(self, project: str, snapshot: Snapshot) -> None:
        """Moves an instance whose time is over, which the sweep has not come to yet."""
        advance, late = timed_out(snapshot)
        if not await self._instances.expire(project, snapshot.id, late, advance):
            recorder().restarted("workflow.get")

    # --- starting ---------------------------------------------------------------------------------

    async def start(self, asked: StartRequest) -> Snapshot:
        """Starts an instance."""
        packed = asked.packed
        workflow = packed.bundle.definitions[asked.definition]
        task = Task(
            op=new_operation(),
            kind="start",
            workflow=asked.new_id or new_workflow(),
            definition=asked.definition,
            principal=asked.principal,
            input=asked.given,
            nesting=asked.nesting,
            state=workflow.initial_state,
            version=1,
            context=dict(workflow.initial_context),
            then=asked.capability if asked.arguments is not None else "",
            then_arguments=asked.arguments or {},
        )
        new = NewInstance(
            id=task.workflow,
            definition=asked.definition,
            creator=asked.principal.id,
            bundle=packed,
            input=_encode(asked.given).decode(),
            timeout_ms=workflow.timeout_ms or 0,
            parent=asked.parent,
            nesting=asked.nesting,
            session_ms=asked.session_ms,
            transition=task.then,
        )
        advance = planner.start(packed.bundle, task)
        if asked.wait and advance.next is not None:
            await self._listener.ready()
        with self._listener.expecting(asked.project, new.id) as changed:
            waiter = self._listener.process if asked.wait else ""
            found, operation = await self._instances.start(asked.project, asked.request, waiter, new, advance)
            if found != new.id:
                # The request id was used before: that instance is the answer.
                changed = asyncio.Event()
            seconds = self._wait_seconds(packed.bundle, asked.hurried) if asked.wait else 0.0
            key = (packed.hash, asked.definition, asked.capability) if advance.next is not None else None
            return await self._finished(asked.project, found, operation, changed, seconds, key)

    async def refuse(self, project: str, principal: Principal, definition: str, asked: str, why: Rejected) -> None:
        """Puts on record that a start was refused.

        Args:
            asked: the capability that it was to call; empty: none.
        """
        if why.code != checks.NO_DEFINITION:
            events = checks.refusal_events(asked, why, definitionId=definition)
            await self._audit.write(project, events, operation=new_operation(), actor=principal.id)

    # --- advancing --------------------------------------------------------------------------------

    async def submit(self, asked: SubmitRequest) -> Snapshot:
        """Takes a transition, and waits for what follows.

        Raises:
            Rejected: with one of the seed's codes.
        """
        try:
            snapshot = await self._submitted(asked)
        except Rejected as rejected:
            recorder().gateway_submit(rejected.code)
            if rejected.code != checks.NO_WORKFLOW:
                await self._audit.write(
                    asked.project,
                    checks.refusal_events(asked.transition, rejected),
                    workflow=asked.workflow,
                    operation=asked.operation,
                    actor=asked.principal.id,
                )
            raise
        failed = snapshot.ending.error if snapshot.ending is not None else None
        recorder().gateway_submit(failed.code if failed is not None else "ok")
        return snapshot

    async def _submitted(self, asked: SubmitRequest) -> Snapshot:
        project, workflow = asked.project, asked.workflow
        if (repeated := await self._repeated(asked)) is not None:
            return repeated
        waited = False
        with self._listener.expecting(project, workflow) as changed:
            for _ in range(_ROUNDS):
                snapshot = await self.get(project, workflow, self._listener.process)
                instance = snapshot.instance
                # What was first may have been this very call, made a moment ago.
                first = bool(instance.operation) or instance.version != asked.expected
                if first and (repeated := await self._repeated(asked)) is not None:
                    return repeated
                if instance.operation and instance.version == asked.expected and not waited:
                    # Another submit was first; whether it succeeds decides whether this one is stale.
                    await self._listener.ready()
                    await _within(changed, self._loser_seconds)
                    changed.clear()
                    waited = True
                    continue
                changed.clear()
                try:
                    begun = await self._begin(asked, snapshot)
                except Rejected as rejected:
                    rejected.snapshot = snapshot
                    raise
                if begun.what == "begun":
                    seconds = self._wait_seconds(snapshot.bundle, asked.hurried)
                    key = instance.bundle, instance.definition, asked.transition
                    return await self._finished(project, workflow, begun.operation, changed, seconds, key)
                recorder().restarted("workflow.submit")
        raise _keeps_changing()

    async def _begin(self, asked: SubmitRequest, snapshot: Snapshot) -> Begun:
        instance = snapshot.instance
        if instance.version != asked.expected:
            raise checks.stale(asked.expected, instance.version)
        if instance.ended:
            raise Rejected(checks.INVALID, f"The workflow has ended in state {instance.state!r}.")
        if instance.operation:
            raise checks.busy(asked.expected, instance.version, instance.transition, retry_ms(instance))
        fired = checks.fired(
            snapshot.workflow,
            instance.state,
            asked.transition,
            asked.arguments,
            snapshot.circumstances(asked.principal),
            [one.requester for one in instance.approvals if one.distinct],
        )
        task = snapshot.task(asked.operation, "submit", asked.principal)
        task.transition, task.arguments = asked.transition, fired.arguments
        advance = planner.submit(snapshot.bundle, task, fired.guards)
        if advance.next is not None:
            await self._listener.ready()
        return await self._instances.begin(
            asked.project, asked.request, self._listener.process, snapshot.id, asked.transition, advance
        )

    async def _repeated(self, asked: SubmitRequest) -> Snapshot | None:
        return await self.repeated(asked.project, asked.request, asked.workflow, hurried=asked.hurried)

    async def repeated(
        self, project: str, request: IdempotencyKey, workflow: str = "", *, hurried: bool
    ) -> Snapshot | None:
        """How it went when this call was made before, whatever is configured now; None: it was not.

        Args:
            workflow: the instance that it is about; empty: the one that it started.
            hurried: whether the call has to be answered within its deadline.

        Raises:
            ToolFailure: ``request_id_reused``.
        """
        reply = await recorded_reply(self._store, project, request)
        if reply is None:
            return None
        begun: tuple[str, str, bool] = msgspec.msgpack.decode(reply)
        workflow, operation = workflow or begun[0], begun[1]
        snapshot = await self.get(project, workflow)
        seconds = self._wait_seconds(snapshot.bundle, hurried)
        return await self._finished(project, workflow, operation, asyncio.Event(), seconds)

    # --- waiting ----------------------------------------------------------------------------------

    def _wait_seconds(self, bundle: Bundle, hurried: bool) -> float:
        """How long a call waits for the operation that it has begun."""
        stated = bundle.limits.submit_wait_ms / 1000
        return min(stated, self._hurried_seconds) if hurried else stated

    async def _finished(
        self,
        project: str,
        workflow: str,
        operation: str,
        changed: asyncio.Event,
        seconds: float,
        key: Key | None = None,
    ) -> Snapshot:
        """The instance when an operation is over, or when it was waited for long enough.

        Args:
            seconds: 0 looks once.
            key: what is executed, for the record of how long that takes.
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
    """The id of an instance."""
    return "wf_" + secrets.token_hex(8)


async def _within(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass  # the caller reads the instance again anyway


def _keeps_changing() -> ToolFailure:
    return ToolFailure(
        "conflict", "the workflow is changed by others all the time; repeat the call", retry_after_ms=200
    )
