"""The state of a walk through a workflow, as its token contains it.

It holds what the rest of the walk depends on, and nothing else: what was done in earlier visits of activities does not
count any more, so it is not kept. Field names are those of the token's JSON. Steps are numbered from 1 within their
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
    """A loop that is under way."""

    loop_id: str
    current_iteration: int
    """From 0."""
    total_items: int
    items: list[Any] | UnsetType = UNSET
    """All items, if the caller passed them and they are few enough to be kept in the state."""
    current_item: Any = UNSET
    """The present item, if it was not taken from ``items``."""

    @property
    def item(self) -> Any:
        """The present item; UNSET if it is not known."""
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
    """Includes the present activity only if it ended the workflow."""
    skipped_activities: list[str] = []
    completed_steps: list[int] = []
    """The completed steps of the present activity in this visit."""
    loop_steps: dict[str, list[int]] = {}
    """By loop: the completed steps of the present iteration."""
    completed_loops: list[str] = []
    """The loops that have ended in this visit."""
    answers: dict[str, str] = {}
    """Checkpoint -> option: the answers of this visit, in their order."""
    active_loops: list[LoopState] = []
    """Outermost first."""
    children: dict[str, int] = {}
    """How many workflows have been run at a place of this visit, or of the present iteration."""
    variables: dict[str, Any] = {}
    """Those with their default values are not kept (``Walk.stored``)."""
    again: bool = False
    """Whether the present activity had been completed before this visit."""
    reported: list[str] = []
    """The variables (the first part of their names) that were set in this visit."""
    status: Status = "running"
    closed: bool = False
    """Whether a transition has ended the workflow. Nothing can be done any more then."""
    waits_at: str | UnsetType = UNSET
    """The place, as in ``children``, whose workflow is being run. This state is then the ``parent`` of another one."""
    parent: State | UnsetType = UNSET
    """The suspended walk that goes on when this one is completed."""

    def changed(self, now: str) -> None:
        """Notes that an action has changed the state."""
        self.state_version += 1
        self.updated_at = now

    def suspended(self) -> list[State]:
        """The walks that wait for this one, the nearest first."""
        found: list[State] = []
        state = self
        while state.parent is not UNSET:
            state = state.parent
            found.append(state)
        return found
