"""Workflows in the store: creating, reading, listing, cancelling, releasing gates, retrying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from coordinator.settings import Settings
from coordinator.steps.model import Plan
from coordinator.store import Store
from coordinator.store.requests import NONE, Request

FlowStatus = Literal["running", "completed", "failed", "cancelled"]
StepStatus = Literal["pending", "ready", "running", "done", "failed", "cancelled"]


class NewFlow(Struct, frozen=True, kw_only=True):
    """A workflow to be created."""

    name: str
    creator: str
    spec: bytes
    """Whatever ``Planner`` and the tools need later: the packed flow and input."""
    steps: int
    """How many steps it can have at most: its step ids are the run's id + 1 .. + steps."""
    plan: Plan
    """What it begins with."""
    priority: Literal["high", "normal", "low"] = "normal"
    queue: str = ""
    delay_ms: int = 0
    """When its first steps may begin, from now."""
    parent: str = ""
    """What it was created for: shown, never followed."""


class StepRecord(Struct, frozen=True, kw_only=True):
    """A step as it stands. Times are ms of the store's clock; None: not yet."""

    id: int
    key: str
    status: StepStatus
    """A gate that waits is ``running`` (seed 003); ``pending`` waits for its time (delay or backoff)."""
    attempt: int
    ready_at: int | None = None
    started_at: int | None = None
    completed_at: int | None = None
    result_json: str | None = None
    gate: bool = False
    """Waits for its release now."""
    approved_by: str | None = None


class FlowRow(Struct, frozen=True, kw_only=True):
    """A workflow in a list."""

    id: int
    name: str
    status: FlowStatus
    creator: str
    created_at: int
    updated_at: int
    completed_at: int | None = None
    cancelled_at: int | None = None
    error: str | None = None
    parent: str | None = None


class FlowRecord(Struct, frozen=True, kw_only=True):
    """A workflow with its spec and all its steps, by id."""

    row: FlowRow
    priority: str
    spec: bytes
    steps: list[StepRecord]


class FoundStep(Struct, frozen=True, kw_only=True):
    """A step and its workflow, for checks before a release."""

    flow: FlowRow
    step: StepRecord
    spec: bytes


class FlowStore:
    """Workflows of any project. Raises ToolFailure as ``Store.run`` says, and ``request_id_reused``."""

    def __init__(self, store: Store, settings: Settings) -> None:
        raise NotImplementedError

    async def create(self, project: str, request: Request, new: NewFlow) -> int:
        """Stores and starts a workflow; returns its id."""
        raise NotImplementedError

    async def get(self, project: str, flow: int) -> FlowRecord | None:
        """A workflow with all its steps; None: unknown, or its retention is over."""
        raise NotImplementedError

    async def list(
        self,
        project: str,
        *,
        limit: int,
        creator: str | None = None,
        status: FlowStatus | None = None,
        name: str = "",
        before: int = 0,
    ) -> Sequence[FlowRow]:
        """Workflows, newest first.

        Args:
            creator: only this one's; None: everybody's.
            name: only those whose name contains it, whatever the case.
            before: only those with a lower id; 0: from the newest.
        """
        raise NotImplementedError

    async def cancel(self, project: str, request: Request, flow: int, actor: str) -> tuple[bool, FlowStatus] | None:
        """Cancels a running workflow: its steps are stopped, their results dropped.

        Returns:
            Whether it was cancelled by this call, and its status now; None: unknown.
        """
        raise NotImplementedError

    async def find_step(self, project: str, step: int) -> FoundStep | None:
        """A step by its id alone; None: unknown."""
        raise NotImplementedError

    async def release(self, project: str, request: Request, step: int, actor: str) -> tuple[bool, StepStatus] | None:
        """Releases a gate, or lets a pending step begin at once.

        Returns:
            Whether this call did it, and the step's status before; None: unknown.
        """
        raise NotImplementedError

    async def retry(self, project: str, request: Request, flow: int, actor: str) -> tuple[int, FlowStatus] | None:
        """Runs the failed and cancelled steps of a failed or cancelled workflow again.

        Returns:
            How many steps were queued, and the workflow's status before; None: unknown.
        """
        raise NotImplementedError


__all__ = ["NONE", "FlowRecord", "FlowRow", "FlowStore", "FoundStep", "NewFlow", "Request", "StepRecord"]
