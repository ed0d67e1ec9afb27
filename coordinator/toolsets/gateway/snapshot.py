"""A consistent read of an instance, and tasks planned from it."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import msgspec

from coordinator.settings.sections.gateway.model import Workflow
from coordinator.toolsets.gateway.rules import checks, planner
from coordinator.toolsets.gateway.rules.bundle import Bundle
from coordinator.toolsets.gateway.rules.guards import SYSTEM, Circumstances, Principal
from coordinator.toolsets.gateway.rules.results import KeptValue
from coordinator.toolsets.gateway.rules.scope import Scope
from coordinator.toolsets.gateway.rules.task import Advance, Ending, Event, OperationProblem, Task
from coordinator.toolsets.gateway.store.instances import Instance

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_counts = msgspec.json.Decoder(dict[str, int]).decode
_kept = msgspec.json.Decoder(list[KeptValue]).decode


CANCELLED = "cancelled"
"""The class of an operation's failure that its caller has brought about."""


class Snapshot(NamedTuple):
    """An instance with its definitions at one moment, and the ending of the requested operation."""

    id: str
    instance: Instance
    bundle: Bundle
    ending: Ending | None = None
    """None: no operation was requested, or it is still in progress."""

    @property
    def workflow(self) -> Workflow:
        return self.bundle.definitions[self.instance.definition]

    @property
    def kept(self) -> list[KeptValue]:
        """The values that are kept whole now, the oldest first."""
        return _kept(self.instance.kept)

    def circumstances(self, principal: Principal) -> Circumstances:
        """What guards evaluate, without the arguments of a transition."""
        context = self.ending.context if self.ending is not None else _decode(self.instance.context)
        scope = Scope(context, {}, _decode(self.instance.input))
        return Circumstances(principal, scope, _counts(self.instance.evidence))

    def task(self, operation: str, kind: Literal["submit", "timeout"], principal: Principal) -> Task:
        instance = self.instance
        return Task(
            op=operation,
            kind=kind,
            workflow=self.id,
            definition=instance.definition,
            principal=principal,
            input=_decode(instance.input),
            nesting=instance.nesting,
            owner=instance.owner,
            open_approvals=bool(instance.approvals),
            state=instance.state,
            version=instance.version,
            context=_decode(instance.context),
            evidence=_counts(instance.evidence),
            kept=self.kept,
        )


def timed_out(snapshot: Snapshot) -> tuple[Advance, str]:
    """Plans the timeout of an instance.

    Returns:
        What to write, and the ending (JSON) of the operation that was in progress.
    """
    instance = snapshot.instance
    # The sweep and a reading call derive the same operation, so it does not matter which comes first.
    operation = "cor_" + blake2b(f"{snapshot.id} {instance.deadline}".encode(), digest_size=8).hexdigest()
    task = snapshot.task(operation, "timeout", Principal(id=SYSTEM, roles=(SYSTEM,)))
    advance = planner.timeout(snapshot.bundle, task)
    stale = checks.stale(instance.version, instance.version + 1)
    on_timeout = snapshot.workflow.on_timeout
    late = Ending(
        state=on_timeout.target if on_timeout is not None else instance.state,
        version=instance.version + 1,
        context=task.context,
        error=OperationProblem(code=stale.code, message=stale.message, details={"timedOut": True}),
    )
    return advance, _encode(late).decode()


def cancelled(snapshot: Snapshot, principal: Principal) -> Advance:
    """Plans the end of the operation in progress, because its caller has cancelled it. What it has committed stays."""
    instance = snapshot.instance
    problem = OperationProblem(
        code="EXECUTOR_FAILED",
        message=f"The transition {instance.transition!r} was cancelled by its caller.",
        details={"errorClass": CANCELLED},
    )
    ending = Ending(
        state=instance.state, version=instance.version, context=_decode(instance.context), error=problem
    )  # fmt: skip
    failure = {"transition": instance.transition, "code": problem.code, "message": problem.message}
    event = Event("transition.cancelled", _encode({"transition": instance.transition}).decode())
    return Advance(
        op=instance.operation,
        base=instance.version,
        state=instance.state,
        version=instance.version,
        actor=principal.id,
        failure=_encode(failure).decode(),
        audit=[event],
        ending=_encode(ending).decode(),
    )


def was_cancelled(ending: Ending | None) -> bool:
    """Whether an operation ended because its caller has cancelled it."""
    return ending is not None and ending.error is not None and ending.error.details.get("errorClass") == CANCELLED


def retry_ms(instance: Instance) -> int:
    """After how many ms to poll the operation again. Grows with the time that it has taken."""
    return min(5_000, max(200, (instance.now - instance.since) // 2))
