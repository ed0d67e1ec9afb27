"""workflow_list and workflow_get."""

from __future__ import annotations

from typing import Annotated, get_args

from msgspec import UNSET, Meta, UnsetType, field

from coordinator.toolsets.doc import doc
from coordinator.toolsets.flows.contract import base
from coordinator.toolsets.waiting.reads import Waited, WaitMs

DEFAULT_LIMIT = 20
MAX_LIMIT = 100

WAITS_FOR = ("ended", "attention", "changed")


class WorkflowList(base.Arguments, kw_only=True):
    """List workflows, newest first."""

    limit: Annotated[int, doc("Most workflows to list; more than 100 counts as 100.", ge=1)] = DEFAULT_LIMIT
    status: Annotated[str | None, doc("Only with this status.", enum=[*base.WORKFLOW_STATUSES, None])] = None
    name: Annotated[str | None, doc("Only those whose name contains this, whatever the case.")] = None
    before: Annotated[
        base.Id | None, doc("Only with a lower id than this; the last id of a page leads to the next page.")
    ] = None


class WorkflowRow(base.Result, kw_only=True):
    """One entry of workflow_list."""

    id: base.WorkflowId
    name: base.Name
    status: base.StatusOfWorkflow
    created_by: base.CreatedBy
    completed_at: base.CompletedAt
    cancelled_at: base.CancelledAt | UnsetType = UNSET
    parent: base.Parent | UnsetType = UNSET


class WorkflowGet(base.Arguments, kw_only=True):
    """Get a workflow with its step history."""

    id: base.WorkflowRef
    step: Annotated[base.Id | None, doc("Only this step, by its id, with its whole result.")] = None
    after: Annotated[
        base.Id | Annotated[str, Meta(max_length=64)] | None,
        doc(
            "Only steps after this one: next_after of the page before. With waitFor changed: waited.after "
            "of the last answer."
        ),
    ] = None
    whole: Annotated[bool, doc("All results whole, however large the answer; for programs.")] = False
    wait_for: Annotated[
        str | None, doc("attention: ended, or a gate waits that you may release.", enum=[*WAITS_FOR, None])
    ] = field(name="waitFor", default=None)
    wait_ms: WaitMs = field(name="waitMs", default=None)


class StepRow(base.Result, kw_only=True):
    """One step of workflow_get."""

    id: Annotated[int, doc("The step's id, for workflow_step_ready.")]
    name: Annotated[str, doc("The step's name.")]
    tool: Annotated[str | None, doc("Its tool; null: a gate, or a step that does nothing.")]
    status: Annotated[
        str,
        doc(
            "pending: waits for its time or its next attempt; ready: for a worker; paused: for its "
            "workflow to be resumed. A gate that waits for workflow_step_ready is running.",
            enum=get_args(base.StepStatus),
        ),
    ]
    attempt: Annotated[int, doc("Number of its present or last attempt, from 1.")]
    result_json: Annotated[
        str | None,
        doc(
            'JSON of what it returned; failed: {"error","type"}; null: not finished. Large ones are '
            '{"truncated":true,"bytes","beginning"} where the answer has no room: ask with step.'
        ),
    ]
    started_at: Annotated[base.Millis | None, doc("When it began, ms; null: not yet.")]
    completed_at: Annotated[base.Millis | None, doc("When it ended, ms; null: not yet.")]
    approved_by: Annotated[str, doc("Who released it, or let it begin; absent: nobody.")] | UnsetType = UNSET
    via: Annotated[str, doc("client: that one's client was asked, and may have answered by itself.")] | (
        UnsetType
    ) = UNSET


class Workflow(base.Result, kw_only=True):
    id: base.WorkflowId
    name: base.Name
    status: base.StatusOfWorkflow
    created_by: base.CreatedBy
    reason: Annotated[str, doc("Why it failed; absent: it did not.")] | UnsetType = UNSET
    parent: base.Parent | UnsetType = UNSET
    steps: Annotated[list[StepRow], doc("Its steps so far, in order of creation.")]
    next_after: Annotated[int, doc("after of the next page; absent: this is the last.")] | UnsetType = UNSET
    waited: Annotated[Waited, doc("With waitMs.")] | UnsetType = UNSET
