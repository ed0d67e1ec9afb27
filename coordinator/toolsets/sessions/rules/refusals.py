"""Refusals of calls about sessions (README.md, 'The gate'). First the words that agents match, then what to do."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.errors import ToolFailure, that_exist

SHOWN = 200
"""The most characters of an unknown id that a message quotes."""
_ANSWER_IT = "The orchestrator must resolve it by calling respond_checkpoint."


def blocked(checkpoint: str, activity: str) -> ToolFailure:
    """The gate of most tools."""
    return ToolFailure(
        "checkpoint_active", f"Blocked: Active checkpoint '{checkpoint}' on activity '{activity}'. {_ANSWER_IT}"
    )


def cannot_move(target: str, checkpoint: str, activity: str) -> ToolFailure:
    return ToolFailure(
        "checkpoint_active",
        f"Cannot transition to '{target}': Active checkpoint '{checkpoint}' on activity '{activity}'. {_ANSWER_IT}",
    )


def cannot_yield(checkpoint: str, active: str) -> ToolFailure:
    return ToolFailure(
        "checkpoint_active",
        f"Cannot yield checkpoint '{checkpoint}': Checkpoint '{active}' is already active. {_ANSWER_IT}",
    )


def cannot_resume(checkpoint: str) -> ToolFailure:
    return ToolFailure("checkpoint_active", f"Cannot resume: Checkpoint '{checkpoint}' is still active. {_ANSWER_IT}")


def nothing_to_resume() -> ToolFailure:
    """resume_checkpoint without an answer to resume from."""
    return ToolFailure(
        "checkpoint_closed",
        "Cannot resume: no resolved checkpoint to resume from. If execution is not paused at a checkpoint, continue "
        "with the next step.",
    )


def moved_on(checkpoint: str, act: str, stands: str) -> ToolFailure:
    """yield_checkpoint with a token from an activity that the session has left."""
    return ToolFailure(
        "checkpoint_closed",
        f"Cannot yield checkpoint '{checkpoint}': the session has moved on from activity '{act}' to "
        f"'{stands or 'none'}'. Call start_session with this token for one that stands where the session does.",
    )


def no_checkpoint() -> ToolFailure:
    """A handle or token of a session in which no checkpoint waits."""
    return ToolFailure(
        "checkpoint_closed",
        "The checkpoint_handle or session_token does not have an active checkpoint. The worker must yield one first.",
    )


def resolved(checkpoint: str, answer: str) -> ToolFailure:
    """A handle of a checkpoint that was resolved already. ``answer`` says how, if known."""
    return ToolFailure(
        "checkpoint_closed",
        f"The checkpoint_handle does not have an active checkpoint: '{checkpoint}' was already resolved{answer}. "
        "The worker goes on with resume_checkpoint.",
    )


def superseded(agent: str) -> ToolFailure:
    """A token from before another agent took the session over."""
    return ToolFailure(
        "session_superseded",
        f"Agent '{agent}' has lost this session: its work item was claimed by somebody else, who has taken it over. "
        "Stop work on the item.",
    )


_HOLDERS = {
    "nobody": "nobody holds it now",
    "same": "its holder has claimed it again",
    "other": "somebody else holds it now",
}


def unclaimed(holder: str) -> ToolFailure:
    """An advance of a bound session without a live claim. ``holder`` is what ``claim_gone`` in Lua returns."""
    if holder == "gone":
        return ToolFailure(
            "not_claim_holder",
            "The session is bound to a work item that has been deleted, so it cannot go on. Stop work on the item; "
            "start_session begins a fresh session.",
        )
    now = _HOLDERS[holder]
    return ToolFailure(
        "not_claim_holder",
        f"The session is bound to a work item, and the claim shown for it is gone: {now}. Claim the item and call "
        "start_session with item_id.",
    )


def replaced(target: str) -> ToolFailure:
    """next_activity in a completed session whose work item has another open session."""
    return ToolFailure(
        "VALIDATION_ERROR",
        f"Cannot transition to '{target}': the session is completed, and its work item has another open session of "
        "this workflow. Call start_session with item_id and without session_token to resume that one.",
    )


def not_found(kind: str, name: str, known: Iterable[str] | None, place: str = "") -> ToolFailure:
    """A definition that does not exist: ``Workflow not found: x; did you mean 'y'?``.

    Args:
        known: the existing ones; None: not listed.
        place: where it was searched, and a hint.
    """
    exist = "" if known is None else that_exist(name, known)
    return ToolFailure("RESOURCE_NOT_FOUND", f"{kind} not found: {name[:SHOWN]}{place[: 2 * SHOWN]}{exist}")


def no_end(target: str, act: str, ways: Iterable[str]) -> ToolFailure:
    """next_activity to an end that the activity does not have, or before any activity.

    Args:
        act: empty: the session has no activity yet.
        ways: the possible next activities.
    """
    where = f"From '{act}' it" if act else "Before its first activity it"
    return ToolFailure(
        "RESOURCE_NOT_FOUND",
        f"Activity not found: {target}. The session cannot end so. {where} can go to: {', '.join(ways) or 'none'}",
    )


def no_activity() -> ToolFailure:
    """get_activity before next_activity."""
    return ToolFailure("VALIDATION_ERROR", "No current activity in session token. Call next_activity first.")
