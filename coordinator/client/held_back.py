"""Why nothing is offered, in words."""

from __future__ import annotations

from collections.abc import Mapping

_REASONS = {
    "quarantined": "quarantined",
    "notBefore": "not before a later time",
    "backoff": "in back-off",
    "dependencies": "waiting for dependencies",
    "openChildren": "waiting for their children",
    "budget": "below spent budgets",
    "capabilities": "for agents with other capabilities",
    "resources": "waiting for resources",
}


def described(counts: Mapping[str, int] | None) -> str:
    """What ``heldBack`` of an answer says: ``2 quarantined, 1 in back-off``; an empty text if nothing is held back."""
    return ", ".join(f"{count} {why}" for kind, why in _REASONS.items() if (count := (counts or {}).get(kind, 0)))
