"""Paths and URLs in settings: makes paths absolute, opens files safely, and says what the URL of a Redis may be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from coordinator.settings.problems import SettingsError, is_text, short, shown

# ``coordinator.store.address`` reads such URLs part by part.
REDIS_PATTERN = r"^((rediss?(\+(sentinel|cluster))?|unix)://\S+)?\Z"
REDIS_ALLOWED = "empty or a redis[s]://, redis[s]+sentinel://, redis[s]+cluster:// or unix:// URL"

Locate = Callable[[str], str]
"""Makes the path in a setting absolute. Raises SettingsError: it is not a path."""


def located(written: str, base: Path, where: str) -> Path:
    """The absolute path; ``~`` is a user's home, and a relative path starts at ``base``.

    Args:
        where: the place of the path, for messages.

    Raises:
        SettingsError: it cannot be the path of a file.
    """
    try:
        path = Path(written).expanduser()
    except RuntimeError:  # what pathlib raises for an unknown user
        user = short(written.partition("/")[0])
        raise SettingsError([f"{where} must be a path, not {shown(written)}: {user} is nobody's home here"]) from None
    if "\0" in written:
        raise SettingsError([f"{where} must be a path, not {shown(written)}: no file can have this name"])
    whole = (base / path).absolute()
    if not is_text(str(whole)):
        raise SettingsError([f"{where} must be a path in UTF-8, not {shown(str(whole))}"])
    return whole


def unblocked(path: str, flags: int) -> int:
    """An ``opener`` for ``open`` that never blocks: otherwise, opening a pipe could wait forever for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)
