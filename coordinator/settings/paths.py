"""Paths and URLs in settings: makes paths absolute, opens files safely, and says what the URL of a Redis may be."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from coordinator.settings.problems import SettingsError, is_text, short, shown

# ``coordinator.store.link.address`` reads such URLs part by part.
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


def is_of_another_user(directory: Path) -> bool:
    """Whether another user than this one and root owns a directory, and so what is in it."""
    try:
        return directory.stat().st_uid not in (0, os.geteuid())
    except OSError:  # whoever uses it learns why
        return False


def make_own(directory: Path) -> None:
    """Creates a directory for this user alone, unless it is there.

    Raises:
        OSError: it cannot be, or is of another user.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_of_another_user(directory):
        raise PermissionError(errno.EPERM, "it belongs to another user", str(directory))


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file of this user at once: whoever reads it gets the old content or the new one.

    Raises:
        OSError: it cannot be, or its directory is of another user.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    make_own(path.parent)
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError:  # a full disk; whoever tries again would leave a file each time
        fresh.unlink(missing_ok=True)
        raise


def own_file(path: str, flags: int) -> int:
    """An ``opener`` for ``open`` of files in a directory that others may be able to write to.

    Raises:
        OSError: it is a link, no regular file, or of another user.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid()) and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EPERM, "it is no file of this user alone", path)


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock. Those who take it try again, because this holds it for a moment."""
    try:
        with open(path, encoding="ascii", opener=own_file) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
