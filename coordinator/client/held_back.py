"""Why nothing is offered, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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


def counted(answer: Mapping[str, Any]) -> dict[str, int]:
    """What an answer says of items that are held back: how many, by reason, without those of which there are none."""
    return {why: count for why, count in answer.get("heldBack", {}).items() if count}


def described(counts: Mapping[str, int] | None) -> str:
    """What ``heldBack`` of an answer says: ``2 quarantined, 1 in back-off``; an empty text if nothing is held back.

    A reason of a later release is described by its name.
    """
    reasons = (counts or {}).items()
    return ", ".join(f"{count} {_REASONS.get(why) or _in_words(why)}" for why, count in reasons if count)


def _in_words(name: str) -> str:
    """``openChildren`` -> ``open children``."""
    return re.sub("[A-Z]", lambda letter: f" {letter[0].lower()}", name)
