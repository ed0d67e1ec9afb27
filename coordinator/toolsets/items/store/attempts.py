"""Attempts on an item, as scripts report them."""

from __future__ import annotations

from typing import NamedTuple


class AttemptRow(NamedTuple):
    """One attempt, as ``lua/claims/attempts.lua`` records it; times in ms."""

    began: int
    until: int
    ended: str
    agent: str
    reason: str
    detail: str


class AttemptRecord(NamedTuple):
    """The attempts on an item (``lua/reads/views.lua``)."""

    most: int | bool
    """How many it may have, 0: any number; False: it does not say."""
    counted: int
    """How many count."""
    held_until: int
    """When its back-off ends, in ms; 0: it has none."""
    last: list[AttemptRow]
    """The last ones, the last one first."""
