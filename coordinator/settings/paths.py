"""Paths as people write them in settings, made absolute; and files that they name, opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from coordinator.settings.problems import SettingsError, is_text, short, shown

Locate = Callable[[str], str]
"""Makes the path that a setting states absolute. Raises SettingsError: it can't be one."""


def located(written: str, base: Path, where: str) -> Path:
    """The absolute path; ``~`` is somebody's home, and a relative path starts at ``base``.

    Args:
        where: says what states the path.

    Raises:
        SettingsError: no file can be called so.
    """
    try:
        path = Path(written).expanduser()
    except RuntimeError:  # it has no other for this
        user = short(written.partition("/")[0])
        raise SettingsError([f"{where} must be a path, not {shown(written)}: {user} is nobody's home here"]) from None
    if "\0" in written:
        raise SettingsError([f"{where} must be a path, not {shown(written)}: no file can be called so"])
    whole = (base / path).absolute()
    if not is_text(str(whole)):
        raise SettingsError([f"{where} must be a path in UTF-8, not {shown(str(whole))}"])
    return whole


def unblocked(path: str, flags: int) -> int:
    """An ``opener`` for ``open`` that returns at once: opening a pipe would wait for a writer, for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
