"""The outcome of a reload, which a supervisor passes on to its processes."""

from __future__ import annotations

import msgspec

from coordinator.settings import Settings


class ReloadOutcome(msgspec.Struct, frozen=True):
    """The outcome of reading the settings again."""

    at: str
    settings: Settings | None
    """The new settings; None: they are wrong, and the old ones stay in force."""
    problem: str = ""
    restart: tuple[str, ...] = ()
    """The names of changed settings that take effect only at the next start."""
