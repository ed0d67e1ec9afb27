"""One action of nav_action from its arguments to the settled state (seed 002, Actions)."""

from __future__ import annotations

from coordinator.toolsets.navigator.contract.navigation import NavAction
from coordinator.toolsets.navigator.rules import actions, loops
from coordinator.toolsets.navigator.rules.actions import Walk

_BLOCKABLE = ("complete_step", "advance_loop")


def perform(walk: Walk, args: NavAction) -> str:
    """Carries out an action, updates the rest of the state, and returns the message of success.

    Variables that come with the action count for its conditions. They do not count when it is decided whether a
    checkpoint blocks the action: a question that is raised by the action's own result comes after the action.

    Raises:
        Refused: the action cannot be done. The state may be partly changed and must be discarded.
    """
    actions.refuse_closed(walk)
    if args.action in _BLOCKABLE:
        actions.refuse_blocked(walk)
    if args.variables:
        actions.set_variables(walk, args.variables)
    message = _dispatch(walk, args)
    actions.settle(walk)
    return message


def _dispatch(walk: Walk, args: NavAction) -> str:
    if args.action == "complete_step":
        return actions.complete_step(walk, args.step_id or "")
    if args.action == "respond_to_checkpoint":
        return actions.respond(walk, args.checkpoint_id or "", args.option_id or "")
    if args.action == "transition":
        return actions.transition(walk, args.activity_id or "")
    return loops.advance(walk, args.loop_id or "", args.loop_items)
