"""The metrics of commands that do what callers do: they count with those of the fleet that runs on this host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from coordinator.metrics import Recording, SharedCells, install, reserved_slots
from coordinator.metrics.slots import owned
from coordinator.processes.supervision.running import metrics_dir
from coordinator.settings import Settings


@contextlib.contextmanager
def counted_by_fleet(settings: Settings) -> Iterator[None]:
    """Counts what happens in the block, if a fleet of this user runs here on the same data directory.

    Never fails for it. Another user, such as root, would leave files that the fleet cannot read.
    """
    directory = metrics_dir(settings)
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            if directory.stat().st_uid == os.geteuid() and owned(directory):
                (slot,) = held.enter_context(reserved_slots(directory, "command", 1))
                own = Recording(SharedCells(directory, slot), slot)
                held.callback(own.close)
                held.callback(install, install(own))
        yield
