"""The part of this toolset that workers use: the call of an attempt, and planning from its outcome."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from coordinator.errors import ToolFailure
from coordinator.settings.sections.gateway.executor import Reliability
from coordinator.steps.model import STATE_LOST, Failure, Outcome, Plan, StepRun, Success, Work
from coordinator.steps.run_kind import Executor
from coordinator.store import Script
from coordinator.toolsets.caller import PresentRights
from coordinator.toolsets.gateway.rules import planner
from coordinator.toolsets.gateway.rules.bundle import Bundle, retry_of, retry_on
from coordinator.toolsets.gateway.rules.calls import Call, Unresolved, call_of, key_of
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.task import Advance, Task, unpacked
from coordinator.toolsets.gateway.snapshot import Snapshot, timed_out
from coordinator.toolsets.gateway.store.instances import REPORT, InstanceStore

_log = structlog.get_logger(__name__)

FORGET_BATCH, MAX_BATCHES = 100, 1_000
"""The batch size of one trim script, and the most batches per sweep."""
DEADLINE = "t"
"""The key of the step that waits for an instance's deadline."""
GRACE_MS = 5_000
"""The grace period after an attempt's own timeout before the engine stops it."""

ERROR_CLASSES = frozenset(("timeout", "transient_error", "rate_limited", "connection_error", "permanent_error"))
"""Classes of errors that a retry policy can name."""
_ENGINE_CLASSES = {"expired": "timeout", "poisoned": "permanent_error", "stopped": "permanent_error"}
"""Types of the step engine's own failures -> error class."""


class Job(Work, frozen=True, kw_only=True):
    """The work of an instance's step: one attempt of an executor."""

    call: Call
    task: Task
    bundle: Bundle
    hash: str
    retry_on: frozenset[str] = frozenset()
    """Classes of failures after which another attempt is made."""
    limit_ms: int = 0
    """How long the attempt may take."""
    total_ms: int = 0
    """How long it may take if it reports progress, each of which starts ``limit_ms`` anew; 0: that does not."""

    def retries(self, failure: Failure) -> bool:
        """Whether the class of the failure is among those of the policy."""
        return failure.retryable and _class_of(failure) in self.retry_on


class Commit(Plan, array_like=True, frozen=True):
    """What ``report_hops.lua`` writes."""

    advance: Advance | None = None
    keep_ms: int = 0
    retention_ms: int = 0
    late: str = ""
    """For a timeout: the ending of the operation that it stops."""


class InstanceSpec(Struct):
    """The definitions of an instance; None if this worker has not read them yet."""

    hash: str
    bundle: Bundle | None = None


