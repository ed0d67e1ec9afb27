"""What a supervisor tells its processes when it has read the settings again."""

from __future__ import annotations

import msgspec

from coordinator.settings import Settings


class ReloadOutcome(msgspec.Struct, frozen=True):
    """The outcome of reading the settings again."""

    at: str
    settings: Settings | None
    """As just read; None: they are wrong, and the old ones stay in force."""
    problem: str = ""
    restart: tuple[str, ...] = ()
    """Names of settings that differ from those of the start and take effect at the next one."""
