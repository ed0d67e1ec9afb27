"""The action ``advance_loop`` (seed 002, Actions): begins a loop, moves to its next item, or ends it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.definitions import Activity, Loop, holds, lookup, text
from coordinator.toolsets.navigator.rules import progress, variables
from coordinator.toolsets.navigator.rules.actions import Refused, Walk
from coordinator.toolsets.navigator.rules.state import LoopState, loop_key

MOST_CARRIED_BYTES = 16_384
"""Bytes of JSON. Longer lists of items are not kept in the state and must be passed with each call."""


def advance(walk: Walk, loop_id: str, items: list[Any] | None) -> str:
    """Begins the loop if it is not under way, else moves to its next iteration or ends it.

    Args:
        items: the items of a forEach loop; None: those passed before, or those in the loop's variable.
    """
    activity, state = walk.activity, walk.state
    loop = activity.loop(loop_id)
    if loop is None:
        known = ", ".join(one.id for one in activity.loops) or "none"
        raise Refused("LOOP_NOT_FOUND", f"Loop '{loop_id}' not found in activity '{activity.id}'. Loops: {known}")
    inner = progress.current_round(activity, state)
    if inner is None or all(active.loop_id != loop_id for active in state.active_loops):
        return _begin(walk, activity, loop, items)
    if inner.loop.id != loop_id:
        raise Refused("LOOP_NOT_CURRENT", f"Loop '{inner.loop.id}' is under way within it and has to end first")
    wanted, _ = progress.open_steps(inner.steps, progress.done(activity, state, loop), state)
    if wanted:
        names = ", ".join(f"'{place.step.id}'" for place in wanted)
        raise Refused("LOOP_STEPS_INCOMPLETE", f"Steps of this iteration are left: {names}")
    return _go_on(walk, activity, loop, inner.at, items)


def startable(walk: Walk, loop: Loop) -> bool:
    """Whether the loop can begin now, if the caller passes the items that it needs."""
    return loop.type != "while" or loop.condition is UNSET or holds(loop.condition, walk.state.variables)


def _begin(walk: Walk, activity: Activity, loop: Loop, items: list[Any] | None) -> str:
    state = walk.state
    given = items or _held(walk, loop)
    counted = loop.type == "forEach" or loop.condition is UNSET
    if counted and not given:
        raise Refused("LOOP_ITEMS_REQUIRED", f"loop_items is required to start loop '{loop.id}', and must not be empty")
    if loop.condition is not UNSET and not startable(walk, loop):
        raise Refused("LOOP_CONDITION_NOT_MET", f"Loop '{loop.id}' needs {text(loop.condition)}")
    total = min(len(given), loop.max_iterations) if given else loop.max_iterations
    active = LoopState(
        activity_id=activity.id, loop_id=loop.id, current_iteration=0, total_items=total, started_at=walk.now
    )
    if items and len(msgspec.json.encode(items)) <= MOST_CARRIED_BYTES:
        active.items = items
    state.active_loops.append(active)
    state.completed_steps.pop(loop_key(activity.id, loop.id), None)
    _take_item(walk, loop, active, given)
    state.record(walk.now, "loop_started", activity=activity.id, loop=loop.id, data={"totalItems": total})
    left = f"; its maxIterations leaves out {len(given) - total} of {len(given)} items" if len(given) > total else ""
    return f"Started loop '{loop.id}' (iteration 1 of {total}){left}"


def _go_on(walk: Walk, activity: Activity, loop: Loop, active: LoopState, items: list[Any] | None) -> str:
    state = walk.state
    number = active.current_iteration + 1
    if loop.break_condition is not UNSET and holds(loop.break_condition, state.variables):
        _end(walk, activity, active, "loop_break")
        return f"Left loop '{loop.id}' after iteration {number}: {text(loop.break_condition)}"
    over = loop.type != "forEach" and loop.condition is not UNSET and not holds(loop.condition, state.variables)
    if over or number >= active.total_items:
        _end(walk, activity, active, "loop_completed")
        return f"Completed loop '{loop.id}' after iteration {number}"
    active.current_iteration = number
    state.completed_steps.pop(loop_key(activity.id, loop.id), None)
    _take_item(walk, loop, active, items or active.items or _held(walk, loop))
    state.record(walk.now, "loop_iteration", activity=activity.id, loop=loop.id, data={"iteration": number + 1})
    return f"Advanced loop '{loop.id}' to iteration {number + 1} of {active.total_items}"


def _held(walk: Walk, loop: Loop) -> list[Any]:
    """The items in the loop's variable."""
    found = UNSET if loop.over is UNSET else lookup(walk.state.variables, loop.over)
    return found if isinstance(found, list) else []


def _take_item(walk: Walk, loop: Loop, active: LoopState, items: list[Any]) -> None:
    item: Any | UnsetType = items[active.current_iteration] if active.current_iteration < len(items) else UNSET
    active.current_item = item
    if loop.variable is not UNSET and loop.type == "forEach":
        variables.assign(walk.state.variables, loop.variable, None if item is UNSET else item)


def _end(walk: Walk, activity: Activity, active: LoopState, kind: str) -> None:
    state = walk.state
    state.active_loops.remove(active)
    state.completed_steps.pop(loop_key(activity.id, active.loop_id), None)
    state.record(walk.now, kind, activity=activity.id, loop=active.loop_id)
