"""``fleet stop``: ends the fleet that runs on a data directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.checks import check_range
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.processes.fleetfile import in_use, left_over, supervisor_of
from coordinator.processes.stopping import clear, stop_fleet
from coordinator.settings import LoadedSettings
from coordinator.settings.paths import is_of_another_user


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
) -> None:
    if wait is not None:
        check_range("--wait", wait, 0, 86_400)
    data_dir = Path(loaded.settings.data_dir)
    if is_of_another_user(data_dir):
        raise CommandFailed(
            f"the data directory {data_dir} belongs to another user: run this as that user", Exit.DATA_DIR
        )
    if (pid := supervisor_of(data_dir)) is not None:
        stop_fleet(data_dir, pid, wait, loaded.settings.drain_seconds)
        print(f"the fleet on {data_dir} has ended (process {pid})")
    elif in_use(data_dir):
        raise CommandFailed(f"a fleet on {data_dir} begins to start, or was started by an earlier version: try again")
    elif (fleet := left_over(data_dir)) is not None:
        clear(data_dir, fleet)
        print(f"the fleet on {data_dir} was killed before (process {fleet.pid}); nothing of it runs")
    else:
        print(f"no fleet runs on {data_dir}")
