"""The action ``advance_loop`` (README.md, 'Loops'): begins a loop, moves to its next item, or ends it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.definitions import Loop, holds, lookup, text
from coordinator.toolsets.navigator.rules import progress, triggers, variables, wanted
from coordinator.toolsets.navigator.rules.actions import Refused, Walk, how_to_run, unknown
from coordinator.toolsets.navigator.rules.state import LoopState, State

MOST_CARRIED_BYTES = 16_384
"""Bytes of JSON. Longer lists of items are not kept in the state and must be passed with each call."""


def advance(walk: Walk, loop_id: str, items: list[Any] | None) -> str:
    """Begins the loop if it is not active, else moves to its next iteration or ends it.

    Args:
        items: the items of a forEach loop; an empty list means none, or no more; None: those
            passed before, or those in the loop's variable.
    """
    activity, state = walk.activity, walk.state
    loop = activity.loop(loop_id)
    if loop is None:
        raise unknown("Loop", loop_id, f"activity '{activity.id}'", (one.id for one in activity.loops))
    inner = progress.current_round(activity, state)
    if inner is None or all(active.loop_id != loop_id for active in state.active_loops):
        return _begin(walk, loop, items)
    if inner.loop.id != loop_id:
        raise Refused("LOOP_NOT_CURRENT", f"Loop '{inner.loop.id}' is active within it and has to end first")
    open_steps, _ = progress.open_steps(inner.places, state.loop_steps.get(loop_id, ()), state)
    if open_steps:
        names = ", ".join(f"'{place.step.id}'" for place in open_steps)
        raise Refused("LOOP_STEPS_INCOMPLETE", f"Steps of this iteration are left: {names}")
    for trigger in triggers.unrun(triggers.at_end(activity, loop), triggers.key(loop), state):
        raise Refused("WORKFLOW_NOT_RUN", f"This iteration runs workflow '{trigger.workflow}', which must be completed "
                      f"first: {how_to_run(trigger.workflow)}")  # fmt: skip
    return _go_on(walk, loop, inner.at, items)


def counted(loop: Loop) -> bool:
    """Whether the loop iterates over items, not while a condition holds."""
    return loop.type == "forEach" or loop.condition is UNSET


def held(walk: Walk, loop: Loop) -> list[Any]:
    """The items in the loop's variable."""
    found = UNSET if loop.over is UNSET else lookup(walk.state.variables, loop.over)
    return found if isinstance(found, list) else []


def _begin(walk: Walk, loop: Loop, items: list[Any] | None) -> str:
    state = walk.state
    given = held(walk, loop) if items is None else items
    if counted(loop) and not given:
        if items is None:
            raise Refused("LOOP_ITEMS_REQUIRED", f"loop_items is required to start loop '{loop.id}': {items_of(loop)}")
        _forget(state, loop)
        state.completed_loops.append(loop.id)
        return f"Completed loop '{loop.id}' without an iteration: there are no items"
    if loop.condition is not UNSET and not progress.startable(loop, state):
        names = wanted.names(wanted.wants(loop.condition, state.variables))
        raise Refused("LOOP_CONDITION_NOT_MET", f"Loop '{loop.id}' needs {text(loop.condition)}. Report {names} in the "
                      "argument variables, if that has changed")  # fmt: skip
    total = min(len(given), loop.max_iterations) if given else loop.max_iterations
    active = LoopState(loop_id=loop.id, current_iteration=0, total_items=total)
    if items and len(msgspec.json.encode(items)) <= MOST_CARRIED_BYTES:
        active.items = items
    state.active_loops.append(active)
    _forget(state, loop)
    _take_item(walk, loop, active, given)
    left = f"; its maxIterations leaves out {len(given) - total} of {len(given)} items" if len(given) > total else ""
    return f"Started loop '{loop.id}' (iteration 1 of {total}){left}"


def items_of(loop: Loop) -> str:
    what = "an array with the items" if loop.over is UNSET else f"an array, the items of '{loop.over}'"
    return f"{what}; one iteration for each, at most {loop.max_iterations}; [] if there are none"


def _go_on(walk: Walk, loop: Loop, active: LoopState, items: list[Any] | None) -> str:
    state = walk.state
    number = active.current_iteration + 1
    if loop.break_condition is not UNSET and holds(loop.break_condition, state.variables):
        _end(walk, loop, active)
        return f"Left loop '{loop.id}' after iteration {number}: {text(loop.break_condition)}"
    over = loop.type != "forEach" and loop.condition is not UNSET and not holds(loop.condition, state.variables)
    none_left = counted(loop) and items == []
    if over or none_left or number >= active.total_items:
        _end(walk, loop, active)
        return f"Completed loop '{loop.id}' after iteration {number}"
    active.current_iteration = number
    _forget(state, loop)
    _take_item(walk, loop, active, (active.items or held(walk, loop)) if items is None else items)
    return f"Advanced loop '{loop.id}' to iteration {number + 1} of {active.total_items}"


def _take_item(walk: Walk, loop: Loop, active: LoopState, items: list[Any]) -> None:
    item: Any | UnsetType = items[active.current_iteration] if active.current_iteration < len(items) else UNSET
    active.current_item = UNSET if active.items is items else item
    if loop.variable is not UNSET and loop.type == "forEach":
        variables.assign(walk.state.variables, loop.variable, None if item is UNSET else item)


def _end(walk: Walk, loop: Loop, active: LoopState) -> None:
    walk.state.active_loops.remove(active)
    _forget(walk.state, loop)
    if loop.id not in walk.state.completed_loops:
        walk.state.completed_loops.append(loop.id)


def _forget(state: State, loop: Loop) -> None:
    """Clears the progress of an iteration for the next one."""
    state.loop_steps.pop(loop.id, None)
    for place in [place for place in state.children if place.startswith(triggers.key(loop))]:
        del state.children[place]
