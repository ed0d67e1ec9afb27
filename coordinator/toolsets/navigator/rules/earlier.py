"""Reads states of earlier versions of this server, which kept a history and could not run other workflows.

They were signed for another purpose, so the forms cannot be confused.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.toolsets.navigator.rules.state import LoopState, State


class _Record(msgspec.Struct, rename="camel"):
    """Base of all parts of a state. Obsolete fields are ignored."""


class _Response(_Record):
    option_id: str


class _Loop(_Record):
    activity_id: str
    loop_id: str
    current_iteration: int
    total_items: int
    current_item: Any = UNSET
    items: list[Any] | UnsetType = UNSET


class EarlierState(_Record):
    """The position of a walk. Steps were kept by activity or ``activity/loop``, answers by ``activity-checkpoint``."""

    workflow_id: str
    workflow_version: str
    started_at: str
    updated_at: str
    current_activity: str
    state_version: int = 1
    completed_activities: list[str] = []
    skipped_activities: list[str] = []
    completed_steps: dict[str, list[int]] = {}
    checkpoint_responses: dict[str, _Response] = {}
    active_loops: list[_Loop] = []
    variables: dict[str, Any] = {}
    status: str = "running"
    closed: bool = False


def carried_on(held: EarlierState) -> State:
    """The same position as a current state. A loop that had ended in this visit is required again."""
    here = held.current_activity
    return State(
        workflow_id=held.workflow_id,
        workflow_version=held.workflow_version,
        started_at=held.started_at,
        updated_at=held.updated_at,
        current_activity=here,
        state_version=held.state_version,
        completed_activities=held.completed_activities,
        skipped_activities=held.skipped_activities,
        completed_steps=held.completed_steps.get(here, []),
        loop_steps={
            key.removeprefix(f"{here}/"): steps
            for key, steps in held.completed_steps.items()
            if key.startswith(f"{here}/")
        },
        answers={
            key.removeprefix(f"{here}-"): response.option_id
            for key, response in held.checkpoint_responses.items()
            if key.startswith(f"{here}-")
        },
        active_loops=[
            LoopState(one.loop_id, one.current_iteration, one.total_items, one.items, one.current_item)
            for one in held.active_loops
            if one.activity_id == here
        ],
        variables=held.variables,
        status="completed" if held.status == "completed" else "running",
        closed=held.closed,
    )
