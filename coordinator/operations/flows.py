"""Pauses, resumes, retries and cancels workflows. All raise ToolFailure: there is none, or as ``Store.run`` says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from coordinator.errors import ToolFailure
from coordinator.operations.log import Act, ActResult, record
from coordinator.operations.operator import Operator
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.flows import FlowStore

T = TypeVar("T")


async def pause_flow(by: Operator, project: str, flow: int, *, resume: bool = False) -> ActResult:
    """No further step of a running workflow begins; or those of a paused one begin again."""
    action, state, done = ("resume", "paused", "resumed") if resume else ("pause", "running", "paused")

    async def do(flows: FlowStore, request: IdempotencyKey) -> ActResult:
        answer = await flows.pause(project, request, flow, by.id, by.reason, resume=resume)
        changed, status = known(answer, "workflow", flow, project)
        said = f"only a {state} workflow can be {done}; it is {status}"
        return ActResult("allowed") if changed else ActResult("refused", said)

    return await _record(by, f"{action}_flow", project, flow, do)


async def retry_flow(by: Operator, project: str, flow: int) -> ActResult:
    """The failed and cancelled steps of a workflow run again: ``steps`` of them, and its ``status`` was so before."""

    async def do(flows: FlowStore, request: IdempotencyKey) -> ActResult:
        answer = await flows.retry(project, request, flow, by.id, by.reason)
        steps, status = known(answer, "workflow", flow, project)
        said = f"it has no failed or cancelled steps to run again; it is {status}"
        return ActResult("allowed", facts={"steps": steps, "status": status}) if steps else ActResult("refused", said)

    return await _record(by, "retry_flow", project, flow, do)


async def cancel_flow(by: Operator, project: str, flow: int) -> ActResult:
    """A workflow ends, and its steps are stopped."""

    async def do(flows: FlowStore, request: IdempotencyKey) -> ActResult:
        changed, status = known(await flows.cancel(project, request, flow, by.id), "workflow", flow, project)
        return ActResult("allowed") if changed else ActResult("refused", had_ended(status))

    return await _record(by, "cancel_flow", project, flow, do)


def had_ended(status: str) -> str:
    """Why a workflow is not cancelled."""
    return f"it had ended already: it is {status}"


def known(value: T | None, what: str, id: object, project: str) -> T:
    """What was found. Raises ToolFailure: RESOURCE_NOT_FOUND, there is none."""
    if value is None:
        raise ToolFailure("RESOURCE_NOT_FOUND", f"there is no {what} {id} in the project '{project}'")
    return value


async def _record(
    by: Operator, action: str, project: str, flow: int, do: Callable[[FlowStore, IdempotencyKey], Awaitable[ActResult]]
) -> ActResult:
    flows, request = FlowStore(by.store, by.settings), by.key(action, flow)
    return await record(by, Act(action, "flow", str(flow), project), lambda: do(flows, request))
