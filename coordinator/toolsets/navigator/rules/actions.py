"""Carries out the actions on a state (README.md, 'Actions').

Each function takes a walk, changes its state, and returns the message of success. If it raises
``Refused``, the state may be partly changed. The caller then discards it and keeps the token that it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from coordinator.definitions import Activity, Checkpoint, Effect, LoadedWorkflow
from coordinator.errors import that_exist
from coordinator.toolsets.navigator.rules import progress, routes, triggers, variables, wanted
from coordinator.toolsets.navigator.rules.routes import Routes
from coordinator.toolsets.navigator.rules.state import State

SHOWN = 200
"""The most characters of an unknown id that a message quotes."""


class Refused(Exception):
    """A rejected action. The agent keeps its state.

    Args:
        code: for programs, in capitals.
        message: for the agent.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def unknown(kind: str, name: str, place: str, known: Iterable[str], code: str = "") -> Refused:
    """The rejection of an unknown id: ``Step 'x' not found in activity 'a'; did you mean 'y'?``.

    Args:
        kind: what it should have been, such as ``Step``.
        place: where it was searched.
        known: the existing ids.
        code: default is of the kind.
    """
    return Refused(
        code or f"{kind.upper()}_NOT_FOUND", f"{kind} '{name[:SHOWN]}' not found in {place}{that_exist(name, known)}"
    )


class Walk(NamedTuple):
    """An agent's way through a workflow: the workflow, and the state that the agent has reached."""

    workflow: LoadedWorkflow
    activities: Mapping[str, Activity]
    state: State
    now: str
    """The time of the action: ISO 8601, UTC."""
    others: Mapping[str, LoadedWorkflow]
    """All workflows. An activity may trigger one of them."""

    @property
    def activity(self) -> Activity:
        """The present activity.

        Raises:
            Refused: ``ACTIVITY_NOT_FOUND``, the workflow no longer has it.
        """
        found = self.activities.get(self.state.current_activity)
        if found is None:
            raise Refused(
                "ACTIVITY_NOT_FOUND",
                f"Activity '{self.state.current_activity}' is no longer part of workflow '{self.workflow.id}'",
            )
        return found

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The variables with which the workflow begins, unless others are given."""
        return _parts(self.workflow)[1]

    def ways(self, activity: Activity) -> Routes:
        return routes.routes(activity, self.state, self.activities, self.defaults)

    def stored(self) -> State:
        """The state for the token, without values that the definition has. ``walk`` is the inverse."""
        return msgspec.structs.replace(self.state, variables=variables.changed(self.state.variables, self.defaults))


def walk(workflow: LoadedWorkflow, state: State, now: str, others: Mapping[str, LoadedWorkflow]) -> Walk:
    activities, defaults = _parts(workflow)
    state.variables = {**defaults, **state.variables}
    return Walk(workflow, activities, state, now, others)


@lru_cache(maxsize=128)
def _parts(workflow: LoadedWorkflow) -> tuple[Mapping[str, Activity], Mapping[str, Any]]:
    """The activities and the initial variables of a workflow. They must not be changed."""
    activities = {name: one.activity for name, one in workflow.activities.items()}
    return activities, variables.first_values(workflow.workflow.variables or ())


def begun(
    workflow: LoadedWorkflow, first: Activity, values: dict[str, Any], now: str, others: Mapping[str, LoadedWorkflow]
) -> Walk:
    state = State(
        workflow_id=workflow.id,
        workflow_version=workflow.version,
        started_at=now,
        updated_at=now,
        current_activity=first.id,
        variables=values,
    )
    made = walk(workflow, state, now, others)
    settle(made)
    return made


def set_variables(walk: Walk, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        variables.assign(walk.state.variables, name, value)
        if (root := name.split(".")[0]) not in walk.state.reported:
            walk.state.reported.append(root)


def complete_step(walk: Walk, step_id: str) -> str:
    """Completes a step of the current loop or, if there is no loop, of the activity. Steps may be done in any order."""
    activity, state = walk.activity, walk.state
    inner = progress.current_round(activity, state)
    loop, places = None, progress.own_places(activity)
    if inner is not None and any(place.step.id == step_id for place in inner.places):
        loop, places = inner.loop, list(inner.places)
    named = [place for place in places if place.step.id == step_id]
    if not named:
        raise _no_step(walk, activity, inner, step_id)
    finished = state.completed_steps if loop is None else state.loop_steps.setdefault(loop.id, [])
    # If several steps have the same id, each call completes one of them.
    place = next((one for one in named if one.number not in finished), None)
    if place is None:
        raise Refused("STEP_ALREADY_COMPLETE", f"Step '{step_id}' is already complete")
    where = triggers.key(loop, place.number)
    for trigger in triggers.unrun(triggers.at_step(activity, place.step), where, state):
        raise Refused("WORKFLOW_NOT_RUN", f"Step '{step_id}' runs workflow '{trigger.workflow}', which must be "
                      f"completed first: {how_to_run(trigger.workflow)}")  # fmt: skip
    finished.append(place.number)
    return f"Completed step '{step_id}'"


def how_to_run(workflow: str) -> str:
    """How to start a triggered workflow, for a sentence."""
    return f"call nav_start with workflow_id '{workflow}' and this state"


def respond(walk: Walk, checkpoint_id: str, option_id: str) -> str:
    """Answers a checkpoint, once per visit, and applies the option's effect."""
    activity, state = walk.activity, walk.state
    checkpoint = activity.checkpoint(checkpoint_id)
    if checkpoint is None:
        known = (one.id for one in activity.checkpoints)
        raise unknown("Checkpoint", checkpoint_id, f"activity '{activity.id}'", known)
    option = checkpoint.option(option_id)
    if option is None:
        known = (one.id for one in checkpoint.options)
        raise unknown("Option", option_id, f"checkpoint '{checkpoint_id}'", known)
    if checkpoint_id in state.answers:
        raise Refused("CHECKPOINT_ALREADY_RESPONDED", f"Checkpoint '{checkpoint_id}' was already responded to")
    state.answers[checkpoint_id] = option_id
    _bring_about(walk, option.effects)
    return f"Responded to checkpoint '{checkpoint_id}' with '{option_id}'"


