"""A state as the tools show it: position, actions, active checkpoint (seed 002, Navigation Response Format)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.definitions import Activity, Checkpoint
from coordinator.toolsets.navigator.contract.navigation import (
    ActiveCheckpoint,
    AvailableActions,
    LoopPosition,
    Named,
    Offered,
    OfferedOption,
    Position,
    StepPosition,
)
from coordinator.toolsets.navigator.rules import loops, progress, routes
from coordinator.toolsets.navigator.rules.actions import Walk
from coordinator.toolsets.navigator.rules.progress import Place

_RESOURCE = Offered(action="get_resource")


def position(walk: Walk) -> Position:
    """The position of the walk."""
    state = walk.state
    activity = walk.activities.get(state.current_activity)
    if activity is None:
        gone = Named(id=state.current_activity, name=state.current_activity)
        return Position(workflow=state.workflow_id, activity=gone)
    place = None if state.closed else progress.current_place(activity, state)
    return Position(
        workflow=state.workflow_id,
        activity=Named(id=activity.id, name=activity.name),
        step=UNSET if place is None else StepPosition(id=place.step.id, index=place.number, name=place.step.name),
        loop=_loop(activity, walk),
    )


def checkpoint(walk: Walk) -> ActiveCheckpoint | None:
    """The checkpoint that blocks everything else; None if there is none."""
    found = _blocking(walk)
    if found is None:
        return None
    options = [OfferedOption(id=one.id, label=one.label, description=one.description) for one in found.options]
    return ActiveCheckpoint(id=found.id, message=found.message, options=options)


def situation(walk: Walk) -> str:
    """The position of the walk, as a line of text."""
    where = position(walk)
    parts = [f"Activity: {where.activity.name}"]
    if where.step is not UNSET:
        parts.append(f"Step {where.step.index}: {where.step.name}")
    if where.loop is not UNSET:
        parts.append(f"Loop: {where.loop.name} (iteration {where.loop.iteration} of {where.loop.total})")
    found = _blocking(walk)
    if found is not None:
        parts.append(f"Checkpoint: {found.message}")
    if walk.state.current_activity not in walk.activities:
        parts.append("This activity is no longer part of the workflow: nothing can be done until it is back")
    if walk.state.status == "completed":
        parts.append("Workflow completed")
    if walk.state.workflow_version != walk.workflow.version:
        parts.append(
            f"Definition changed: begun with version {walk.state.workflow_version}, now {walk.workflow.version}"
        )
    return " | ".join(parts)


def available(walk: Walk) -> AvailableActions:
    """What must be done next, what may be done, and what cannot be done now."""
    state = walk.state
    activity = walk.activities.get(state.current_activity)
    if activity is None or state.closed:
        return AvailableActions(required=[], optional=[], blocked=[])
    found = progress.blocking_checkpoint(activity, state)
    if found is not None:
        return AvailableActions(required=[_answer(found)], optional=[], blocked=list(_held_back(activity, found)))
    runs, cannot_run = _triggered(walk, activity)
    inner = progress.current_round(activity, state)
    if inner is not None:
        wanted, optional = progress.open_steps(inner.steps, progress.done(activity, state, inner.loop), state)
        after = "End loop: " if inner.last else "Next iteration: "
        next_round = Offered(action="advance_loop", loop=inner.loop.id, description=after + inner.loop.name)
        return AvailableActions(
            required=[_complete(wanted[0])] if wanted else [next_round],
            optional=[_RESOURCE, *map(_complete, optional), *runs],
            blocked=cannot_run,
        )
    wanted, optional = progress.open_steps(activity.steps, progress.done(activity, state), state)
    choices = [_RESOURCE, *map(_complete, optional), *runs]
    choices += [_answer(one) for one in progress.optional_checkpoints(activity, state)]
    choices += [
        Offered(action="advance_loop", loop=loop.id, description=f"Start loop: {loop.name}")
        for loop in progress.first_of_each(activity.loops)
        if loops.startable(walk, loop)
    ]
    if wanted:
        return AvailableActions(required=[_complete(wanted[0])], optional=choices, blocked=cannot_run)
    return _transitions(walk, activity, choices, cannot_run)


def _transitions(walk: Walk, activity: Activity, choices: list[Offered], cannot_run: list[Offered]) -> AvailableActions:
    ways = routes.routes(activity, walk.state, walk.activities)
    targets = [
        Offered(action="transition", activity=route.target, description=_leads(route.target, walk))
        for route in ways.open
    ]
    blocked = [Offered(action="transition", activity=target, reason=why) for target, why in ways.closed.items()]
    return AvailableActions(required=targets[:1], optional=targets[1:] + choices, blocked=blocked + cannot_run)


def _triggered(walk: Walk, activity: Activity) -> tuple[list[Offered], list[Offered]]:
    """The workflows to be run from here (seed 002, Cross-Workflow Triggering), and those that cannot be run.

    Each is a walk of its own. The agent completes it while it keeps the state of this one. In a loop, there is one for
    each iteration.
    """
    runs: list[Offered] = []
    cannot_run: list[Offered] = []
    for trigger in activity.all_triggers():
        other = walk.others.get(trigger.workflow)
        if other is None or other.activity(other.initial_activity or "") is None:
            reason = "there is no such workflow" if other is None else "it has no activity to begin with"
            cannot_run.append(Offered(action="nav_start", workflow=trigger.workflow, reason=reason))
            continue
        passed = UNSET if trigger.pass_context is UNSET else list(trigger.pass_context)
        words = trigger.description or f"Run workflow: {trigger.workflow}"
        runs.append(Offered(action="nav_start", workflow=trigger.workflow, pass_context=passed, description=words))
    return runs, cannot_run


def _leads(target: str, walk: Walk) -> str:
    activity = walk.activities.get(target)
    return "End the workflow" if activity is None else f"Go to: {activity.name}"


def _held_back(activity: Activity, checkpoint: Checkpoint) -> Iterator[Offered]:
    reason = f"Checkpoint '{checkpoint.id}' must be responded to first"
    yield Offered(action="complete_step", reason=reason)
    if activity.loops:
        yield Offered(action="advance_loop", reason=reason)
    yield Offered(action="transition", reason=reason)


def _blocking(walk: Walk) -> Checkpoint | None:
    activity = walk.activities.get(walk.state.current_activity)
    if activity is None or walk.state.closed:
        return None
    return progress.blocking_checkpoint(activity, walk.state)


def _answer(checkpoint: Checkpoint) -> Offered:
    return Offered(action="respond_to_checkpoint", checkpoint=checkpoint.id, description=checkpoint.message)


def _complete(place: Place) -> Offered:
    return Offered(action="complete_step", step=place.step.id, description=f"Complete: {place.step.name}")


def _loop(activity: Activity, walk: Walk) -> LoopPosition | UnsetType:
    inner = progress.current_round(activity, walk.state)
    if inner is None or walk.state.closed:
        return UNSET
    item = inner.at.current_item
    if item is not UNSET and not isinstance(item, str):
        item = msgspec.json.encode(item).decode()
    return LoopPosition(
        id=inner.loop.id,
        name=inner.loop.name,
        iteration=inner.at.current_iteration + 1,
        total=inner.at.total_items,
        item=item,
    )
