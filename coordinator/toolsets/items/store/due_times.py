"""What items say about time, as scripts report it."""

from __future__ import annotations

from typing import NamedTuple


class DueTimes(NamedTuple):
    """What an item says about time (``lua/reads/views.lua``); times in ms."""

    not_before: int
    """0: nothing."""
    due: str
    """When it is due; of a template '+' and how long after each of its times; '': nothing."""
    overdue: bool
    """Whether it is open, and that has passed."""
    recurs: str
    """Of a template: how it recurs, as stored; '' for others."""
    after: int
    """Of a template: its next time is after this, the later of now and up to when its times have been dealt with; 0 for
    others."""
    recurrence_of: str
    """The id of the template that it is an occurrence of; '': of none."""
