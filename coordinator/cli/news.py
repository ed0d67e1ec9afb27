"""What a process hears when the settings were read again."""

from __future__ import annotations

import msgspec

from coordinator.settings import Settings


class News(msgspec.Struct, frozen=True):
    """What came of reading the settings again."""

    at: str
    settings: Settings | None
    """As just read; None: they are wrong, and the old ones stay in force."""
    problem: str = ""
    restart: tuple[str, ...] = ()
    """Names of settings that differ from those of the start and take effect at the next one."""
