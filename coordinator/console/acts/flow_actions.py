"""What people do with workflows and their steps."""

from __future__ import annotations

from collections.abc import Iterator

from htpy import Node

from coordinator.console.acts.buttons import Change, button, note, refusal
from coordinator.console.acts.confirms import confirm
from coordinator.console.parts import plain
from coordinator.console.view import Visit
from coordinator.toolsets.flows import FlowRow, Step, StepRecord, administers, may_approve


def flow_buttons(visit: Visit, row: FlowRow, again: int) -> Iterator[tuple[str, Node]]:
    """What can be done with a workflow now, each with what names it; ``again`` counts failed and cancelled steps."""
    caller = visit.viewer.caller
    if caller is None or not visit.viewer.is_person:
        yield "none", note(f"Read only: {refusal(visit.viewer, 'flows')}.")
        return

    def operate(text: str, does: str, done: str, kind: str = "") -> tuple[str, Node]:
        question = confirm(does.replace("_", " "), name=row.name, id=row.id, again=again)
        change = Change(f"operate/{does}", {"id": row.id}, done)
        return does, button(text, change, visit.project, confirm=question, refused=refusal(visit.viewer), kind=kind)

    if row.status == "running":
        yield operate("Pause workflow", "pause_flow", "It is paused.")
    if row.status == "paused":
        yield operate("Resume workflow", "resume_flow", "It goes on.", "primary")
    if row.status in ("running", "paused"):
        theirs = administers(caller) or row.creator == caller.id
        cancel = button(
            "Cancel workflow",
            Change("call/flows/workflow_cancel", {"id": row.id}, "It is cancelled."),
            visit.project,
            confirm=confirm("cancel flow", name=row.name, id=row.id),
            refused=refusal(visit.viewer, "flows") or ("" if theirs else f"only {plain(row.creator)} may cancel it"),
            kind="danger",
        )
        yield "cancel_flow", cancel
    elif row.status in ("failed", "cancelled") and again:
        yield operate("Retry workflow", "retry_flow", "It runs again.", "primary")


def step_button(visit: Visit, step: Step, record: StepRecord) -> Node:
    """Releases a gate, or lets a step begin now that waits for its time; None: it does neither."""
    if not visit.viewer.is_person or not (record.gate or record.status == "pending"):
        return None
    may = may_approve(visit.viewer.caller, step.approver_role) if record.gate else True
    text, done = ("Release", "The gate is released.") if record.gate else ("Begin now", "It begins.")
    change = Change("call/flows/workflow_step_ready", {"step_id": record.id}, done)
    refused = refusal(visit.viewer, "flows") or ("" if may else f"needs the role '{plain(step.approver_role or '')}'")
    question = confirm("release gate", name=step.name) if record.gate else None
    return button(text, change, visit.project, confirm=question, refused=refused)
