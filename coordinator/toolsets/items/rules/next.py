"""get_next_status: an item's next transition, from its role, blockers and schema."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.toolsets.items.contract.dependencies import Blocker
from coordinator.toolsets.items.contract.next import BlockedStatus, ReadyStatus, TerminalStatus
from coordinator.toolsets.items.rules.schema import Resolved

_RESUME = "Use 'resume' trigger to return to previous role"
_RESUME_CREATED = "Item was created as blocked. Use 'resume' trigger to move it to queue"


def next_status(
    role: str, returns: bool, schema: Resolved | None, blockers: Sequence[Blocker]
) -> ReadyStatus | BlockedStatus | TerminalStatus:
    """The recommendation for an item.

    Args:
        returns: whether an item of role blocked has a previous role.
        blockers: the unsatisfied ones.
    """
    if role == "terminal":
        return TerminalStatus(
            recommendation="Terminal",
            current_role=role,
            reason="Item is terminal. Use 'reopen' trigger to move back to queue, or 'cancel' if already cancelled.",
        )
    if role == "blocked":
        return BlockedStatus(
            recommendation="Blocked",
            current_role=role,
            suggestion=_RESUME if returns else _RESUME_CREATED,
        )
    if blockers:
        return BlockedStatus(recommendation="Blocked", current_role=role, blockers=list(blockers))
    phases = _phases(role, schema)
    place = phases.index(role)
    return ReadyStatus(
        recommendation="Ready",
        current_role=role,
        next_role=phases[place + 1],
        trigger="start",
        progression_position=f"{place + 1}/{len(phases)}",
    )


def held_back(role: str, not_before: str) -> BlockedStatus:
    """The recommendation for an item that is not offered yet, or never, because it is a template.

    Args:
        not_before: from when on it is offered; '' for a template.
    """
    if not not_before:
        said = "It is a template, which is never offered: 'cancel' ends its recurrence, or update it with recurs null"
        return BlockedStatus(recommendation="Blocked", current_role=role, suggestion=said)
    said = f"It is not offered before {not_before}; an agent that claims it by its id may start now"
    return BlockedStatus(recommendation="Blocked", current_role=role, not_before=not_before, suggestion=said)


def _phases(role: str, schema: Resolved | None) -> tuple[str, ...]:
    """The phases of an item; an item in review has that phase with any schema."""
    if role == "review" or (schema is not None and schema.has_review):
        return ("queue", "work", "review", "terminal")
    return ("queue", "work", "terminal")
