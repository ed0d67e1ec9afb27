"""What is done in an activity, and what is left. Nothing here changes the state.

A step or checkpoint whose condition does not hold is optional: it may be done all the same.
The first unanswered checkpoint that is required and blocking, and whose condition holds, blocks everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from coordinator.definitions import Activity, Checkpoint, Condition, Loop, Step, holds
from coordinator.toolsets.navigator.rules.state import LoopState, State, answer_key, loop_key

Named = TypeVar("Named", Checkpoint, Loop)


class Place(NamedTuple):
    """A step within its activity or loop."""

    step: Step
    number: int
    """From 1."""


class Round(NamedTuple):
    """The innermost loop that is under way in the present activity."""

    loop: Loop
    at: LoopState

    @property
    def steps(self) -> Sequence[Step]:
        """The steps of each iteration."""
        return () if self.loop.steps is UNSET else self.loop.steps

    @property
    def last(self) -> bool:
        """Whether no iteration can follow."""
        return self.at.current_iteration + 1 >= self.at.total_items


def asked_for(condition: Condition | UnsetType, state: State) -> bool:
    """Whether a step or checkpoint with this condition is to be done now."""
    return condition is UNSET or holds(condition, state.variables)


def blocks(checkpoint: Checkpoint, state: State) -> bool:
    """Whether the checkpoint blocks everything else while it is unanswered."""
    return checkpoint.required and checkpoint.blocking and asked_for(checkpoint.condition, state)


def answered(activity: Activity, checkpoint: Checkpoint, state: State) -> bool:
    """Whether the checkpoint was answered in this visit."""
    return answer_key(activity.id, checkpoint.id) in state.checkpoint_responses


def first_of_each(things: Sequence[Named]) -> list[Named]:
    """Without those whose id an earlier one has. (Repeated ids are a mistake of the author; the first one counts.)"""
    by_id: dict[str, Named] = {}
    for one in things:
        by_id.setdefault(one.id, one)
    return list(by_id.values())


def blocking_checkpoint(activity: Activity, state: State) -> Checkpoint | None:
    """The checkpoint that must be answered before anything else; None if there is none."""
    for checkpoint in first_of_each(activity.checkpoints):
        if blocks(checkpoint, state) and not answered(activity, checkpoint, state):
            return checkpoint
    return None


def optional_checkpoints(activity: Activity, state: State) -> list[Checkpoint]:
    """The unanswered checkpoints that block nothing."""
    distinct = first_of_each(activity.checkpoints)
    return [one for one in distinct if not blocks(one, state) and not answered(activity, one, state)]


def current_round(activity: Activity, state: State) -> Round | None:
    """The innermost loop under way in the activity; None if there is none."""
    for active in reversed(state.active_loops):
        loop = activity.loop(active.loop_id) if active.activity_id == activity.id else None
        if loop is not None:
            return Round(loop, active)
    return None


def done(activity: Activity, state: State, loop: Loop | None = None) -> set[int]:
    """The numbers of the completed steps: of the activity in this visit, or of a loop in this iteration."""
    key = activity.id if loop is None else loop_key(activity.id, loop.id)
    return set(state.completed_steps.get(key, ()))


def open_steps(steps: Sequence[Step], finished: set[int], state: State) -> tuple[list[Place], list[Place]]:
    """The steps that are left: first those that must be done, then those that may be done."""
    wanted: list[Place] = []
    optional: list[Place] = []
    for number, step in enumerate(steps, 1):
        if number not in finished:
            needed = step.required and asked_for(step.condition, state)
            (wanted if needed else optional).append(Place(step, number))
    return wanted, optional


def current_place(activity: Activity, state: State) -> Place | None:
    """The step to complete next, of the current loop or, without a loop, of the activity; None if none is left."""
    inner = current_round(activity, state)
    if inner is None:
        wanted, _ = open_steps(activity.steps, done(activity, state), state)
    else:
        wanted, _ = open_steps(inner.steps, done(activity, state, inner.loop), state)
    return wanted[0] if wanted else None


def left(activity: Activity, state: State) -> list[str]:
    """What must be done before the activity is complete, in words; empty if nothing."""
    found: list[str] = []
    if (checkpoint := blocking_checkpoint(activity, state)) is not None:
        found.append(f"checkpoint '{checkpoint.id}'")
    if (inner := current_round(activity, state)) is not None:
        found.append(f"loop '{inner.loop.id}'")
    wanted, _ = open_steps(activity.steps, done(activity, state), state)
    if wanted:
        found.append(("step " if len(wanted) == 1 else "steps ") + ", ".join(f"'{one.step.id}'" for one in wanted))
    return found
