"""Carries out the actions on a state (seed 002, Actions).

Each function takes a walk, changes its state, and returns the message of success. If it raises
``Refused``, the state may be partly changed. The caller then discards it and keeps the token that it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from coordinator.definitions import Activity, Effect, LoadedWorkflow
from coordinator.toolsets.navigator.rules import progress, routes, variables
from coordinator.toolsets.navigator.rules.state import (
    Effects,
    Outcome,
    Response,
    State,
    answer_key,
    loop_key,
)


class Refused(Exception):
    """An action cannot be done. The agent keeps its state.

    Args:
        code: for programs, in capitals.
        message: for the agent.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Walk(NamedTuple):
    """An agent's way through a workflow: the workflow, and the state that the agent has reached."""

    workflow: LoadedWorkflow
    activities: Mapping[str, Activity]
    state: State
    now: str
    """The time of the action: ISO 8601, UTC."""
    others: Mapping[str, LoadedWorkflow]
    """All workflows. An activity may name one of them to be run."""

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


def walk(workflow: LoadedWorkflow, state: State, now: str, others: Mapping[str, LoadedWorkflow]) -> Walk:
    """The walk of a state."""
    return Walk(workflow, {name: one.activity for name, one in workflow.activities.items()}, state, now, others)


def begun(
    workflow: LoadedWorkflow, first: Activity, values: dict[str, Any], now: str, others: Mapping[str, LoadedWorkflow]
) -> Walk:
    """Makes a new walk, at the beginning of the workflow."""
    state = State(
        workflow_id=workflow.id,
        workflow_version=workflow.version,
        started_at=now,
        updated_at=now,
        current_activity=first.id,
        variables=values,
    )
    made = walk(workflow, state, now, others)
    state.record(now, "workflow_started", activity=first.id)
    settle(made)
    return made


def set_variables(walk: Walk, values: Mapping[str, Any]) -> None:
    """Sets variables, as an agent or an option says."""
    for name, value in values.items():
        variables.assign(walk.state.variables, name, value)
        walk.state.record(walk.now, "variable_set", activity=walk.state.current_activity, data={name: value})


def complete_step(walk: Walk, step_id: str) -> str:
    """Completes a step of the current loop or, if there is no loop, of the activity. Steps may be done in any order."""
    activity, state = walk.activity, walk.state
    inner = progress.current_round(activity, state)
    key, steps = activity.id, activity.steps
    if inner is not None and any(step.id == step_id for step in inner.steps):
        key, steps = loop_key(activity.id, inner.loop.id), tuple(inner.steps)
    numbers = [number for number, step in enumerate(steps, 1) if step.id == step_id]
    if not numbers:
        if any(step.id == step_id for step in activity.all_steps()):
            place = "a loop that is not under way" if inner is None else f"another loop than '{inner.loop.id}'"
            raise Refused("STEP_NOT_FOUND", f"Step '{step_id}' belongs to {place}")
        raise Refused("STEP_NOT_FOUND", f"Step '{step_id}' not found in activity '{activity.id}'")
    finished = state.completed_steps.setdefault(key, [])
    # If several steps have the same id, each call completes one of them.
    number = next((one for one in numbers if one not in finished), None)
    if number is None:
        raise Refused("STEP_ALREADY_COMPLETE", f"Step '{step_id}' is already complete")
    finished.append(number)
    in_loop = inner is not None and key != activity.id
    state.record(
        walk.now,
        "step_completed",
        activity=activity.id,
        step=number,
        loop=inner.loop.id if inner is not None and in_loop else UNSET,
    )
    return f"Completed step '{step_id}'"


def respond(walk: Walk, checkpoint_id: str, option_id: str) -> str:
    """Answers a checkpoint, once per visit, and applies the option's effect."""
    activity, state = walk.activity, walk.state
    checkpoint = activity.checkpoint(checkpoint_id)
    if checkpoint is None:
        raise Refused("CHECKPOINT_NOT_FOUND", f"Checkpoint '{checkpoint_id}' not found in activity '{activity.id}'")
    option = checkpoint.option(option_id)
    if option is None:
        known = ", ".join(one.id for one in checkpoint.options)
        raise Refused("OPTION_NOT_FOUND", f"Option '{option_id}' not found in checkpoint '{checkpoint_id}'. "
                      f"Options: {known}")  # fmt: skip
    if progress.answered(activity, checkpoint, state):
        raise Refused("CHECKPOINT_ALREADY_RESPONDED", f"Checkpoint '{checkpoint_id}' was already responded to")
    response = Response(option_id=option_id, responded_at=walk.now)
    state.checkpoint_responses[answer_key(activity.id, checkpoint_id)] = response
    state.record(
        walk.now, "checkpoint_response", activity=activity.id, checkpoint=checkpoint_id, data={"optionId": option_id}
    )
    response.effects = _bring_about(walk, option.effects) or UNSET
    return f"Responded to checkpoint '{checkpoint_id}' with '{option_id}'"


