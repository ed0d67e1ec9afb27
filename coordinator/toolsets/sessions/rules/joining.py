"""Warnings and refusals of start_session (README.md, 'Starting and joining'), and the work items that it can bind."""

from __future__ import annotations

import re

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.sessions.contract.results import WorkItem
from coordinator.toolsets.timestamp import iso

_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


def other_agent(agent: str, before: str) -> str:
    """The warning for a token that was given to another agent."""
    return (
        f"Warning: The provided agent_id '{agent}' does not match the inherited session token's agent_id '{before}'. "
        f"The returned token is that of '{agent}'."
    )


def adopted(reason: str) -> str:
    """The warning for a token that has a bad signature but names a known session."""
    return (
        "The provided session_token had an invalid signature. Its session is known, so it was adopted and the token "
        "signed anew: session ID, activity position and checkpoints are preserved. "
        f"Original error: {reason}"
    )


def taken_over(reason: str) -> str:
    """The warning for a token of an unknown session, which was created as the token states it."""
    return (
        "The session of the provided session_token was not known here. It was adopted as the token states it, and the "
        "token signed anew: session ID, activity position and the checkpoint that waits are preserved; the trace and "
        f"the answers to earlier checkpoints are not. Original error: {reason}"
    )


def orphaned(reason: str) -> str:
    """The warning for a parent_session_token that cannot be used."""
    return (
        f"The provided parent_session_token could not be used ({reason}): the session was started without a parent. "
        "If it is to have one, start it anew with a token of the parent as the last call returned it."
    )


def recovered(workflow: str, reason: str) -> str:
    """The warning for an unusable token."""
    return (
        "The provided session_token could not be verified, or its session could not be found. A fresh session was "
        f"started instead (workflow: '{workflow}'). The previous session state was NOT inherited: reconstruct it from "
        "the state that you saved, by calling next_activity for the activity that you were in. "
        f"Original error: {reason}"
    )


def moved_on(act: str, stands: str) -> str:
    """The warning for a token at an earlier activity than its session."""
    return (
        f"Warning: The session_token was at activity '{act}', but the session has moved on to '{stands}'. The returned "
        f"token is at '{stands}'."
    )


def item_hex(text: str) -> str:
    """A work item's UUID as 32 hex digits.

    Raises:
        ToolFailure: VALIDATION_ERROR.
    """
    if _UUID.fullmatch(text) is None:
        raise invalid("item_id", "must be the UUID of a work item")
    return text.replace("-", "").lower()


def work_item(item: str, fence: int, holder: str, expires: int, live: bool) -> WorkItem:
    """A bound work item as results show it.

    Args:
        holder: the item's current holder; empty: nobody, or another agent.
        expires: when the claim expires, in Unix ms; 0: there is no claim.
        live: whether the session's claim is live.
    """
    shown = WorkItem(
        item_id=f"{item[:8]}-{item[8:12]}-{item[12:16]}-{item[16:20]}-{item[20:]}", fence_token=fence, claim_live=live
    )
    if holder:
        shown.claimed_by = holder
    if expires:
        shown.claim_expires_at = iso(expires)
    return shown


def cannot_bind(outcome: str, actor: str, expires: int) -> ToolFailure:
    """Why a session cannot be bound to an item.

    Args:
        outcome: the outcome of the script.
        expires: for ``held``: when the other agent's claim expires.
    """
    if outcome == "no_item":
        return ToolFailure("RESOURCE_NOT_FOUND", "item_id: no such work item in this project")
    if outcome == "stale_fence":
        return ToolFailure("stale_fence", "fence_token: is not that of the present claim on the work item")
    if outcome == "held":
        return ToolFailure(
            "not_claim_holder",
            f"item_id: the work item is claimed by another agent than '{actor}'; the claim expires at {iso(expires)}",
        )
    return ToolFailure(
        "not_claim_holder", f"item_id: '{actor}' holds no live claim on the work item; claim it with claim_item first"
    )
