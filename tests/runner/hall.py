"""Runners and their agents, with the attempts that they make."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coordinator.client import Fleet
from coordinator.runner.loop import Runner
from coordinator.runner.options import Options, Selection
from coordinator.runner.protocols import Workspaces
from coordinator.runner.workspaces import Directories
from tests.client.backlog import context
from tests.support.fleets import RunningFleet


class Hall:
    """Runners in a directory of the test's own."""

    def __init__(self, running: RunningFleet, project: str, directory: Path) -> None:
        self._url, self._project = running.state.base_url, project
        self.state = directory / "state"
        self.work = directory / "work"
        self.work.mkdir()
        self.said: list[str] = []
        self.runner: Runner | None = None

    async def run(self, command: str, begun: Callable[[Runner], Any] | None = None, **more: Any) -> Runner:
        """Runs until the runner ends, by default because nothing is left of ``max_items``."""
        chosen = Selection(**more.pop("selection", {}))
        spaces: Workspaces = more.pop("workspaces", None) or Directories(str(self.work), min_free=0)
        given: dict[str, Any] = {"environment": dict(os.environ), "ttl": 10, "timeout": 60.0, "drain": 30.0} | more
        options = Options(command=("sh", "-c", command), state=self.state, selection=chosen, **given)
        async with Fleet(self._url, project=self._project, slots=options.slots, kind="external") as fleet:
            runner = self.runner = Runner(fleet, options, spaces, self.said.append)
            if begun is not None:
                asyncio.get_running_loop().call_soon(begun, runner)
            async with asyncio.timeout(60):
                await runner.run()
        return runner

    def told(self, words: str) -> bool:
        return any(words in line for line in self.said)

    def file(self, name: str) -> str:
        path = self.work / name
        return path.read_text() if path.exists() else ""


async def attempts(fleet: Fleet, item: str) -> int:
    return int((await context(fleet, item)).get("attempts", {"count": 0})["count"])
