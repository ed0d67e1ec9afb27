"""``fleet.json`` in the data directory: tells other commands which fleet runs there.

The lock file next to it shows whether that fleet still runs: the kernel releases it however the supervisor ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import IO

import msgspec

from coordinator.processes.errors import ProcessProblem
from coordinator.settings.paths import is_locked, is_of_another_user, make_own, own_file

_PAUSE_SECONDS = 0.001


class Process(msgspec.Struct, frozen=True):
    slot: str
    role: str
    pid: int | None
    """None while it is down and waits for its restart."""
    ready: bool


class Fleet(msgspec.Struct, frozen=True):
    """The content of ``fleet.json``. Holds no secrets."""

    pid: int
    """The supervisor's process id."""
    version: str
    base_url: str
    ready: bool
    """Whether the whole fleet has been ready."""
    started_at: str
    """ISO 8601, UTC."""
    metrics_dir: str
    store: str
    """``embedded``, or the URL without its password."""
    store_pid: int | None
    """The process id of the embedded server; None: there is none."""
    processes: tuple[Process, ...]
    admin_url: str = ""
    """Where /metrics and /readyz are."""
    stopping: bool = False
    """Whether it has been told to stop."""
    drain_seconds: int = 0
    """How long its processes may take to stop."""


class FleetFile:
    """The supervisor's side: one per data directory at a time.

    Raises:
        ProcessProblem: the directory can't be used, or another fleet uses it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "fleet.json"
        self._lock = _open_lock(data_dir)
        if not _locked(self._lock):
            self._lock.close()
            fleet = read_fleet(data_dir)
            who = f" (process {fleet.pid}, {fleet.base_url})" if fleet else ""
            raise ProcessProblem(
                f"the data directory {data_dir} is in use by a running fleet{who}: stop that one, or choose "
                "another directory (--data-dir or FLEET_DATA_DIR)",
                "data_dir",
            )
        self._lock.truncate(0)
        self._lock.write(f"{os.getpid()}\n")
        self._lock.flush()
        self.previous = _read(self._path)
        """The file of an earlier supervisor that was killed, if there is one."""

    def write(self, fleet: Fleet) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(fleet)) + b"\n")
        fresh.replace(self._path)

    def close(self) -> None:
        """Removes the file and releases the directory."""
        self._path.unlink(missing_ok=True)
        self.abandon()

    def abandon(self) -> None:
        """Gives up the directory and leaves the file, as the end of a supervisor that is killed does."""
        self._lock.close()


def read_fleet(data_dir: Path) -> Fleet | None:
    """The fleet that runs on a data directory, or None. Also None until a starting fleet has written its file."""
    return _read(data_dir / "fleet.json") if in_use(data_dir) else None


def in_use(data_dir: Path) -> bool:
    return not is_of_another_user(data_dir) and is_locked(data_dir / "fleet.lock")


def supervisor_of(data_dir: Path) -> int | None:
    """The process id of the fleet that runs on a data directory, as it has written it; None: no fleet runs there."""
    with contextlib.suppress(OSError, ValueError):
        if in_use(data_dir):
            return int((data_dir / "fleet.lock").read_text(encoding="ascii"))
    return None


def left_over(data_dir: Path) -> Fleet | None:
    """The fleet of a data directory that was killed; None: one runs there, or the last one has ended as it should."""
    fleet = None if in_use(data_dir) or is_of_another_user(data_dir) else _read(data_dir / "fleet.json")
    # It may have been started meanwhile.
    return None if in_use(data_dir) else fleet


def _open_lock(data_dir: Path) -> IO[str]:
    try:
        make_own(data_dir)
        return open(data_dir / "fleet.lock", "a", encoding="ascii", opener=own_file)
    except OSError as error:
        at = f" ({error.filename})" if error.filename and str(error.filename) != str(data_dir) else ""
        raise ProcessProblem(
            f"the data directory {data_dir} cannot be used: {error.strerror}{at}; choose another one "
            "(--data-dir or FLEET_DATA_DIR)",
            "data_dir",
        ) from None


def _locked(lock: IO[str]) -> bool:
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            pass
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        # No fleet holds the lock, but a command that only looks for a fleet (``read_fleet``) does. Release our shared
        # lock and try again; two supervisors that kept theirs would deadlock.
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(_PAUSE_SECONDS)


def _read(path: Path) -> Fleet | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Fleet)
    except (OSError, msgspec.DecodeError):
        return None
