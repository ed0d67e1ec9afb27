"""The state of a walk, as its token contains it.

It holds only what the rest of the walk depends on: progress of earlier visits of activities no longer counts, so it is
not kept. Field names are those of the token's JSON. Steps are numbered from 1 within their
activity or loop.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Status = Literal["running", "suspended", "completed"]


class _Record(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of all parts of a state."""


class LoopState(_Record):
    loop_id: str
    current_iteration: int
    """From 0."""
    total_items: int
    items: list[Any] | UnsetType = UNSET
    """All items, if the caller passed them and they are small enough for the state."""
    current_item: Any = UNSET
    """The current item, if it was not taken from ``items``."""

    @property
    def item(self) -> Any:
        """The current item; UNSET if unknown."""
        here = (self.items or [])[self.current_iteration : self.current_iteration + 1]
        return here[0] if here and self.current_item is UNSET else self.current_item


class State(_Record):
    """The position of a walk."""

    workflow_id: str
    workflow_version: str
    started_at: str
    updated_at: str
    current_activity: str
    state_version: int = 1
    """Raised by each action."""
    current_step: int | UnsetType = UNSET
    """The step to complete next; UNSET if none comes next."""
    completed_activities: list[str] = []
    """In order. Includes the current activity only if it ended the workflow."""
    ahead: list[str] = []
    """The activities that were completed before the walk returned to an earlier one: they come again, in this order."""
    skipped_activities: list[str] = []
    completed_steps: list[int] = []
    """The completed steps of the current activity in this visit."""
    loop_steps: dict[str, list[int]] = {}
    """By loop: the completed steps of the current iteration."""
    completed_loops: list[str] = []
    """The loops that have ended in this visit."""
    answers: dict[str, str] = {}
    """Checkpoint -> option: the answers of this visit, in order."""
    active_loops: list[LoopState] = []
    """Outermost first."""
    children: dict[str, int] = {}
    """How many workflows were run at a place in this visit, or in the current iteration."""
    variables: dict[str, Any] = {}
    """Default values are not stored (``Walk.stored``)."""
    again: bool = False
    """Whether the current activity had been completed before this visit, or was to come again."""
    reported: list[str] = []
    """The variables (the first part of their names) that were set in this visit."""
    status: Status = "running"
    closed: bool = False
    """Whether a transition has ended the workflow. Then no action is possible."""
    waits_at: str | UnsetType = UNSET
    """The place, as in ``children``, whose workflow is running. This state is then the ``parent`` of another one."""
    parent: State | UnsetType = UNSET
    """The suspended walk that resumes when this one is completed."""

    def changed(self, now: str) -> None:
        """Records that an action has changed the state."""
        self.state_version += 1
        self.updated_at = now

    def suspended(self) -> list[State]:
        """The walks that wait for this one, nearest first."""
        found: list[State] = []
        state = self
        while state.parent is not UNSET:
            state = state.parent
            found.append(state)
        return found
