"""Runs workflows from other workflows (README.md, 'Triggers and children').

When a walk reaches a trigger, the only possible action is to start its workflow. The walk is then suspended: it waits
within the state of the child, and resumes in the answer that completes the child. Nothing else gets past the trigger,
because only the server can issue states. Children may run workflows of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from coordinator.definitions import Activity, LoadedWorkflow, Trigger, Variable, lookup, preserved_name
from coordinator.toolsets.navigator.rules import actions, progress, triggers, variables
from coordinator.toolsets.navigator.rules.actions import Refused, Walk
from coordinator.toolsets.navigator.rules.state import State

DEEPEST = 8
"""The deepest nesting of walks."""


class Reached(NamedTuple):
    """A trigger whose workflow has not been run yet."""

    trigger: Trigger
    place: str
    """As a key of ``State.children``."""


def required(activity: Activity, state: State) -> Reached | None:
    """The trigger that the walk has reached, so that its workflow must be run next; None if there is none."""
    if progress.blocking_checkpoint(activity, state) is not None:
        return None
    inner = progress.current_round(activity, state)
    loop = None if inner is None else inner.loop
    up = progress.next_up(activity, state)
    if isinstance(up, progress.Place):
        return next(_unrun(triggers.at_step(activity, up.step), triggers.key(loop, up.number), state), None)
    return None if up is not None else next(_unrun(triggers.at_end(activity, loop), triggers.key(loop), state), None)


def optional(activity: Activity, state: State) -> list[Reached]:
    """The next trigger of each optional step."""
    inner, places, finished = progress.here(activity, state)
    loop = None if inner is None else inner.loop
    reached: list[Reached] = []
    for place in progress.open_steps(places, finished, state)[1]:
        here = triggers.key(loop, place.number)
        reached += list(_unrun(triggers.at_step(activity, place.step), here, state))[:1]
    return reached


def refuse_waiting(walk: Walk) -> None:
    """Rejects an action while a triggered workflow must be run.

    Raises:
        Refused: ``WORKFLOW_NOT_RUN``.
    """
    reached = required(walk.activity, walk.state)
    if reached is not None:
        raise Refused("WORKFLOW_NOT_RUN", waiting(reached.trigger.workflow, walk))


def waiting(workflow: str, walk: Walk) -> str:
    """Why a workflow must be run first, and how."""
    cannot = trouble(workflow, walk)
    how = f"which is not possible: {cannot}" if cannot else f"so {actions.how_to_run(workflow)}"
    return f"Workflow '{workflow}' must be run first, {how}"


def trouble(workflow: str, walk: Walk) -> str:
    """Why a triggered workflow cannot be started; empty if it can."""
    other = walk.others.get(workflow)
    if other is None:
        return "there is no such workflow"
    if other.activity(other.initial_activity or "") is None:
        return "it has no initial activity"
    if len(walk.state.suspended()) >= DEEPEST:
        return f"{DEEPEST} workflows are nested already"
    return ""


def start(walk: Walk, workflow: str, own: Mapping[str, Any]) -> Walk:
    """Suspends the walk and begins a workflow that it triggers.

    Args:
        own: variables from the caller; they override those that the trigger passes on.

    Returns:
        The walk of the workflow.

    Raises:
        Refused: nothing triggers this workflow here, or another action comes first.
    """
    actions.refuse_closed(walk)
    actions.refuse_blocked(walk)
    activity, state = walk.activity, walk.state
    first = required(activity, state)
    reached = [first] if first is not None else optional(activity, state)
    here = next((one for one in reached if one.trigger.workflow == workflow), None)
    if here is None:
        names = ", ".join(f"'{one.trigger.workflow}'" for one in reached)
        known = f"here it runs {names}" if names else "here it runs no workflow now"
        raise Refused("WORKFLOW_NOT_TRIGGERED", f"Workflow '{walk.workflow.id}' does not run '{workflow}' at this "
                      f"point: {known}. Without state, nav_start begins a workflow of its own")  # fmt: skip
    if cannot := trouble(workflow, walk):
        raise Refused("WORKFLOW_NOT_STARTED", f"Workflow '{workflow}' cannot be run: {cannot}")
    other = walk.others[workflow]
    values = variables.first_values(other.workflow.variables or ())
    passed = _passed(here.trigger, activity, state)
    for name, value in {**_fitting(passed, other), **own}.items():
        variables.assign(values, name, value)
    if state.status == "completed":
        state.completed_activities.remove(activity.id)
    state.status, state.waits_at = "suspended", here.place
    kept = walk.stored()
    child = actions.begun(other, other.activities[other.initial_activity or ""].activity, values, walk.now, walk.others)
    child.state.parent = kept
    return child


def come_back(walk: Walk, state: State) -> tuple[Walk, dict[str, Any]]:
    """Resumes the walk that waits for this completed one.

    Args:
        state: the state of the walk that waits.

    Returns:
        The resumed walk, and the values that the completed one returned.

    Raises:
        Refused: ``WORKFLOW_NOT_FOUND``, the definition of the waiting walk was removed.
    """
    outer = walk.others.get(state.workflow_id)
    if outer is None:
        raise Refused("WORKFLOW_NOT_FOUND", f"Workflow '{state.workflow_id}', which resumes next, no longer exists. "
                      "Repeat this once its definition is back")  # fmt: skip
    parent = actions.walk(outer, state, walk.now, walk.others)
    waited = outer.activity(state.current_activity)
    kept = _names(() if waited is None else waited.context_to_preserve or ())
    declared = _names(walk.workflow.workflow.outputs or _preserved_at_the_end(walk))
    returned = {name: value for name in dict.fromkeys((*kept, *declared))
                if (value := lookup(walk.state.variables, name)) is not UNSET}  # fmt: skip
    taken = {name: value for name, value in returned.items() if name in (kept or declared)}
    actions.set_variables(parent, _fitting(taken, outer))
    if state.waits_at is not UNSET:
        state.children[state.waits_at] = state.children.get(state.waits_at, 0) + 1
    state.status, state.waits_at = "running", UNSET
    state.changed(walk.now)
    actions.settle(parent)
    return parent, returned


def _unrun(offered: Sequence[Trigger], place: str, state: State) -> Iterator[Reached]:
    return (Reached(trigger, place) for trigger in triggers.unrun(offered, place, state))


def _passed(trigger: Trigger, activity: Activity, state: State) -> dict[str, Any]:
    """The variables passed to a workflow: those that the trigger names, and the current item of the loop."""
    names = list(_names(trigger.pass_context or ()))
    inner = progress.current_round(activity, state)
    if inner is not None and inner.loop.type == "forEach" and inner.loop.variable is not UNSET:
        names.append(inner.loop.variable)
    values = {name: lookup(state.variables, name) for name in names}
    return {name: value for name, value in values.items() if value is not UNSET}


def _preserved_at_the_end(walk: Walk) -> Sequence[str]:
    activity = walk.activities.get(walk.state.current_activity)
    return () if activity is None else activity.context_to_preserve or ()


def _names(said: Sequence[str]) -> Sequence[str]:
    return [preserved_name(one) for one in said]


def _fitting(values: Mapping[str, Any], workflow: LoadedWorkflow) -> dict[str, Any]:
    """Drops the values whose type differs from the declared one."""
    declared: Sequence[Variable] = workflow.workflow.variables or ()
    return {name: value for name, value in values.items() if variables.fits(name, value, declared)}
