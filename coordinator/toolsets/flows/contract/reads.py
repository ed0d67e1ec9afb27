"""workflow_list and workflow_get."""

from __future__ import annotations

from typing import Annotated, get_args

from msgspec import UNSET, Meta, UnsetType, field

from coordinator.toolsets.flows.contract.base import (
    WORKFLOW_STATUSES,
    Arguments,
    CancelledAt,
    CompletedAt,
    CreatedBy,
    Id,
    Millis,
    Name,
    Parent,
    Result,
    StatusOfWorkflow,
    StepStatus,
    WorkflowId,
    WorkflowRef,
)
from coordinator.toolsets.waiting_reads import Waited, WaitMs

DEFAULT_LIMIT = 20
MAX_LIMIT = 100

WAITS_FOR = ("ended", "attention", "changed")


class WorkflowList(Arguments, kw_only=True):
    """List workflows, newest first."""

    limit: Annotated[int, Meta(description="Most workflows to list; more than 100 counts as 100.", ge=1)] = (
        DEFAULT_LIMIT
    )
    status: Annotated[
        str | None,
        Meta(description="Only with this status.", extra_json_schema={"enum": [*WORKFLOW_STATUSES, None]}),
    ] = None
    name: Annotated[str | None, Meta(description="Only those whose name contains this, whatever the case.")] = None
    before: Annotated[
        Id | None, Meta(description="Only with a lower id than this; the last id of a page leads to the next page.")
    ] = None


class WorkflowRow(Result, kw_only=True):
    """One entry of workflow_list."""

    id: WorkflowId
    name: Name
    status: StatusOfWorkflow
    created_by: CreatedBy
    completed_at: CompletedAt
    cancelled_at: CancelledAt | UnsetType = UNSET
    parent: Parent | UnsetType = UNSET


class WorkflowGet(Arguments, kw_only=True):
    """Get a workflow with its step history."""

    id: WorkflowRef
    step: Annotated[Id | None, Meta(description="Only this step, by its id, with its whole result.")] = None
    after: Annotated[
        Id | Annotated[str, Meta(max_length=64)] | None,
        Meta(
            description="Only steps after this one: next_after of the page before. With waitFor changed: waited.after "
            "of the last answer."
        ),
    ] = None
    whole: Annotated[bool, Meta(description="All results whole, however large the answer; for programs.")] = False
    wait_for: Annotated[
        str | None,
        Meta(
            description="attention: ended, or a gate waits that you may release.",
            extra_json_schema={"enum": [*WAITS_FOR, None]},
        ),
    ] = field(name="waitFor", default=None)
    wait_ms: WaitMs = field(name="waitMs", default=None)


class StepRow(Result, kw_only=True):
    """One step of workflow_get."""

    id: Annotated[int, Meta(description="The step's id, for workflow_step_ready.")]
    name: Annotated[str, Meta(description="The step's name.")]
    tool: Annotated[str | None, Meta(description="Its tool; null: a gate, or a step that does nothing.")]
    status: Annotated[
        str,
        Meta(
            description="pending: waits for its time or its next attempt; ready: for a worker; paused: for its "
            "workflow to be resumed. A gate that waits for workflow_step_ready is running.",
            extra_json_schema={"enum": list(get_args(StepStatus))},
        ),
    ]
    attempt: Annotated[int, Meta(description="Number of its present or last attempt, from 1.")]
    result_json: Annotated[
        str | None,
        Meta(
            description='JSON of what it returned; failed: {"error","type"}; null: not finished. Large ones are '
            '{"truncated":true,"bytes","beginning"} where the answer has no room: ask with step.'
        ),
    ]
    started_at: Annotated[Millis | None, Meta(description="When it began, ms; null: not yet.")]
    completed_at: Annotated[Millis | None, Meta(description="When it ended, ms; null: not yet.")]
    approved_by: Annotated[str, Meta(description="Who released it, or let it begin; absent: nobody.")] | UnsetType = (
        UNSET
    )
    via: Annotated[str, Meta(description="client: that one's client was asked, and may have answered by itself.")] | (
        UnsetType
    ) = UNSET


class Workflow(Result, kw_only=True):
    """The answer of workflow_get."""

    id: WorkflowId
    name: Name
    status: StatusOfWorkflow
    created_by: CreatedBy
    reason: Annotated[str, Meta(description="Why it failed; absent: it did not.")] | UnsetType = UNSET
    parent: Parent | UnsetType = UNSET
    steps: Annotated[list[StepRow], Meta(description="Its steps so far, in order of creation.")]
    next_after: Annotated[int, Meta(description="after of the next page; absent: this is the last.")] | UnsetType = (
        UNSET
    )
    waited: Annotated[Waited, Meta(description="With waitMs.")] | UnsetType = UNSET
