"""The outcome of a reload, which a supervisor passes on to its processes."""

from __future__ import annotations

import msgspec

from coordinator.settings import Settings


class ReloadOutcome(msgspec.Struct, frozen=True):
    """The outcome of rereading the settings."""

    at: str
    settings: Settings | None
    """The new settings; None: they are invalid, and the old ones stay in force."""
    problem: str = ""
    restart: tuple[str, ...] = ()
    """The names of changed settings that take effect only at the next start."""
