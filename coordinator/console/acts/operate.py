"""What operators do in the console that is no call of a tool: ``coordinator.operations``, for pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from coordinator.console.acts.large import untyped
from coordinator.errors import invalid
from coordinator.operations import ActResult, Operator
from coordinator.operations.claims import end_claim
from coordinator.operations.drains import drain_agents, drain_processes
from coordinator.operations.flows import pause_flow, retry_flow
from coordinator.store.fleet.drains import FLEET_SCOPE
from coordinator.toolsets.actor import MAX_ID


class _Arguments(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class _Scope(_Arguments):
    scope: Annotated[str, Meta(max_length=600)]
    typed: Annotated[str, Meta(max_length=600)] = ""
    """What the person typed, so that nobody drains the fleet by mistake."""


class _Agent(_Arguments):
    name: Annotated[str, Meta(max_length=MAX_ID + 1)]


class _Claim(_Arguments):
    item_id: Annotated[str, Meta(max_length=36)]
    fence: int = 0
    failed: bool = False


class _Flow(_Arguments):
    id: int


class Operation(NamedTuple):
    arguments: type[_Arguments]
    act: Callable[[Operator, str, Any], Awaitable[ActResult]]
    """Given who acts, the project, and the arguments."""
    of_project: bool = True
    """Else it is about the fleet."""


async def _drain(by: Operator, _: str, of: _Scope) -> ActResult:
    problem = untyped(of.typed, FLEET_SCOPE, "all processes") if of.scope == FLEET_SCOPE else ""
    return ActResult("refused", problem) if problem else await drain_processes(by, of.scope)


OPERATIONS: Mapping[str, Operation] = {
    "drain": Operation(_Scope, _drain, of_project=False),
    "end_drain": Operation(_Scope, lambda by, _, of: drain_processes(by, of.scope, end=True), of_project=False),
    "drain_agents": Operation(_Agent, lambda by, project, of: drain_agents(by, project, of.name)),
    "end_drain_agents": Operation(_Agent, lambda by, project, of: drain_agents(by, project, of.name, end=True)),
    "end_claim": Operation(
        _Claim, lambda by, project, of: end_claim(by, project, of.item_id, fence=of.fence, failed=of.failed)
    ),
    "retry_flow": Operation(_Flow, lambda by, project, of: retry_flow(by, project, of.id)),
    "pause_flow": Operation(_Flow, lambda by, project, of: pause_flow(by, project, of.id)),
    "resume_flow": Operation(_Flow, lambda by, project, of: pause_flow(by, project, of.id, resume=True)),
}
"""By name."""


async def operate(by: Operator, name: str, project: str, request: Mapping[str, Any]) -> ActResult:
    """Does one of ``OPERATIONS``, with the arguments of a request."""
    operation = OPERATIONS[name]
    if operation.of_project != bool(project):
        raise invalid("project", "this is about one project" if operation.of_project else "this is about the fleet")
    try:
        arguments = msgspec.convert(request, operation.arguments)
    except msgspec.ValidationError as error:
        raise invalid("arguments", str(error)) from None
    return await operation.act(by, project, arguments)
