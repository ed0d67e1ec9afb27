"""The workflows that an activity runs (README.md, 'Triggers and children'): their places, and which are next.

A trigger is on a step: its workflow is run before the step can be completed. Or it is on an activity. If the activity
has loops over items, the workflow is run in each iteration of one of them, else once: in the place of the step named
for it (its id begins with ``trigger``), else after everything else in the iteration or the activity.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.definitions import Activity, Loop, Step, Trigger
from coordinator.toolsets.navigator.rules.state import State

END = "/"
"""The place after all steps and loops of the activity, as a key of ``State.children``."""
_CALLED = "trigger"


def body(activity: Activity, loop: Loop) -> tuple[Step, ...]:
    """The steps of each iteration: the loop's own, then those of the activity that it names."""
    names = loop.activities or ()
    return (*(loop.steps or ()), *(step for step in activity.steps if step.id in names))


def looped(activity: Activity) -> set[str]:
    """The ids of the steps that loops name."""
    return {name for loop in activity.loops for name in loop.activities or ()}


def seat(activity: Activity) -> tuple[Loop | None, Step | None]:
    """The place of the activity's own triggers: the loop, None for no loop; the step, None for its end."""
    loops = [loop for loop in activity.loops if loop.type == "forEach"]
    for loop in loops:
        if (step := _called(body(activity, loop))) is not None:
            return loop, step
    if loops:
        return loops[0], None
    inside = looped(activity)
    return None, _called([step for step in activity.steps if step.id not in inside])


def _called(steps: Sequence[Step]) -> Step | None:
    return next((step for step in steps if step.id.startswith(_CALLED)), None)


def at_step(activity: Activity, step: Step) -> tuple[Trigger, ...]:
    own = activity.own_triggers()
    if own and step is not seat(activity)[1]:
        own = ()
    return (*own, *(step.triggers or ()))


def at_end(activity: Activity, loop: Loop | None = None) -> tuple[Trigger, ...]:
    """The triggers at the end of the activity, or of each iteration of a loop."""
    own = activity.own_triggers()
    if not own:
        return ()
    within, step = seat(activity)
    return own if step is None and within is loop else ()


def key(loop: Loop | None, number: int | None = None) -> str:
    """The place of a step, or of the end, as a key of ``State.children``."""
    return f"{'' if loop is None else loop.id}/{'' if number is None else number}"


def unrun(found: Sequence[Trigger], place: str, state: State) -> Sequence[Trigger]:
    """The triggers at a place that were not run yet."""
    return found[state.children.get(place, 0) :]
