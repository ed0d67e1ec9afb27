"""workflow_cancel and workflow_step_ready."""

from __future__ import annotations

from msgspec import UNSET

from coordinator.toolsets.canonical import canonical
from coordinator.toolsets.flows.contract.changes import Cancelled, Released, WorkflowCancel, WorkflowStepReady
from coordinator.toolsets.flows.rules.permissions import administers
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.flows.tools.approvals import check_approver, unknown_step
from coordinator.toolsets.flows.tools.shared import acting, unknown_workflow
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
        who = await acting(self._services, call, args.actor)
        if not administers(who.caller):
            found = await self._flows.get(call.project, args.id)
            if found is None or found.row.creator != who.id:
                # A caller must not learn of an invisible workflow.
                raise unknown_workflow()
        record = keyed(who.id, args.request_id, "workflow_cancel", canonical(args))
        outcome = await self._flows.cancel(call.project, record, args.id, who.id)
        if outcome is None:
            raise unknown_workflow()
        cancelled, status = outcome
        return Cancelled(cancelled=cancelled, status=UNSET if cancelled else status)

    async def workflow_step_ready(self, call: Call, args: WorkflowStepReady) -> Released:
        """Releases a gate, or lets a pending or paused step begin now."""
        who = await acting(self._services, call, args.actor)
        record = keyed(who.id, args.request_id, "workflow_step_ready", canonical(args))
        if who.caller is not None:
            await check_approver(self._flows, call.project, args.step_id, who.caller)
        outcome = await self._flows.release(call.project, record, args.step_id, who.id)
        if outcome is None:
            raise unknown_step()
        released, status = outcome
        return Released(queued=released, error=UNSET if released else f"step is {status}")


def tools(flows: FlowStore, services: Services) -> tuple[Tool, ...]:
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
