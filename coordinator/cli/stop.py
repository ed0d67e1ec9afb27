"""``fleet stop``: ends the fleet that runs on a data directory."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.fleetfile import Fleet, FleetFile, in_use, left_over, read_fleet, supervisor_of
from coordinator.cli.supervision.supervisor import KILL_SECONDS
from coordinator.linux import ON_LINUX, end_session, has_open, signal_if
from coordinator.metrics import slot_is_free
from coordinator.settings import LoadedSettings
from coordinator.settings.paths import is_of_another_user
from coordinator.store.embedded import LEAVE_SECONDS, orphaned, shut_down

_MARGIN_SECONDS = 15.0
ORPHAN_SECONDS = 10.0
"""How long processes of a killed supervisor may take to end by themselves before they are killed."""
_LOOK_SECONDS = 0.05


@with_settings(only=("data_dir",))
def stop(
    loaded: LoadedSettings,
    *,
    wait: Annotated[
        float | None,
        Parameter(
            help="Seconds to wait for its end. Default: what its drain, its store and a margin may take. [0 to 86400]"
        ),
    ] = None,
) -> int:
    if wait is not None:
        check_range("--wait", wait, 0, 86_400)
    data_dir = Path(loaded.settings.data_dir)
    if is_of_another_user(data_dir):
        raise CommandFailed(
            f"the data directory {data_dir} belongs to another user: run this as that user", Exit.DATA_DIR
        )
    if (pid := supervisor_of(data_dir)) is not None:
        _end(data_dir, pid, wait, loaded.settings.drain_seconds)
        print(f"the fleet on {data_dir} has ended (process {pid})")
    elif in_use(data_dir):
        raise CommandFailed(f"a fleet on {data_dir} begins to start, or was started by an earlier version: try again")
    elif (fleet := left_over(data_dir)) is not None:
        _clear(data_dir, fleet)
        print(f"the fleet on {data_dir} was killed before (process {fleet.pid}); nothing of it runs")
    else:
        print(f"no fleet runs on {data_dir}")
    return Exit.OK


def _end(data_dir: Path, pid: int, wait: float | None, drain_seconds: int) -> None:
    """Tells a supervisor to stop, once, and waits for its end: a second signal would end its drain.

    Args:
        drain_seconds: of a fleet that has not said yet how long its drain takes.
    """
    fleet = read_fleet(data_dir)
    if not (fleet is not None and fleet.pid == pid and fleet.stopping):
        try:
            told = signal_if(pid, signal.SIGTERM, lambda: supervisor_of(data_dir) == pid and _holds(pid, data_dir))
        except PermissionError:
            raise CommandFailed(f"process {pid} cannot be signalled: run this as its user") from None
        if not told and supervisor_of(data_dir) == pid:
            raise CommandFailed(
                f"the process {pid} that holds {data_dir} is not one of this machine or container: stop the fleet "
                "where it runs"
            )
    drain = fleet.drain_seconds if fleet is not None else drain_seconds
    bound = drain + KILL_SECONDS + LEAVE_SECONDS + _MARGIN_SECONDS if wait is None else wait
    if not _until(lambda: supervisor_of(data_dir) != pid, bound):
        raise CommandFailed(
            f"the fleet on {data_dir} has been told to stop and still runs after {bound:.0f} s; "
            f"a second signal ends it at once: kill {pid}"
        )


def _holds(pid: int, data_dir: Path) -> bool:
    """Whether a process has the lock open; another one here may have the id that the holder has in its container."""
    return not ON_LINUX or has_open(pid, data_dir / "fleet.lock")


def _clear(data_dir: Path, fleet: Fleet) -> None:
    """Ends what is left of a fleet whose supervisor was killed, and removes what it has written about itself."""
    directory = Path(fleet.metrics_dir)

    def left() -> list[str]:
        return [one.slot for one in fleet.processes if not slot_is_free(directory, one.slot)]

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
            raise CommandFailed(f"of an earlier fleet there still runs: {', '.join(named)}")
    try:
        FleetFile(data_dir).close()
    except CommandFailed:  # the next fleet has been started
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
