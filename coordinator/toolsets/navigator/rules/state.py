"""The state of a walk through a workflow, as its token contains it.

Field names are those of the token's JSON. Steps are numbered from 1 within their activity. The completed steps of a
loop's present iteration are kept under ``activity/loop``.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

MAX_HISTORY = 500
"""How many entries of the history a state keeps; older ones are forgotten."""

Status = Literal["running", "paused", "suspended", "completed", "aborted", "error"]


class _Record(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of all parts of a state."""


class Effects(_Record):
    """What the chosen option changed."""

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
    """The branch of a decision that was taken."""

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
    """All items, if they are few enough to be kept in the state."""


class Entry(_Record):
    """One entry of the history."""

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
    """The position of a walk, and its history."""

    workflow_id: str
    workflow_version: str
    started_at: str
    updated_at: str
    current_activity: str
    state_version: int = 1
    completed_at: str | UnsetType = UNSET
    current_step: int | UnsetType = UNSET
    """The step to complete next; UNSET if none is left, or if an iteration is complete."""
    completed_activities: list[str] = []
    """Includes the present activity only if it ended the workflow."""
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
    """Whether a transition has ended the workflow. Nothing can be done any more then."""

    def record(self, now: str, kind: str, **more: Any) -> None:
        """Adds an entry to the history. Each entry raises the version of the state."""
        if self.history:
            self.state_version += 1
        self.updated_at = now
        self.history.append(Entry(timestamp=now, type=kind, **more))
        if len(self.history) > MAX_HISTORY:
            del self.history[: len(self.history) - MAX_HISTORY]


def answer_key(activity: str, checkpoint: str) -> str:
    """The key of an answer in ``checkpoint_responses``, or of a decision in ``decision_outcomes``."""
    return f"{activity}-{checkpoint}"


def loop_key(activity: str, loop: str) -> str:
    """The key of a loop in ``completed_steps``. It differs from every activity's key, because no id contains '/'."""
    return f"{activity}/{loop}"
