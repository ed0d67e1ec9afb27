"""The view of a state that tools return: position, actions, active checkpoint (README.md, 'Answers')."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.definitions import Activity, Checkpoint, Loop, text
from coordinator.toolsets.navigator.contract import navigation
from coordinator.toolsets.navigator.rules import children, loops, progress, wanted
from coordinator.toolsets.navigator.rules.actions import Walk, how_to_run
from coordinator.toolsets.navigator.rules.children import Reached
from coordinator.toolsets.navigator.rules.progress import Place, Round
from coordinator.toolsets.navigator.rules.wanted import Want

_RESOURCE = navigation.Offered(action="get_resource")


def position(walk: Walk) -> navigation.Position:
    state = walk.state
    activity = walk.activities.get(state.current_activity)
    if activity is None:
        gone = navigation.Named(id=state.current_activity, name=state.current_activity)
        return navigation.Position(workflow=state.workflow_id, activity=gone)
    place = None if state.closed else progress.current_place(activity, state)
    return navigation.Position(
        workflow=state.workflow_id,
        activity=navigation.Named(id=activity.id, name=activity.name),
        step=UNSET
        if place is None
        else navigation.StepPosition(id=place.step.id, index=place.number, name=place.step.name),
        loop=_loop(activity, walk),
    )


def checkpoint(walk: Walk) -> navigation.ActiveCheckpoint | None:
    """The checkpoint that blocks everything else; None if there is none."""
    blocking = _blocking(walk)
    if blocking is None:
        return None
    options = [
        navigation.OfferedOption(id=option.id, label=option.label, description=option.description)
        for option in blocking.options
    ]
    return navigation.ActiveCheckpoint(id=blocking.id, message=blocking.message, options=options)


def over(walk: Walk) -> str:
    """A sentence that the workflow is completed; empty if it is not."""
    return f"Workflow '{walk.workflow.id}' is completed" if walk.state.status == "completed" else ""


def situation(walk: Walk) -> str:
    """The position of the walk as a line of text."""
    where = position(walk)
    parts = [f"Activity: {where.activity.name}"]
    if where.step is not UNSET:
        parts.append(f"Step {where.step.index}: {where.step.name}")
    if where.loop is not UNSET:
        parts.append(f"Loop: {where.loop.name} (iteration {where.loop.iteration} of {where.loop.total})")
    blocking = _blocking(walk)
    if blocking is not None:
        parts.append(f"Checkpoint: {blocking.name}")
    if walk.state.current_activity not in walk.activities:
        parts.append("This activity is no longer part of the workflow: nothing can be done until it is back")
    parts += filter(None, [over(walk)])
    if walk.state.workflow_version != walk.workflow.version:
        parts.append(
            f"Definition changed: begun with version {walk.state.workflow_version}, now {walk.workflow.version}"
        )
    return " | ".join(parts)


def hint(offers: navigation.AvailableActions) -> str:
    """A sentence on running a workflow or reporting variables, if that comes next; else empty."""
    for offer in offers.required:
        if offer.workflow is not UNSET:
            return f"Next, {how_to_run(offer.workflow)}"
    names = dict.fromkeys(want.name for offer in offers.blocked for want in offer.variables or ())
    if not names:
        return ""
    named = ", ".join(names)
    return f"To open what is blocked, report {named} in variables of nav_action, with action report or another one"


def available(walk: Walk) -> navigation.AvailableActions:
    """The required, optional and blocked actions."""
    state = walk.state
    activity = walk.activities.get(state.current_activity)
    if activity is None or state.closed:
        return navigation.AvailableActions(required=[], optional=[], blocked=[])
    offers = _offers(walk, activity)
    offers.blocked += _suspended(walk)
    return offers


def _offers(walk: Walk, activity: Activity) -> navigation.AvailableActions:
    state = walk.state
    blocking = progress.blocking_checkpoint(activity, state)
    if blocking is not None:
        reason = f"Checkpoint '{blocking.id}' must be responded to first"
        return navigation.AvailableActions(
            required=[_answer(blocking)], optional=[], blocked=list(_held_back(activity, reason))
        )
    reached = children.required(activity, state)
    if reached is not None:
        workflow = reached.trigger.workflow
        required, cannot = _runs(walk, [reached])
        reason = children.waiting(workflow, walk)
        return navigation.AvailableActions(
            required=required, optional=[], blocked=[*cannot, *_held_back(activity, reason)]
        )
    inner, places, finished = progress.here(activity, state)
    wanted_steps, optional_steps = progress.open_steps(places, finished, state)
    runs, cannot_run = _runs(walk, children.optional(activity, state))
    choices = [_RESOURCE, *map(_complete, optional_steps), *runs]
    if inner is not None:
        following = [_complete(wanted_steps[0])] if wanted_steps else [_next_round(walk, inner)]
        return navigation.AvailableActions(required=following, optional=choices, blocked=cannot_run)
    choices += [_answer(one) for one in progress.optional_checkpoints(activity, state)]
    wanted_loops, optional_loops = progress.open_loops(activity, state)
    choices += [_first_round(walk, loop) for loop in optional_loops if loop.id not in state.completed_loops]
    up = progress.next_up(activity, state)
    blocked = cannot_run + [_closed_loop(walk, loop) for loop in activity.loops if not progress.startable(loop, state)]
    following = [] if up is None else [_complete(up) if isinstance(up, Place) else _first_round(walk, up)]
    ways = walk.ways(activity)
    shut = [
        navigation.Offered(action="transition", activity=target, reason=way.reason, variables=_wanted(way.wants))
        for target, way in ways.closed.items()
    ]
    if following:
        # Before the last step, the variables that decide the way out can already be named.
        last = len(wanted_steps) + len(wanted_loops) == 1
        soon = [one for one in shut if one.variables is not UNSET] if last else []
        return navigation.AvailableActions(required=following, optional=choices, blocked=blocked + soon)
    targets = [
        navigation.Offered(action="transition", activity=route.target, description=_leads(route.target, walk))
        for route in ways.open
    ]
    return navigation.AvailableActions(required=targets[:1], optional=targets[1:] + choices, blocked=shut + blocked)


def _runs(walk: Walk, reached: Iterable[Reached]) -> tuple[list[navigation.Offered], list[navigation.Offered]]:
    """The workflows that can be started now, and the blocked ones."""
    runs: list[navigation.Offered] = []
    cannot_run: list[navigation.Offered] = []
    for trigger, _ in reached:
        if cannot := children.trouble(trigger.workflow, walk):
            cannot_run.append(navigation.Offered(action="nav_start", workflow=trigger.workflow, reason=cannot))
            continue
        passed = UNSET if trigger.pass_context is UNSET else list(trigger.pass_context)
        words = trigger.description or f"Run workflow: {trigger.workflow}"
        runs.append(
            navigation.Offered(action="nav_start", workflow=trigger.workflow, pass_context=passed, description=words)
        )
    return runs, cannot_run


def _suspended(walk: Walk) -> Iterator[navigation.Offered]:
    for state in walk.state.suspended():
        yield navigation.Offered(
            action="transition",
            workflow=state.workflow_id,
            activity=state.current_activity,
            reason=f"Workflow '{state.workflow_id}' is suspended until '{walk.state.workflow_id}' is completed",
        )


def _closed_loop(walk: Walk, loop: Loop) -> navigation.Offered:
    condition = loop.condition
    if condition is UNSET:
        return navigation.Offered(action="advance_loop", loop=loop.id)
    missing = wanted.wants(condition, walk.state.variables)
    return navigation.Offered(
        action="advance_loop", loop=loop.id, reason=f"needs {text(condition)}", variables=_wanted(missing)
    )


def _first_round(walk: Walk, loop: Loop) -> navigation.Offered:
    needed = loops.counted(loop) and not loops.held(walk, loop)
    return navigation.Offered(
        action="advance_loop",
        loop=loop.id,
        description=f"Start loop: {loop.name}",
        loop_items=loops.items_of(loop) if needed else UNSET,
    )


def _next_round(walk: Walk, inner: Round) -> navigation.Offered:
    loop, known = inner.loop, walk.state.variables
    ends: tuple[Want, ...] = ()
    words = "Next iteration"
    if loop.type != "forEach" and loop.condition is not UNSET:
        ends = wanted.wants(loop.condition, known, truth=False)
        words = "Next iteration" if ends else "End loop"
    if inner.last:
        ends, words = (), "End loop"
    words = f"{words}: {loop.name}"
    if ends:
        words += f" (continues while {text(loop.condition)})"  # type: ignore[arg-type]
    # Items too large for the state have to be passed each time.
    unknown = loops.counted(loop) and not inner.last and inner.at.items is UNSET and not loops.held(walk, loop)
    return navigation.Offered(
        action="advance_loop",
        loop=loop.id,
        description=words,
        loop_items=loops.items_of(loop) if unknown else UNSET,
        variables=_wanted(ends),
    )


def _wanted(wants: Iterable[Want]) -> list[navigation.Wanted] | UnsetType:
    return [
        navigation.Wanted(name=want.name, wanted=want.value, operator=UNSET if want.operator == "==" else want.operator)
        for want in wants
    ] or UNSET


def _leads(target: str, walk: Walk) -> str:
    activity = walk.activities.get(target)
    return "End the workflow" if activity is None else f"Go to: {activity.name}"


def _held_back(activity: Activity, reason: str) -> Iterator[navigation.Offered]:
    yield navigation.Offered(action="complete_step", reason=reason)
    if activity.loops:
        yield navigation.Offered(action="advance_loop", reason=reason)
    yield navigation.Offered(action="transition", reason=reason)


def _blocking(walk: Walk) -> Checkpoint | None:
    activity = walk.activities.get(walk.state.current_activity)
    if activity is None or walk.state.closed:
        return None
    return progress.blocking_checkpoint(activity, walk.state)


def _answer(checkpoint: Checkpoint) -> navigation.Offered:
    return navigation.Offered(action="respond_to_checkpoint", checkpoint=checkpoint.id, description=checkpoint.name)


def _complete(place: Place) -> navigation.Offered:
    return navigation.Offered(action="complete_step", step=place.step.id, description=f"Complete: {place.step.name}")


def _loop(activity: Activity, walk: Walk) -> navigation.LoopPosition | UnsetType:
    inner = progress.current_round(activity, walk.state)
    if inner is None or walk.state.closed:
        return UNSET
    item = inner.at.item
    if item is not UNSET and not isinstance(item, str):
        item = msgspec.json.encode(item).decode()
    return navigation.LoopPosition(
        id=inner.loop.id,
        name=inner.loop.name,
        iteration=inner.at.current_iteration + 1,
        total=inner.at.total_items,
        item=item,
    )
