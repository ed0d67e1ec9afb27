"""The state of a walk through a workflow, as its token holds it.

Field names are those of the token's JSON. Step numbers count from 1 within their activity; those
of a loop's present iteration are kept under ``activity/loop``.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

MAX_HISTORY = 500
"""Entries that a state remembers; of a longer history the oldest are forgotten."""

Status = Literal["running", "paused", "suspended", "completed", "aborted", "error"]


class _Record(msgspec.Struct, rename="camel", omit_defaults=True):
    """What all parts of a state are."""


class Effects(_Record):
    """What the chosen option brought about."""

    variables_set: dict[str, Any] | UnsetType = UNSET
    transitioned_to: str | UnsetType = UNSET
    """Where the option says to go next."""
    activities_skipped: list[str] | UnsetType = UNSET


class Response(_Record):
    """An answered checkpoint."""

    option_id: str
    responded_at: str
    effects: Effects | UnsetType = UNSET


class Outcome(_Record):
    """A decision that was made by taking one of its branches."""

    branch_id: str
    decided_at: str
    transitioned_to: str


class LoopState(_Record):
    """A loop that is under way."""

    activity_id: str
    loop_id: str
    current_iteration: int
    """From 0."""
    total_items: int
    started_at: str
    current_item: Any = UNSET
    items: list[Any] | UnsetType = UNSET
    """All items, where they are few enough to be carried along."""


class Entry(_Record):
    """Something that happened."""

    timestamp: str
    type: str
    activity: str | UnsetType = UNSET
    step: int | UnsetType = UNSET
    checkpoint: str | UnsetType = UNSET
    decision: str | UnsetType = UNSET
    loop: str | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET
    error: str | UnsetType = UNSET


class State(_Record):
    """Where a walk stands and how it came there."""

    workflow_id: str
    workflow_version: str
    started_at: str
    updated_at: str
    current_activity: str
    state_version: int = 1
    completed_at: str | UnsetType = UNSET
    current_step: int | UnsetType = UNSET
    """The step to be completed next; UNSET: none is left, or an iteration is complete."""
    completed_activities: list[str] = []
    """The present one is among them only if it ended the workflow."""
    skipped_activities: list[str] = []
    completed_steps: dict[str, list[int]] = {}
    checkpoint_responses: dict[str, Response] = {}
    """By ``activity-checkpoint``; those of the present activity are of this visit."""
    decision_outcomes: dict[str, Outcome] = {}
    active_loops: list[LoopState] = []
    """Outermost first."""
    variables: dict[str, Any] = {}
    history: list[Entry] = []
    status: Status = "running"
    closed: bool = False
    """Whether a transition has ended the workflow, so that nothing can be done any more."""

    def record(self, now: str, kind: str, **more: Any) -> None:
        """Adds an entry to the history; each makes a new version of the state."""
        if self.history:
            self.state_version += 1
        self.updated_at = now
        self.history.append(Entry(timestamp=now, type=kind, **more))
        if len(self.history) > MAX_HISTORY:
            del self.history[: len(self.history) - MAX_HISTORY]


def answer_key(activity: str, checkpoint: str) -> str:
    """Under which an answer is kept."""
    return f"{activity}-{checkpoint}"


def loop_key(activity: str, loop: str) -> str:
    """Under which the completed steps of a loop's iteration are kept; no activity can have such an id."""
    return f"{activity}/{loop}"
