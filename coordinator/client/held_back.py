"""Items that nobody works on, in words: why they are not offered, and how they were left."""

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


def left(failed: int, most: int, back_off: str) -> str:
    """Of an item that was begun, and that nobody holds: ``failed, 2 attempts left``, ``in back-off until ...``, or
    ``given back``.

    Args:
        failed: attempts that count.
        most: how many it may have; 0: any number.
        back_off: until when it is in back-off; empty: it is not.
    """
    if back_off:
        return f"in back-off until {back_off}"
    if not failed:
        return "given back"
    rest = max(most - failed, 0)
    return f"failed, {rest or 'no'} attempt{'' if rest == 1 else 's'} left" if most else "failed"
