"""Performs one call, from its arguments to the new state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from coordinator.toolsets.navigator.contract.navigation import NavAction
from coordinator.toolsets.navigator.rules import actions, children, loops, progress, view
from coordinator.toolsets.navigator.rules.actions import Walk

_BLOCKABLE = ("complete_step", "advance_loop", "report")


class Performed(NamedTuple):
    """The outcome of a call."""

    walk: Walk
    """The active walk: the same one, a workflow that it runs, or one that has waited for it."""
    message: str
    returned: dict[str, Any] | None = None
    """The values that the completed workflow returned to the resumed one; None if there is none."""


def perform(walk: Walk, args: NavAction) -> Performed:
    """Carries out an action and updates the rest of the state.

    Variables that come with the action count for its conditions. They do not count when it is decided whether a
    checkpoint or a trigger blocks the action: what the action itself raises comes after it, and
    no report removes a checkpoint. So they are only accepted when nothing blocks, or with the answer itself.

    Raises:
        Refused: the action cannot be done. The state may be partly changed and must be discarded.
    """
    actions.refuse_closed(walk)
    if args.action in _BLOCKABLE or (args.variables and not _answers(walk, args)):
        actions.refuse_blocked(walk)
        children.refuse_waiting(walk)
    if args.variables:
        _report(walk, args.variables, args.checkpoint_id)
    message = _dispatch(walk, args)
    walk.state.changed(walk.now)
    actions.settle(walk)
    return _gone_on(walk, [message] if message else [])


def start_child(walk: Walk, workflow: str, variables: Mapping[str, Any]) -> Performed:
    """Suspends the walk and starts a workflow that it triggers.

    Raises:
        Refused: it does not trigger it at this point. The state may be partly changed and must be discarded.
    """
    child = children.start(walk, workflow, variables)
    return _gone_on(child, [_started(child), f"Workflow '{walk.workflow.id}' is suspended until it is completed"])


def begin(walk: Walk) -> Performed:
    """The answer to the start of an independent workflow."""
    return _gone_on(walk, [_started(walk)])


def _started(walk: Walk) -> str:
    return f"Started workflow '{walk.workflow.workflow.title}' at activity '{walk.activity.name}'"


def _gone_on(walk: Walk, messages: list[str]) -> Performed:
    returned: dict[str, Any] | None = None
    while walk.state.status == "completed" and walk.state.parent is not UNSET:
        messages.append(view.over(walk))
        walk, returned = children.come_back(walk, walk.state.parent)
        messages.append(f"Workflow '{walk.workflow.id}' resumes at activity '{view.position(walk).activity.name}'")
    return Performed(walk, ". ".join([*messages, *filter(None, [view.over(walk)])]), returned)


def _report(walk: Walk, variables: Mapping[str, Any], answered: str | None) -> None:
    asked = progress.questions(walk.activity, walk.state)
    actions.set_variables(walk, variables)
    still = progress.questions(walk.activity, walk.state)
    for checkpoint in asked:
        if checkpoint not in still and checkpoint.id != answered:
            raise actions.blocking(checkpoint)


def _answers(walk: Walk, args: NavAction) -> bool:
    """Whether the action answers the checkpoint that blocks."""
    found = progress.blocking_checkpoint(walk.activity, walk.state)
    return found is not None and args.action == "respond_to_checkpoint" and args.checkpoint_id == found.id


def _dispatch(walk: Walk, args: NavAction) -> str:
    if args.action == "complete_step":
        return actions.complete_step(walk, args.step_id or "")
    if args.action == "respond_to_checkpoint":
        return actions.respond(walk, args.checkpoint_id or "", args.option_id or "")
    if args.action == "transition":
        return actions.transition(walk, args.activity_id or "")
    if args.action == "report":
        return f"Reported {', '.join(args.variables or ())}"
    return loops.advance(walk, args.loop_id or "", args.loop_items)
