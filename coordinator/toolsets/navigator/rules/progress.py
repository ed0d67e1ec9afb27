"""What is done in an activity and what is left, read from the state; nothing here changes it.

A step or checkpoint whose condition does not hold is not asked for, but may be done all the same.
The first unanswered checkpoint that is required, blocking and asked for blocks everything else.
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
    """Whether what carries the condition is to be done now."""
    return condition is UNSET or holds(condition, state.variables)


def blocks(checkpoint: Checkpoint, state: State) -> bool:
    """Whether the checkpoint, unanswered, keeps everything else from being done."""
    return checkpoint.required and checkpoint.blocking and asked_for(checkpoint.condition, state)


def answered(activity: Activity, checkpoint: Checkpoint, state: State) -> bool:
    """Whether the checkpoint was answered in this visit."""
    return answer_key(activity.id, checkpoint.id) in state.checkpoint_responses


def first_of_each(things: Sequence[Named]) -> list[Named]:
    """Those that can be meant by their ids: of several with one id, which is a mistake of their author, the first."""
    by_id: dict[str, Named] = {}
    for one in things:
        by_id.setdefault(one.id, one)
    return list(by_id.values())


def blocking_checkpoint(activity: Activity, state: State) -> Checkpoint | None:
    """The checkpoint that has to be answered before anything else."""
    for checkpoint in first_of_each(activity.checkpoints):
        if blocks(checkpoint, state) and not answered(activity, checkpoint, state):
            return checkpoint
    return None


def optional_checkpoints(activity: Activity, state: State) -> list[Checkpoint]:
    """Unanswered checkpoints that may be answered and block nothing."""
    distinct = first_of_each(activity.checkpoints)
    return [one for one in distinct if not blocks(one, state) and not answered(activity, one, state)]


def current_round(activity: Activity, state: State) -> Round | None:
    """The innermost loop under way; None: there is none in this activity."""
    for active in reversed(state.active_loops):
        loop = activity.loop(active.loop_id) if active.activity_id == activity.id else None
        if loop is not None:
            return Round(loop, active)
    return None


def done(activity: Activity, state: State, loop: Loop | None = None) -> set[int]:
    """Numbers of the completed steps: of the activity in this visit, or of a loop in this iteration."""
    key = activity.id if loop is None else loop_key(activity.id, loop.id)
    return set(state.completed_steps.get(key, ()))


def open_steps(steps: Sequence[Step], finished: set[int], state: State) -> tuple[list[Place], list[Place]]:
    """The steps that are left: those that are asked for, and those that may be done."""
    wanted: list[Place] = []
    optional: list[Place] = []
    for number, step in enumerate(steps, 1):
        if number not in finished:
            needed = step.required and asked_for(step.condition, state)
            (wanted if needed else optional).append(Place(step, number))
    return wanted, optional


def current_place(activity: Activity, state: State) -> Place | None:
    """The step to be completed next: of the loop under way, else of the activity; None: none is left there."""
    inner = current_round(activity, state)
    if inner is None:
        wanted, _ = open_steps(activity.steps, done(activity, state), state)
    else:
        wanted, _ = open_steps(inner.steps, done(activity, state, inner.loop), state)
    return wanted[0] if wanted else None


def left(activity: Activity, state: State) -> list[str]:
    """What has to be done before the activity is complete, in words; empty: nothing."""
    found: list[str] = []
    if (checkpoint := blocking_checkpoint(activity, state)) is not None:
        found.append(f"checkpoint '{checkpoint.id}'")
    if (inner := current_round(activity, state)) is not None:
        found.append(f"loop '{inner.loop.id}'")
    wanted, _ = open_steps(activity.steps, done(activity, state), state)
    if wanted:
        found.append(("step " if len(wanted) == 1 else "steps ") + ", ".join(f"'{one.step.id}'" for one in wanted))
    return found