def transition(walk: Walk, target: str) -> str:
    """Leaves the activity, which must be complete, for another one that is open now."""
    activity, state = walk.activity, walk.state
    if missing := progress.left(activity, state):
        raise Refused("ACTIVITY_NOT_COMPLETE", f"Activity '{activity.id}' is not complete: {', '.join(missing)} left")
    ends = routes.ends(target, walk.activities)
    if target not in walk.activities and not ends:
        code = "TARGET_ACTIVITY_NOT_FOUND"
        raise unknown("Target activity", target, f"'{walk.workflow.id}'", walk.activities, code)
    ways = walk.ways(activity)
    if ways.to(target) is None and not (ends and ways.over):
        shut = ways.closed.get(target)
        reason = f" ({shut.reason})" if shut else ""
        if shut and shut.wants:
            reason += f". Report {wanted.names(shut.wants)} in the argument variables, if that has changed"
        valid = ", ".join(way.target for way in ways.open) or "none"
        raise Refused(
            "INVALID_TRANSITION", f"No valid transition from '{activity.id}' to '{target}'{reason}. Valid: {valid}"
        )
    _finish(state, activity.id)
    if ends:
        state.closed = True
        _complete(walk)
        return ""
    _enter(walk, walk.activities[target])
    return f"Transitioned to activity '{target}'"


def settle(walk: Walk) -> None:
    """Updates the derived parts of the state: the current step, and whether the workflow is completed."""
    state = walk.state
    activity = walk.activities.get(state.current_activity)
    if activity is None or state.closed:
        return
    place = progress.current_place(activity, state)
    state.current_step = UNSET if place is None else place.number
    finished = not progress.left(activity, state) and walk.ways(activity).over
    if finished and state.status != "completed":
        _finish(state, activity.id)
        _complete(walk)
    elif not finished and state.status == "completed":
        # An optional action has opened a way out, so the workflow is not completed after all.
        state.status = "running"
        state.completed_activities.remove(activity.id)


def refuse_closed(walk: Walk) -> None:
    """Rejects any action on a workflow that a transition has ended.

    Raises:
        Refused: ``WORKFLOW_COMPLETED``.
    """
    if walk.state.closed:
        raise Refused("WORKFLOW_COMPLETED", f"Workflow '{walk.workflow.id}' is completed")


def refuse_blocked(walk: Walk) -> None:
    """Rejects an action while a checkpoint blocks.

    Raises:
        Refused: ``CHECKPOINT_BLOCKING``.
    """
    checkpoint = progress.blocking_checkpoint(walk.activity, walk.state)
    if checkpoint is not None:
        raise blocking(checkpoint)


def blocking(checkpoint: Checkpoint) -> Refused:
    """The rejection of an action before a checkpoint is answered."""
    return Refused("CHECKPOINT_BLOCKING", f"Checkpoint '{checkpoint.id}' must be responded to first")


def _bring_about(walk: Walk, effect: Effect) -> None:
    """Applies an option's effect. Its target is resolved when the activity is left (``routes``)."""
    state = walk.state
    if effect.set_variable is not UNSET:
        set_variables(walk, effect.set_variable)
    for name in effect.skip_activities or ():
        if name in walk.activities and name != state.current_activity and name not in state.skipped_activities:
            state.skipped_activities.append(name)


def _enter(walk: Walk, activity: Activity) -> None:
    """Begins a visit of an activity. Steps, answers and loops of earlier visits no longer count."""
    state = walk.state
    state.current_activity = activity.id
    state.status = "running"
    done, ahead = state.completed_activities, state.ahead
    state.again, state.reported = activity.id in (*done, *ahead), []
    if activity.id in done:
        place = done.index(activity.id)
        state.completed_activities, state.ahead = done[:place], done[place + 1 :] + ahead
    elif activity.id in ahead:
        place = ahead.index(activity.id)
        state.completed_activities, state.ahead = done + ahead[:place], ahead[place + 1 :]
    state.completed_steps, state.loop_steps, state.children, state.answers = [], {}, {}, {}
    state.completed_loops, state.active_loops = [], []
    if activity.id in state.skipped_activities:
        state.skipped_activities.remove(activity.id)


def _finish(state: State, activity: str) -> None:
    if activity not in state.completed_activities:
        state.completed_activities.append(activity)


def _complete(walk: Walk) -> None:
    walk.state.status = "completed"
    walk.state.current_step = UNSET


def _no_step(walk: Walk, activity: Activity, inner: progress.Round | None, step_id: str) -> Refused:
    if any(step.id == step_id for step in activity.all_steps()):
        place = "a loop that is not active" if inner is None else f"another loop than '{inner.loop.id}'"
        return Refused("STEP_NOT_FOUND", f"Step '{step_id}' belongs to {place}")
    for state in walk.state.suspended():
        waiting = walk.others.get(state.workflow_id)
        found = None if waiting is None else waiting.activity(state.current_activity)
        if found is not None and any(step.id == step_id for step in found.all_steps()):
            return Refused(
                "STEP_NOT_FOUND",
                f"Step '{step_id}' belongs to workflow '{state.workflow_id}', which is suspended until workflow "
                f"'{walk.workflow.id}' is completed",
            )
    return unknown("Step", step_id, f"activity '{activity.id}'", (step.id for step in activity.all_steps()))
