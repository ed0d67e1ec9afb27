"""Slots: the names of the processes on one host, and the locks that show which are in use.

A process locks its slot while it runs. A command that starts processes reserves their slots first. So commands that
start at the same moment take different slots, and a process that is restarted finds its slot free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from coordinator.metrics.hot import SUFFIX


class SlotBusy(Exception):
    """Another living process owns the slot."""


def own(directory: Path, slot: str) -> int:
    """Makes this process the slot's owner; returns a descriptor that holds the slot while it is open.

    Raises:
        SlotBusy: if a living process owns it.
        OSError: if the directory can't be written.
    """
    held = _lock(directory / f"{slot}.lock")
    if held is None:
        raise SlotBusy(f"another process is running as {slot} (see {directory})")
    return held


@contextlib.contextmanager
def reserved_slots(directory: Path, prefix: str, count: int) -> Iterator[list[str]]:
    """Reserves the first ``count`` free slots, for this process and those that it starts.

    Raises:
        OSError: if the directory can't be written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    slots: list[str] = []
    with contextlib.ExitStack() as held:
        number = 0
        while len(slots) < count:
            slot = f"{prefix}-{number}"
            number += 1
            with contextlib.ExitStack() as trying:
                if trying.enter_context(_reservation(directory, slot)) and _unowned(directory, slot):
                    slots.append(slot)
                    held.push(trying.pop_all())
        yield slots


def slot_is_free(directory: Path, slot: str) -> bool:
    """Whether no living process owns the slot or has reserved it."""
    if not directory.exists():
        return True
    with _reservation(directory, slot) as free:
        return free and _unowned(directory, slot)


def owned(directory: Path) -> list[str]:
    """The slots that living processes own; none if the directory is closed to this user."""
    try:
        return sorted(path.stem for path in directory.glob("*.lock") if not _unowned(directory, path.stem))
    except PermissionError:
        return []


def clear_free_slots(directory: Path) -> None:
    """Deletes the numbers of all slots that nobody owns; called once, when a supervisor starts."""
    for slot in sorted({path.stem for path in directory.glob("*.lock")}):
        with _reservation(directory, slot) as free:
            if free and _unowned(directory, slot):
                _delete(directory, f"*_{slot}.db", f"*_{slot}.new", slot + SUFFIX, f"{slot}.lock")


def forget_gauges(directory: Path, slot: str) -> None:
    """Deletes the gauges and hottest items of a process that has died; its counters stay."""
    _delete(directory, f"gauge_*_{slot}.db", slot + SUFFIX)


def _delete(directory: Path, *patterns: str) -> None:
    for pattern in patterns:
        for path in directory.glob(pattern):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _reservation(directory: Path, slot: str) -> Iterator[bool]:
    """Reserves the slot while the block runs; gives False if another process has reserved it."""
    path = directory / f"{slot}.reserved"
    held = _lock(path)
    try:
        yield held is not None
    finally:
        if held is not None:
            path.unlink(missing_ok=True)
            os.close(held)


def _unowned(directory: Path, slot: str) -> bool:
    """Whether no living process owns the slot. The answer stays true while the caller has the slot reserved."""
    path = directory / f"{slot}.lock"
    if not path.exists():
        return True
    held = _lock(path)
    if held is None:
        return False
    os.close(held)
    return True


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed or the process ends; None if another holds it, or may."""
    while True:
        try:
            held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError:
            if path.exists():  # of another user: only that one can tell
                return None
            raise
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(held), os.stat(path)):
                return held
        except BlockingIOError:
            os.close(held)
            return None
        except FileNotFoundError:
            pass
        # Its last holder deleted the file between our open and our lock, so others would not find our lock: again.
        os.close(held)