def transition(walk: Walk, target: str) -> str:
    """Leaves the activity, which must be complete, for another one that is open now."""
    activity, state = walk.activity, walk.state
    if missing := progress.left(activity, state):
        raise Refused("ACTIVITY_NOT_COMPLETE", f"Activity '{activity.id}' is not complete: {', '.join(missing)} left")
    if target not in walk.activities and not routes.ends(target, walk.activities):
        raise Refused("TARGET_ACTIVITY_NOT_FOUND", f"Target activity '{target}' not found in '{walk.workflow.id}'")
    ways = routes.routes(activity, state, walk.activities)
    route = ways.to(target)
    if route is None:
        reason = f" ({ways.closed[target]})" if target in ways.closed else ""
        valid = ", ".join(way.target for way in ways.open) or "none"
        raise Refused(
            "INVALID_TRANSITION", f"No valid transition from '{activity.id}' to '{target}'{reason}. Valid: {valid}"
        )
    if route.decision is not None and route.branch is not None:
        key = answer_key(activity.id, route.decision)
        state.decision_outcomes[key] = Outcome(branch_id=route.branch, decided_at=walk.now, transitioned_to=target)
        state.record(
            walk.now,
            "decision_branch_taken",
            activity=activity.id,
            decision=route.decision,
            data={"branchId": route.branch},
        )
    _finish(state, activity.id)
    state.record(walk.now, "activity_exited", activity=activity.id)
    if routes.ends(target, walk.activities):
        state.closed = True
        _complete(walk)
        return f"Completed workflow '{walk.workflow.id}'"
    _enter(walk, walk.activities[target])
    return f"Transitioned to activity '{target}'"


def settle(walk: Walk) -> None:
    """Updates what follows from the rest of the state: the current step, and whether the workflow is completed."""
    state = walk.state
    activity = walk.activities.get(state.current_activity)
    if activity is None or state.closed:
        return
    place = progress.current_place(activity, state)
    state.current_step = UNSET if place is None else place.number
    finished = not progress.left(activity, state) and not routes.routes(activity, state, walk.activities).open
    if finished and state.status != "completed":
        _finish(state, activity.id)
        _complete(walk)
    elif not finished and state.status == "completed":
        # An optional action has opened a way on, so the workflow is not completed after all.
        state.status, state.completed_at = "running", UNSET
        state.completed_activities.remove(activity.id)


def refuse_closed(walk: Walk) -> None:
    """Refuses any action on a workflow that a transition has ended.

    Raises:
        Refused: ``WORKFLOW_COMPLETED``.
    """
    if walk.state.closed:
        raise Refused("WORKFLOW_COMPLETED", f"Workflow '{walk.workflow.id}' is completed")


def refuse_blocked(walk: Walk) -> None:
    """Refuses an action while a checkpoint blocks.

    Raises:
        Refused: ``CHECKPOINT_BLOCKING``.
    """
    checkpoint = progress.blocking_checkpoint(walk.activity, walk.state)
    if checkpoint is not None:
        raise Refused("CHECKPOINT_BLOCKING", f"Checkpoint '{checkpoint.id}' must be responded to first")


def _bring_about(walk: Walk, effect: Effect) -> Effects | None:
    """Applies an option's effect. Returns what was changed, None if nothing was."""
    state = walk.state
    done = Effects()
    if effect.set_variable is not UNSET and effect.set_variable:
        set_variables(walk, effect.set_variable)
        done.variables_set = dict(effect.set_variable)
    if effect.skip_activities is not UNSET:
        skipped = [
            name
            for name in dict.fromkeys(effect.skip_activities)
            if name in walk.activities and name != state.current_activity and name not in state.skipped_activities
        ]
        for name in skipped:
            state.skipped_activities.append(name)
            state.record(walk.now, "activity_skipped", activity=name)
        if skipped:
            done.activities_skipped = skipped
    if effect.transition_to is not UNSET:
        done.transitioned_to = effect.transition_to
    return done if done != Effects() else None


def _enter(walk: Walk, activity: Activity) -> None:
    """Begins a visit of an activity. Steps and answers of earlier visits no longer count."""
    state = walk.state
    state.current_activity = activity.id
    state.status, state.completed_at = "running", UNSET
    state.active_loops = []
    for finished in (state.skipped_activities, state.completed_activities):
        if activity.id in finished:
            finished.remove(activity.id)
    state.completed_steps.pop(activity.id, None)
    # By prefix, not by the activity's checkpoints: another process may have a newer definition with others.
    for key in [key for key in state.checkpoint_responses if key.startswith(answer_key(activity.id, ""))]:
        del state.checkpoint_responses[key]
    state.record(walk.now, "activity_entered", activity=activity.id)


def _finish(state: State, activity: str) -> None:
    if activity not in state.completed_activities:
        state.completed_activities.append(activity)


def _complete(walk: Walk) -> None:
    walk.state.status = "completed"
    walk.state.completed_at = walk.now
    walk.state.current_step = UNSET
    walk.state.record(walk.now, "workflow_completed")
