"""workflow_cancel and workflow_step_ready."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.flows.contract import base
from coordinator.toolsets.request_id import RequestId


class WorkflowCancel(base.Arguments, kw_only=True):
    """Cancel a running or paused workflow."""

    id: base.WorkflowRef
    actor: base.OptionalActor = None
    request_id: RequestId = msgspec.field(default=None, name="requestId")


class Cancelled(base.Result, kw_only=True):
    """The answer of workflow_cancel."""

    cancelled: Annotated[bool, doc("Whether this call cancelled it.")]
    status: (
        Annotated[base.WorkflowStatus, doc("How it had ended before; absent: this call cancelled it.")] | UnsetType
    ) = UNSET


class WorkflowStepReady(base.Arguments, kw_only=True):
    """Release a gate, or let a waiting step begin."""

    step_id: base.StepRef
    actor: base.OptionalActor = None
    request_id: RequestId = msgspec.field(default=None, name="requestId")


class Released(base.Result, kw_only=True):
    """The answer of workflow_step_ready."""

    queued: Annotated[bool, doc("Whether this call released it.")]
    error: Annotated[str, doc("Why not, such as: step is done; absent: it was.")] | UnsetType = UNSET
