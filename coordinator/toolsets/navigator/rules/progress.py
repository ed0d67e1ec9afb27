"""Progress within an activity: what is done and what is left. Nothing here changes the state.

An activity is its steps in their order, then its loops. Steps of the activity that a loop names (``activities``) are
steps of this loop, which takes the place of the first of them. A step or checkpoint whose condition does not hold is
optional: it can still be done. So is a loop without required steps, or with nothing to do. The first unanswered
checkpoint that is required and blocking, and whose condition holds, blocks everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec import UNSET, UnsetType

from coordinator.definitions import Activity, Checkpoint, Condition, Loop, Step, holds, lookup
from coordinator.toolsets.navigator.rules import triggers
from coordinator.toolsets.navigator.rules.state import LoopState, State

Named = TypeVar("Named", Checkpoint, Loop)


class Place(NamedTuple):
    """A step within its activity or loop."""

    step: Step
    number: int
    """From 1."""


class Round(NamedTuple):
    """The innermost active loop of the current activity."""

    loop: Loop
    at: LoopState
    places: Sequence[Place]
    """The steps of each iteration."""

    @property
    def last(self) -> bool:
        return self.at.current_iteration + 1 >= self.at.total_items


def asked_for(condition: Condition | UnsetType, state: State) -> bool:
    """Whether a step or checkpoint with this condition is due now."""
    return condition is UNSET or holds(condition, state.variables)


def blocks(checkpoint: Checkpoint, state: State) -> bool:
    """Whether the checkpoint blocks everything else while it is unanswered."""
    return checkpoint.required and checkpoint.blocking and asked_for(checkpoint.condition, state)


def first_of_each(things: Sequence[Named]) -> list[Named]:
    """Drops repeated ids. (They are a mistake of the author; the first one counts.)"""
    by_id: dict[str, Named] = {}
    for thing in things:
        by_id.setdefault(thing.id, thing)
    return list(by_id.values())


def questions(activity: Activity, state: State) -> list[Checkpoint]:
    """The unanswered checkpoints that block everything else."""
    distinct = first_of_each(activity.checkpoints)
    return [checkpoint for checkpoint in distinct if checkpoint.id not in state.answers and blocks(checkpoint, state)]


def blocking_checkpoint(activity: Activity, state: State) -> Checkpoint | None:
    """The checkpoint that must be answered before anything else; None if there is none."""
    return next(iter(questions(activity, state)), None)


def optional_checkpoints(activity: Activity, state: State) -> list[Checkpoint]:
    """The unanswered, non-blocking checkpoints."""
    distinct = first_of_each(activity.checkpoints)
    return [
        checkpoint for checkpoint in distinct if checkpoint.id not in state.answers and not blocks(checkpoint, state)
    ]


def current_round(activity: Activity, state: State) -> Round | None:
    """The innermost active loop of the activity; None if there is none."""
    for active in reversed(state.active_loops):
        loop = activity.loop(active.loop_id)
        if loop is not None:
            return Round(loop, active, numbered(triggers.body(activity, loop)))
    return None


def numbered(steps: Sequence[Step]) -> list[Place]:
    return [Place(step, number) for number, step in enumerate(steps, 1)]


def own_places(activity: Activity) -> list[Place]:
    """The steps done once per visit. Those that a loop names are not included, but numbered."""
    inside = triggers.looped(activity)
    return [place for place in numbered(activity.steps) if place.step.id not in inside]


def here(activity: Activity, state: State) -> tuple[Round | None, Sequence[Place], Sequence[int]]:
    """The current place: the loop, None for the activity itself; its steps; the completed ones."""
    inner = current_round(activity, state)
    if inner is None:
        return None, own_places(activity), state.completed_steps
    return inner, inner.places, state.loop_steps.get(inner.loop.id, ())


def open_steps(places: Sequence[Place], finished: Sequence[int], state: State) -> tuple[list[Place], list[Place]]:
    """The remaining steps: first the required ones, then the optional ones."""
    wanted: list[Place] = []
    optional: list[Place] = []
    for place in places:
        if place.number not in finished:
            needed = place.step.required and asked_for(place.step.condition, state)
            (wanted if needed else optional).append(place)
    return wanted, optional


def startable(loop: Loop, state: State) -> bool:
    """Whether the loop can begin now, given the items that it needs."""
    return loop.type != "while" or asked_for(loop.condition, state)


def open_loops(activity: Activity, state: State) -> tuple[list[Loop], list[Loop]]:
    """The remaining loops that can begin now: first the required ones, then the optional ones."""
    wanted: list[Loop] = []
    optional: list[Loop] = []
    for loop in first_of_each(activity.loops):
        if startable(loop, state):
            needed = loop.id not in state.completed_loops and _needed(activity, loop, state)
            (wanted if needed else optional).append(loop)
    return wanted, optional


def next_up(activity: Activity, state: State) -> Place | Loop | None:
    """The next required part: a step of the current loop, else a step or loop of the activity; None if nothing."""
    inner, places, finished = here(activity, state)
    if inner is not None:
        wanted, _ = open_steps(places, finished, state)
        return wanted[0] if wanted else None
    return next(iter(_ordered(activity, state)), None)


def current_place(activity: Activity, state: State) -> Place | None:
    """The step to complete next; None if no step comes next."""
    found = next_up(activity, state)
    return found if isinstance(found, Place) else None


def left(activity: Activity, state: State) -> list[str]:
    """Names of what is missing before the activity is complete; empty if nothing."""
    found: list[str] = []
    if (checkpoint := blocking_checkpoint(activity, state)) is not None:
        found.append(f"checkpoint '{checkpoint.id}'")
    if (inner := current_round(activity, state)) is not None:
        found.append(f"loop '{inner.loop.id}'")
    things = list(_ordered(activity, state))
    steps = [f"'{thing.step.id}'" for thing in things if isinstance(thing, Place)]
    if steps:
        found.append(("step " if len(steps) == 1 else "steps ") + ", ".join(steps))
    found += [
        f"loop '{thing.id}'" for thing in things if isinstance(thing, Loop) and not (inner and inner.loop is thing)
    ]
    for trigger in triggers.unrun(triggers.at_end(activity), triggers.END, state):
        found.append(f"workflow '{trigger.workflow}'")
    return found


def _ordered(activity: Activity, state: State) -> Iterator[Place | Loop]:
    """The remaining required steps and loops of the activity, in order."""
    wanted, _ = open_steps(own_places(activity), state.completed_steps, state)
    loops, _ = open_loops(activity, state)
    positions = {step.id: number for number, step in reversed(list(enumerate(activity.steps, 1)))}
    last = len(activity.steps) + 1
    things: list[tuple[int, Place | Loop]] = [(place.number, place) for place in wanted]
    things += [(min((positions.get(name, last) for name in loop.activities or ()), default=last), loop)
               for loop in loops]  # fmt: skip
    return iter([thing for _, thing in sorted(things, key=lambda one: one[0])])


def _needed(activity: Activity, loop: Loop, state: State) -> bool:
    if loop.type == "forEach" and loop.over is not UNSET and lookup(state.variables, loop.over) == []:
        return False
    return bool(triggers.at_end(activity, loop)) or any(step.required for step in triggers.body(activity, loop))
