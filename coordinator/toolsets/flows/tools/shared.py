"""What the tools of this toolset have in common: who acts, and what he may."""

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
    """Who makes a call."""

    id: str
    """The verified caller, the actor given, or ``anonymous``."""
    caller: Caller | None
    """With permissions: from his bearer, or from the proof of the actor; none: nobody is identified."""


def admitted(caller: Caller | None, *, read_only: bool) -> None:
    """Refuses callers who are known and may not use workflows.

    Raises:
        ToolFailure: ``permission_denied``.
    """
    if not may_use(caller, read_only):
        raise ToolFailure("permission_denied", f"workflows need the permission {USE!r}")


async def acting(services: Services, call: Call, actor: Actor | None) -> Acting:
    """Who makes a change.

    Raises:
        ToolFailure: ``permission_denied``; VALIDATION_ERROR for a malformed actor; ``rejected_by_policy``.
    """
    admitted(call.caller, read_only=False)
    if actor is None:
        return Acting(call.caller.id if call.caller is not None else ANONYMOUS, call.caller)
    trusted = await services.resolve_actor(checked(actor))
    if call.caller is None:
        # A proof identifies as well as a bearer does.
        admitted(trusted.caller, read_only=False)
    return Acting(trusted.id, call.caller or trusted.caller)


def approver_roles(spec: Spec) -> set[str]:
    """The roles that the gates of a flow ask for."""
    return {step.approver_role for step in spec.flow.values() if step.approver_role is not None}


def unknown_workflow() -> ToolFailure:
    """The failure for an id that names no workflow, or one that the caller may not see."""
    return ToolFailure("RESOURCE_NOT_FOUND", "id: no such workflow in this project")
