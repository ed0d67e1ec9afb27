"""Ends a fleet from outside: one that runs on a data directory, or what is left of one that was killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from coordinator.linux import ON_LINUX, end_session, has_open, signal_if
from coordinator.metrics import slot_is_free
from coordinator.processes.errors import ProcessProblem
from coordinator.processes.fleetfile import Fleet, FleetFile, read_fleet, supervisor_of
from coordinator.processes.supervision.supervisor import KILL_SECONDS
from coordinator.store.embedded.server import LEAVE_SECONDS, orphaned, shut_down

_MARGIN_SECONDS = 15.0
ORPHAN_SECONDS = 10.0
"""How long processes of a killed supervisor may take to end by themselves before they are killed."""
_LOOK_SECONDS = 0.05


def stop_fleet(data_dir: Path, pid: int, wait: float | None, drain_seconds: int) -> None:
    """Tells a supervisor to stop, once, and waits for its end: a second signal would end its drain.

    Args:
        wait: seconds to wait for its end; None: what its drain, its store and a margin may take.
        drain_seconds: of a fleet that has not said yet how long its drain takes.

    Raises:
        ProcessProblem: it cannot be told, or does not end in time.
    """
    fleet = read_fleet(data_dir)
    if not (fleet is not None and fleet.pid == pid and fleet.stopping):
        try:
            signalled = signal_if(pid, signal.SIGTERM, lambda: supervisor_of(data_dir) == pid and _holds(pid, data_dir))
        except PermissionError:
            raise ProcessProblem(f"process {pid} cannot be signalled: run this as its user") from None
        if not signalled and supervisor_of(data_dir) == pid:
            raise ProcessProblem(
                f"the process {pid} that holds {data_dir} is not one of this machine or container: stop the fleet "
                "where it runs"
            )
    drain = fleet.drain_seconds if fleet is not None else drain_seconds
    bound = drain + KILL_SECONDS + LEAVE_SECONDS + _MARGIN_SECONDS if wait is None else wait
    if not _until(lambda: supervisor_of(data_dir) != pid, bound):
        raise ProcessProblem(
            f"the fleet on {data_dir} has been told to stop and still runs after {bound:.0f} s; "
            f"a second signal ends it at once: kill {pid}"
        )


def _holds(pid: int, data_dir: Path) -> bool:
    """Whether a process has the lock open; another one here may have the id that the holder has in its container."""
    return not ON_LINUX or has_open(pid, data_dir / "fleet.lock")


def clear(data_dir: Path, fleet: Fleet) -> None:
    """Ends what is left of a fleet whose supervisor was killed, and removes what it has written about itself.

    Raises:
        ProcessProblem: some of it still runs.
    """
    directory = Path(fleet.metrics_dir)

    def left() -> list[str]:
        return [process.slot for process in fleet.processes if not slot_is_free(directory, process.slot)]

    def ended() -> bool:
        return not left() and not orphaned(data_dir)

    for place in orphaned(data_dir):
        shut_down(place)
    if not _until(ended, ORPHAN_SECONDS):
        for one in fleet.processes:
            if one.pid is not None and one.slot in left():
                _kill(one.pid, directory / f"{one.slot}.lock")
        if not _until(ended, KILL_SECONDS):
            named = [*left(), *(f"the store in {place}" for place in orphaned(data_dir))]
            raise ProcessProblem(f"of an earlier fleet there still runs: {', '.join(named)}")
    try:
        FleetFile(data_dir).close()
    except ProcessProblem:  # the next fleet has been started
        pass


def _kill(pid: int, lock: Path) -> None:
    """Kills the process that holds the lock of a slot, with the commands that it has started."""
    if signal_if(pid, signal.SIGKILL, lambda: has_open(pid, lock)) and _until(lambda: not has_open(pid, lock), 1.0):
        end_session(pid)


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