class GatewayPlanner:
    """Plans the steps of instances (``coordinator.steps.run_kind.Planner``).

    Args:
        rights: says what the principal of an operation may do now.
    """

    def __init__(self, instances: InstanceStore, rights: PresentRights) -> None:
        self._instances = instances
        self._rights = rights

    def load(self, spec: bytes) -> InstanceSpec:
        """Takes the hash of the definitions. Their text is read on first use."""
        name = spec.decode()
        return InstanceSpec(name, self._instances.known(name))

    async def prepare(self, step: StepRun, spec: InstanceSpec) -> Work | Outcome:
        """The call of the attempt, or the outcome if it is known already."""
        bundle = await self._bundle(step.project, spec)
        if step.key == DEADLINE:
            return await self._late(step, bundle)
        await self._rights.look()
        task, permitted = self._task(step)
        if step.arguments:
            # The outcome is known: the sub-workflow that the step waits for has ended, or the step itself was executed
            # before its successor could be planned.
            known = msgspec.json.decode(step.arguments)
            failure = known.get("failure")
            return Success(known) if failure is None else Failure(failure["error"], failure["type"], retryable=False)
        if not permitted:
            gone = f"permission denied: {task.principal.id} may do nothing here now"
            return Failure(gone, "permanent_error", retryable=False)
        executor, reliability = planner.executor_under_way(bundle, task)
        if executor is None:
            return Failure("there is no such executor in the definition", "permanent_error", retryable=False)
        primary, _ = planner.executor_under_way(bundle, msgspec.structs.replace(task, candidate=0))
        try:
            key = key_of(primary or executor, task)
            call = call_of(executor, planner.scope_under_way(task), key, os.environ)
        except Unresolved as unresolved:
            return Failure(str(unresolved), "permanent_error", retryable=False)
        return _job(executor.kind or "noop", task, bundle, spec.hash, call, reliability)

    def plan(self, step: StepRun, spec: InstanceSpec, outcome: Outcome) -> Plan:
        """Plans the advance. If the definitions are not loaded yet, the outcome comes again as a step of its own."""
        if step.key == DEADLINE:
            return self._timeout(outcome)
        if spec.bundle is None:
            spec.bundle = self._instances.known(spec.hash)
        if spec.bundle is None:
            return self._commit(None)
        task, _ = self._task(step)
        if isinstance(outcome, Failure):
            outcome = _classed(outcome, task.wait)
        try:
            advance = planner.after(spec.bundle, task, outcome)
        except Exception:
            _log.exception("the next step could not be planned", workflow=step.run)
            advance = planner.unplanned(spec.bundle, self._task(step)[0], outcome)
        return self._commit(advance)

    def _task(self, step: StepRun) -> tuple[Task, bool]:
        """The task of a step, with what its principal may do now; and whether that is anything."""
        task = unpacked(step.context)
        caller = task.principal.caller
        now = self._rights.last(caller, step.project) if caller is not None else None
        if now is not None:
            principal = Principal.of(now)
        elif caller is not None:
            principal = msgspec.structs.replace(task.principal, roles=(), permissions=())
        else:
            return task, True
        return msgspec.structs.replace(task, principal=principal), now is not None

    def _commit(self, advance: Advance | None, late: str = "") -> Commit:
        return Commit(
            complete=advance is not None and bool(advance.ended),
            advance=advance,
            keep_ms=self._instances.keep_ms,
            retention_ms=self._instances.retention_ms,
            late=late,
        )

    async def _bundle(self, project: str, spec: InstanceSpec) -> Bundle:
        if spec.bundle is None:
            spec.bundle = await self._instances.bundle(project, spec.hash)
        if spec.bundle is None:
            raise ToolFailure("RESOURCE_NOT_FOUND", "the definitions of the instance are gone")
        return spec.bundle

    async def _late(self, step: StepRun, bundle: Bundle) -> Outcome:
        """Plans the timeout of an instance from its present state."""
        instance = await self._instances.read(step.project, step.run)
        if instance is None or not instance.late:
            return Success()
        advance, late = timed_out(Snapshot(step.run, instance, bundle))
        return Success({"advance": msgspec.to_builtins(advance), "late": late})

    def _timeout(self, outcome: Outcome) -> Plan:
        if isinstance(outcome, Failure) or outcome.value is None:
            return self._commit(None)
        return self._commit(msgspec.convert(outcome.value["advance"], Advance), outcome.value["late"])


class GatewayRunKind:
    """The kind of run of instances (``coordinator.steps.run_kind.RunKind``)."""

    name = "gateway"
    report: Script[Any] = REPORT

    def __init__(self, instances: InstanceStore, executor: Executor, rights: PresentRights) -> None:
        self._instances = instances
        self.planner = GatewayPlanner(instances, rights)
        self.executor = executor

    async def tidy(self, project: str) -> bool:
        """Deletes instances whose retention has expired, and idle sessions."""
        more = True
        for _ in range(MAX_BATCHES):
            forgotten, more = await self._instances.forget(project, FORGET_BATCH)
            if forgotten < FORGET_BATCH:
                break
        return not more


def _job(kind: str, task: Task, bundle: Bundle, hash: str, call: Call, reliability: Reliability | None) -> Job:
    limit = bundle.attempt_ms(reliability)
    return Job(
        tool=kind,
        timeout_ms=limit + GRACE_MS,
        retry=retry_of(reliability),
        call=call,
        task=task,
        bundle=bundle,
        hash=hash,
        retry_on=retry_on(reliability),
        limit_ms=limit,
        total_ms=bundle.total_ms(reliability),
    )


def _classed(failure: Failure, child: str) -> Failure:
    """A failure with one of the classes that a policy can name; ``child``: the awaited sub-workflow."""
    message = failure.message
    if failure.type == "expired":  # only a sub-workflow can time out here
        message = f"the sub-workflow {child} did not end in time; it is still running"
    return msgspec.structs.replace(failure, message=message, type=_class_of(failure))


def _class_of(failure: Failure) -> str:
    kind = _ENGINE_CLASSES.get(failure.type, failure.type)
    return kind if kind in ERROR_CLASSES or kind == STATE_LOST else "permanent_error"
