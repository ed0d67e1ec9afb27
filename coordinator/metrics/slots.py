"""Slots: the names that processes of one host have, and the locks that say whose they are.

A process locks its slot for as long as it runs. Whoever starts processes reserves the slots first, so
that commands that start at the same moment take different ones, and a process that is started again
finds its slot free.
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
    """Makes this process the slot's owner: a descriptor that holds it until it is closed or the process ends.

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
    """Sets aside the first ``count`` slots that nobody has, for this process and those that it starts.

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
    """Whether no living process owns the slot or has set it aside."""
    if not directory.exists():
        return True
    with _reservation(directory, slot) as free:
        return free and _unowned(directory, slot)


def clear_free_slots(directory: Path) -> None:
    """Deletes the numbers of all slots that nobody owns: done once, when a supervisor starts."""
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
    """Sets the slot aside while the block runs; gives whether it could, since another process may have it set aside."""
    path = directory / f"{slot}.reserved"
    held = _lock(path)
    try:
        yield held is not None
    finally:
        if held is not None:
            path.unlink(missing_ok=True)
            os.close(held)


def _unowned(directory: Path, slot: str) -> bool:
    """Whether no living process owns the slot; the answer holds while the caller has the slot set aside."""
    path = directory / f"{slot}.lock"
    if not path.exists():
        return True
    held = _lock(path)
    if held is None:
        return False
    os.close(held)
    return True


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed or the process ends; None if another holds it."""
    while True:
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(held), os.stat(path)):
                return held
        except BlockingIOError:
            os.close(held)
            return None
        except FileNotFoundError:
            pass
        # Its last holder deleted it while we took it: what we have locked is no longer there to be found.
        os.close(held)
