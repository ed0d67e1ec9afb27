"""workflow_cancel and workflow_step_ready."""

from __future__ import annotations

from msgspec import UNSET

from coordinator.errors import ToolFailure
from coordinator.toolsets.flows.contract.changes import Cancelled, Released, WorkflowCancel, WorkflowStepReady
from coordinator.toolsets.flows.rules.permissions import administers, may_approve, may_read
from coordinator.toolsets.flows.rules.spec import unpack
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.flows.tools.shared import Acting, acting, approver_roles, unknown_workflow
from coordinator.toolsets.request_id import keyed
from coordinator.toolsets.tool import Call, Criticality, Services, Tool

_CANCEL = (
    "Cancel a running or paused workflow at once. Running steps are stopped, and results that they still return are "
    "dropped. A workflow that has ended is not changed."
)
_READY = (
    "Release an approval gate (a step with tool null and status running), or let a pending or paused step begin now; "
    "what follows a step of a paused workflow still waits. approved_by records who did it. Needs the right to read the "
    "workflow."
)


class Changes:
    """Handlers of the tools that cancel workflows and release gates."""

    def __init__(self, flows: FlowStore, services: Services) -> None:
        self._flows = flows
        self._services = services

    async def workflow_cancel(self, call: Call, args: WorkflowCancel) -> Cancelled:
        """Cancels a workflow of the caller."""
        who = await acting(self._services, call, args.actor)
        if not administers(who.caller):
            found = await self._flows.get(call.project, args.id)
            if found is None or found.row.creator != who.id:
                # A caller must not learn of an invisible workflow.
                raise unknown_workflow()
        record = keyed(who.id, args.request_id, "workflow_cancel", args.id)
        outcome = await self._flows.cancel(call.project, record, args.id, who.id)
        if outcome is None:
            raise unknown_workflow()
        cancelled, status = outcome
        return Cancelled(cancelled=cancelled, status=UNSET if cancelled else status)

    async def workflow_step_ready(self, call: Call, args: WorkflowStepReady) -> Released:
        """Releases a gate, or lets a pending or paused step begin now."""
        who = await acting(self._services, call, args.actor)
        record = keyed(who.id, args.request_id, "workflow_step_ready", args.step_id)
        if who.caller is not None:
            await self._check_rights(call.project, args.step_id, who)
        outcome = await self._flows.release(call.project, record, args.step_id, who.id)
        if outcome is None:
            raise _unknown_step()
        released, status = outcome
        return Released(queued=released, error=UNSET if released else f"step is {status}")

    async def _check_rights(self, project: str, step: int, who: Acting) -> None:
        """Rejects callers who may not see the workflow, or lack the role that a gate requires. (Creator and roles
        of a workflow never change, so they can be read before.)

        Raises:
            ToolFailure: ``permission_denied``; RESOURCE_NOT_FOUND.
        """
        found = await self._flows.find_step(project, step)
        spec = unpack(found.spec) if found is not None else None
        if found is None or spec is None or not may_read(who.caller, found.creator, approver_roles(spec)):
            # A caller must not learn of an invisible workflow.
            raise _unknown_step()
        role = spec.flow[found.step.key].approver_role
        if not may_approve(who.caller, role):
            raise ToolFailure(
                "permission_denied", f"step_id: only somebody with the role {role!r} may release this gate"
            )


def tools(flows: FlowStore, services: Services) -> tuple[Tool, ...]:
    """The tools."""
    handle = Changes(flows, services)
    return (
        Tool(
            "workflow_cancel",
            _CANCEL,
            WorkflowCancel,
            (Cancelled,),
            handle.workflow_cancel,
            destructive=True,
            criticality=Criticality.CRITICAL,
        ),
        Tool(
            "workflow_step_ready",
            _READY,
            WorkflowStepReady,
            (Released,),
            handle.workflow_step_ready,
            criticality=Criticality.CRITICAL,
        ),
    )


def _unknown_step() -> ToolFailure:
    return ToolFailure("RESOURCE_NOT_FOUND", "step_id: no such step in this project")
