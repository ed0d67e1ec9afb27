"""Gates asked of the person behind a client: the question, and the release that its answer means."""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.errors import ToolFailure
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.flows.rules.permissions import may_approve, may_read
from coordinator.toolsets.flows.rules.spec import Spec, unpack
from coordinator.toolsets.flows.store.flows import FlowRecord, FlowStore
from coordinator.toolsets.flows.tools.shared import ANONYMOUS, approver_roles
from coordinator.toolsets.questions import VIA_CLIENT, Answer, Question
from coordinator.toolsets.request_id import keyed
from coordinator.toolsets.tool import Call

RELEASE = "release"
"""The field of the form: whether the gate is released."""


class Gate(msgspec.Struct, array_like=True, frozen=True):
    """The state of a question: the gate that it is about."""

    step: int


def question(flow: FlowRecord, spec: Spec, caller: Caller | None, otherwise: Any) -> Question | None:
    """Asks about the first gate of a workflow that waits for this caller; None: none does.

    Args:
        otherwise: the answer of the call if nothing is asked.
    """
    who = caller.id if caller is not None else ANONYMOUS
    for step in flow.steps:
        definition = spec.flow[step.key]
        if step.gate and who not in step.declined and may_approve(caller, definition.approver_role):
            field = {"type": "boolean", "title": f"Release {definition.name!r}"}
            return Question(
                message=f"The workflow {flow.row.name!r} ({flow.row.id}) waits at the gate {definition.name!r}.",
                fields={RELEASE: field},
                required=(RELEASE,),
                state=Gate(step.id),
                otherwise=otherwise,
                key=f"gate-{step.id}",
            )
    return None


async def decide(flows: FlowStore, call: Call, answer: Answer) -> None:
    """Releases the gate, once; or notes that this caller was asked and has not.

    Raises:
        ToolFailure: as ``check_approver``.
    """
    gate = msgspec.convert(answer.state, Gate)
    who = call.caller.id if call.caller is not None else ANONYMOUS
    if answer.action != "accept" or not answer.content[RELEASE]:
        await flows.decline(call.project, gate.step, who)
        return
    if call.caller is not None:
        await check_approver(flows, call.project, gate.step, call.caller)
    record = keyed(who, f"answer {answer.once}", "workflow_step_ready", gate.step)
    await flows.release(call.project, record, gate.step, who, VIA_CLIENT)


async def check_approver(flows: FlowStore, project: str, step: int, caller: Caller) -> None:
    """Rejects callers who may not see the workflow, or lack the role that a gate requires. (Creator and roles of a
    workflow never change, so they can be read before.)

    Raises:
        ToolFailure: ``permission_denied``; RESOURCE_NOT_FOUND.
    """
    gate = await flows.find_step(project, step)
    spec = unpack(gate.spec) if gate is not None else None
    if gate is None or spec is None or not may_read(caller, gate.creator, approver_roles(spec)):
        # A caller must not learn of an invisible workflow.
        raise unknown_step()
    role = spec.flow[gate.step.key].approver_role
    if not may_approve(caller, role):
        raise ToolFailure("permission_denied", f"step_id: only somebody with the role {role!r} may release this gate")


def unknown_step() -> ToolFailure:
    """The failure for an id that names no step, or one that the caller may not see."""
    return ToolFailure("RESOURCE_NOT_FOUND", "step_id: no such step in this project")
