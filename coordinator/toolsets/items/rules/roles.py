"""Roles, triggers and status labels (README.md, 'Roles and triggers'), and the codes that scripts use for them."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.errors import invalid
from coordinator.toolsets.items.field_types.base import PHASES

ROLE_NAMES = ("queue", "work", "review", "terminal", "blocked")
ROLE_CODES = {name: code for code, name in enumerate(ROLE_NAMES)}
PRIORITY_NAMES = ("high", "medium", "low")
PRIORITY_CODES = {name: code for code, name in enumerate(PRIORITY_NAMES)}

DEFAULT_LABELS: Mapping[str, str] = {
    "start": "in-progress",
    "complete": "done",
    "block": "blocked",
    "cancel": "cancelled",
    "cascade": "done",
}


def phase_of(letter: str) -> str:
    """The phase of a note's stored letter."""
    return next(phase for phase in PHASES if phase[0] == letter)


def one_of(value: str, allowed: tuple[str, ...], field: str) -> str:
    """``value`` in lower case if it is allowed.

    Raises:
        ToolFailure: VALIDATION_ERROR naming what is.
    """
    lowered = value.lower()
    if lowered not in allowed:
        raise invalid(field, f"'{value[:64]}' is not one of {', '.join(allowed)}")
    return lowered
