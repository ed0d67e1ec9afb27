"""Attempts that run in worktrees of a real repository, without a fleet."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.runner import records
from coordinator.runner.options import Options
from coordinator.runner.presets import PRESETS, SCRIPT
from coordinator.runner.stages import Access, AttemptReport, AttemptRun
from coordinator.runner.supervision import strays
from coordinator.runner.workspaces.hooks import NONE
from tests.runner.repositories import Place
from tests.support.wait import wait_until


class Hurried(Options):
    """Ends commands as soon as its short claims make it, however long a busy machine holds this process up."""

    @property
    def silence(self) -> float:
        return 60.0


@dataclass
class Job:
    """An item that nobody claims."""

    item: Mapping[str, Any]
    notes: Sequence[Mapping[str, Any]] = ()
    results: Sequence[Mapping[str, Any]] = ()
    attempt: int = 1
    takeover: bool = False


class Bench:
    """Runs one command at a time in a worktree."""

    def __init__(self, top: Path) -> None:
        self.place = Place(top)
        self.said: list[str] = []
        self.run_ids: list[str] = []
        records.prepare(self.place.state)

    def begin(
        self, command: Sequence[str], preset: str, text: str = "", **more: Any
    ) -> tuple[AttemptRun, records.RunRecord]:
        job = Job({"id": str(uuid.uuid4()), "title": "Write it", "description": text})
        self.item_id = str(job.item["id"])
        options: dict[str, Any] = {"environment": {**os.environ, **self.place.environment}, "ttl": 2} | more
        where = {"repository": options.pop("repository")} if "repository" in options else {}
        spaces = self.place.worktrees(hooks=options.pop("hooks", NONE), **where)
        record = records.begin(self.place.state, self.item_id, "Write it", job.attempt, set())
        self.run_ids.append(record.attempt.run_id)
        made = Hurried(command=tuple(command), state=self.place.state, preset=PRESETS.get(preset, SCRIPT), **options)
        access = Access("http://fleet:1", "p", "team/a", (), None)
        return AttemptRun(job, record, made, access, spaces, self.said.append), record

    async def run(self, command: Sequence[str], preset: str = "claude", text: str = "", **more: Any) -> AttemptReport:
        run, record = self.begin(command, preset, text, **more)
        try:
            report = await run.run()
            self.became = await run.close(report.outcome.kind == "done")
            return report
        finally:
            record.close()

    def running(self) -> list[int]:
        """What still runs of it."""
        return strays.kill(self.run_ids)

    async def begun(self) -> None:
        """Waits until the agent has done some work."""
        files = self.place.files
        await wait_until(lambda: any(one.name == "work.txt" and one.stat().st_size for one in files()))

    def has_work(self) -> bool:
        return f"work of {self.item_id}" in self.place.everything()
