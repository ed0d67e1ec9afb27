"""Bases and field types that the contracts of the flows toolset share.

Names are snake_case and times integer milliseconds; ``requestId`` alone is spelt as in all toolsets. Bounds of ids are
published and enforced by decoding; those of texts only published, the tools check them.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from coordinator.toolsets.actor import Actor
from coordinator.toolsets.canonical import NOT_COMPARED
from coordinator.toolsets.doc import doc

FlowStatus = Literal["running", "paused", "completed", "failed", "cancelled"]
StepStatus = Literal["pending", "ready", "paused", "running", "done", "failed", "cancelled"]
WORKFLOW_STATUSES: tuple[FlowStatus, ...] = get_args(FlowStatus)
MAX_ID = 2**53 - 1


class Arguments(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of a tool."""


class Result(msgspec.Struct, omit_defaults=True):
    """A result or a part of one; fields that are UNSET are left out."""


# Arguments

Id = Annotated[int, Meta(ge=1, le=MAX_ID)]
WorkflowRef = Annotated[Id, doc("The workflow's id, from workflow_create.")]
StepRef = Annotated[Id, doc("The step's id, from the steps of workflow_get.")]
OptionalActor = Annotated[Actor | None, doc("Who acts; recorded as created_by or approved_by.", extra=NOT_COMPARED)]

# Results

Name = Annotated[str, doc("The workflow's name.")]
WorkflowId = Annotated[int, doc("The workflow's id, which is also its time of creation.")]
WorkflowStatus = Annotated[str, Meta(extra_json_schema={"enum": list(WORKFLOW_STATUSES)})]
"""A status; the field says of what."""
StatusOfWorkflow = Annotated[WorkflowStatus, doc("The workflow's status.")]
CreatedBy = Annotated[str, doc("Who created it; anonymous: nobody said.")]
Millis = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
"""Unix time in milliseconds; the field says of what."""
CompletedAt = Annotated[
    Millis | None, doc("When it completed or failed, ms; null: it has not ended, or was cancelled.")
]
CancelledAt = Annotated[Millis, doc("When it was cancelled, ms; absent: it was not.")]
Parent = Annotated[int, doc("The workflow it was created for; absent: none.")]
