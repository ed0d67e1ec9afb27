"""A runner like that of ``fleet run``, but all that it waits for takes less than two seconds.

Arguments: the URL of the fleet, a project, a directory, and the command.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from coordinator.cli.runners.command import say
from coordinator.client import Fleet
from coordinator.runner.loop import Runner
from coordinator.runner.options import Options
from coordinator.runner.supervision import strays
from coordinator.runner.workspaces import Directories


async def main(url: str, project: str, directory: str, *command: str) -> None:
    strays.adopt()
    options = Options(command=command, state=Path(directory, "state"), environment=dict(os.environ), ttl=2)
    async with Fleet(url, project=project, kind="external") as fleet:
        runner = Runner(fleet, options, Directories(directory, min_free=0), say)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.stop)
        await runner.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
