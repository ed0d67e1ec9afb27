"""Shared by the tools of this toolset: the actor and its permissions."""

from __future__ import annotations

from typing import NamedTuple

from coordinator.errors import ToolFailure
from coordinator.toolsets.actor import Actor, checked
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.permissions import USE, may_use
from coordinator.toolsets.flows.rules.spec import Spec
from coordinator.toolsets.tool import Call, Services

ANONYMOUS = "anonymous"
"""The actor of calls that name none."""


class Acting(NamedTuple):
    """The actor of a call."""

    id: str
    """The verified caller, the actor given, or ``anonymous``."""
    caller: Caller | None
    """The caller with permissions, from the bearer token or the actor's proof; None: unidentified."""


def admitted(caller: Caller | None, *, read_only: bool) -> None:
    """Rejects identified callers that may not use workflows.

    Raises:
        ToolFailure: ``permission_denied``.
    """
    if not may_use(caller, read_only):
        raise ToolFailure("permission_denied", f"workflows need the permission {USE!r}")


async def acting(services: Services, call: Call, actor: Actor | None) -> Acting:
    """The actor of a change.

    Raises:
        ToolFailure: ``permission_denied``; VALIDATION_ERROR for a malformed actor; ``rejected_by_policy``.
    """
    admitted(call.caller, read_only=False)
    if actor is None:
        return Acting(call.caller.id if call.caller is not None else ANONYMOUS, call.caller)
    trusted = await services.resolve_actor(checked(actor))
    if call.caller is None:
        # A proof identifies a caller just as a bearer token does.
        admitted(trusted.caller, read_only=False)
    caller = call.caller or trusted.caller
    return Acting(trusted.id if caller is None else caller.id, caller)  # workflows belong to callers, not to slots


def approver_roles(spec: Spec) -> set[str]:
    return {step.approver_role for step in spec.flow.values() if step.approver_role is not None}


def unknown_workflow() -> ToolFailure:
    """The failure for an id that names no workflow, or one that the caller may not see."""
    return ToolFailure("RESOURCE_NOT_FOUND", "id: no such workflow in this project")
