"""workflow_cancel and workflow_step_ready."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.flows.contract.base import (
    Arguments,
    OptionalActor,
    Result,
    StepRef,
    WorkflowRef,
    WorkflowStatus,
)
from coordinator.toolsets.request_id import RequestId


class WorkflowCancel(Arguments, kw_only=True):
    """Cancel a running or paused workflow."""

    id: WorkflowRef
    actor: OptionalActor = None
    request_id: RequestId = msgspec.field(default=None, name="requestId")


class Cancelled(Result, kw_only=True):
    """The answer of workflow_cancel."""

    cancelled: Annotated[bool, Meta(description="Whether this call cancelled it.")]
    status: (
        Annotated[WorkflowStatus, Meta(description="How it had ended before; absent: this call cancelled it.")]
        | UnsetType
    ) = UNSET


class WorkflowStepReady(Arguments, kw_only=True):
    """Release a gate, or let a waiting step begin."""

    step_id: StepRef
    actor: OptionalActor = None
    request_id: RequestId = msgspec.field(default=None, name="requestId")


class Released(Result, kw_only=True):
    """The answer of workflow_step_ready."""

    queued: Annotated[bool, Meta(description="Whether this call released it.")]
    error: Annotated[str, Meta(description="Why not, such as: step is done; absent: it was.")] | UnsetType = UNSET
