"""One action of nav_action from its arguments to the settled state (seed 002, Actions)."""

from __future__ import annotations

from coordinator.toolsets.navigator.contract.navigation import NavAction
from coordinator.toolsets.navigator.rules import actions, loops
from coordinator.toolsets.navigator.rules.actions import Walk

_BLOCKABLE = ("complete_step", "advance_loop")


def perform(walk: Walk, args: NavAction) -> str:
    """Does the action and what follows from it; the message of success.

    Variables that come with it count for its conditions. Whether a checkpoint blocks it is judged
    without them: a question that the action's own result raises comes after the action.

    Raises:
        Refused: it cannot be done; the state may be half changed and is to be thrown away.
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
