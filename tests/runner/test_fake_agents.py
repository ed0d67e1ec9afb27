"""Attempts with made-up agents that misbehave as real ones do, in worktrees: nothing keeps running, no work is lost."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from coordinator.runner import records, strays, watch
from coordinator.runner.options import Options
from coordinator.runner.presets import PRESETS
from coordinator.runner.stages import Access, AttemptRun, Report
from tests.runner.repositories import Place
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]
AGENTS = Path(__file__).parent / "agents"


@dataclass
class Job:
    """An item that nobody claims."""

    item: Mapping[str, Any] = field(default_factory=lambda: {"id": str(uuid.uuid4()), "title": "Write it"})
    notes: Sequence[Mapping[str, Any]] = ()
    results: Sequence[Mapping[str, Any]] = ()
    attempt: int = 1
    takeover: bool = False


class Bench:
    """Runs one agent in a worktree."""

    def __init__(self, top: Path) -> None:
        self.place = Place(top)
        self.said: list[str] = []
        self.run_ids: list[str] = []
        records.prepare(self.place.state)

    def begin(self, agent: str, preset: str, **more: Any) -> tuple[AttemptRun, records.Record]:
        job = Job()
        self.item_id = str(job.item["id"])
        options: dict[str, Any] = {"environment": {**os.environ, **self.place.environment}, "ttl": 2} | more
        record = records.begin(self.place.state, self.item_id, "Write it", job.attempt, set())
        self.run_ids.append(record.attempt.run_id)
        made = Options(command=(str(AGENTS / agent),), state=self.place.state, preset=PRESETS[preset], **options)
        access = Access("http://fleet:1", "p", "team/a", (), None)
        return AttemptRun(job, record, made, access, self.place.worktrees(), self.said.append), record

    async def run(self, agent: str, preset: str = "claude", **more: Any) -> Report:
        run, record = self.begin(agent, preset, **more)
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
        files = (self.place.state / "worktrees").rglob
        await wait_until(lambda: [one for one in files("work.txt") if one.stat().st_size])

    def has_work(self) -> bool:
        return f"work of {self.item_id}" in self.place.everything()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


DONE = ("works", "works-and-commits", "leaves-a-session", "reads-its-input", "floods-stderr", "writes-a-long-line")


@pytest.mark.parametrize("agent", DONE)
async def test_work_that_is_done(bench: Bench, agent: str) -> None:
    report = await bench.run(agent)
    assert (report.outcome.kind, report.outcome.reason) == ("done", "")
    assert report.result == "all done"
    assert bench.became.startswith("removed; branch fleet-")
    assert bench.has_work()
    assert not bench.running()
    assert report.note["costUsd"] == pytest.approx(0.002005)


async def test_the_runner_commits_for_an_agent_that_cannot(bench: Bench) -> None:
    report = await bench.run("codex-that-cannot-commit", "codex")
    assert (report.outcome.kind, report.note["commit"]) == (
        "done",
        bench.place.git("rev-parse", bench.place.branches()[0]),
    )
    assert bench.has_work()


@pytest.mark.parametrize(
    ("agent", "preset", "kind", "words"),
    [
        ("is-denied", "claude", "failed", "it was not permitted to: Bash curl"),
        ("opencode-that-is-denied", "opencode", "failed", "it was not permitted to: bash"),
        ("says-nothing", "claude", "failed", "without its final event"),
        ("says-nothing", "opencode", "failed", "without its final event"),
        ("says-nothing", "aider", "failed", "it changed nothing"),
        ("fails-with-173", "gemini", "later", "the provider's limit is reached: slow down"),
        ("is-unauthorized", "claude", "broken", "the provider refused the credentials"),
        ("is-overloaded", "claude", "later", "the provider failed: API Error: 529"),
        ("deletes-its-worktree", "claude", "failed", "was deleted or replaced"),
    ],
)
async def test_work_that_is_not_done(bench: Bench, agent: str, preset: str, kind: str, words: str) -> None:
    report = await bench.run(agent, preset)
    assert report.outcome.kind == kind
    assert words in report.outcome.reason
    assert not bench.running()
    if agent == "fails-with-173":
        assert report.outcome.retry_after_seconds == 90


@pytest.mark.parametrize("agent", ["ignores-signals", "ends-with-0-after-int", "relaunches", "guard-each-other"])
async def test_what_is_stopped_is_dead_and_its_work_is_committed(bench: Bench, agent: str) -> None:
    run, record = bench.begin(agent, "claude")
    task = asyncio.create_task(run.run())
    await bench.begun()
    run.stop("timeout")
    report = await task
    assert report.outcome.kind == "failed"
    assert (await run.close(False)).startswith("removed; branch fleet-")
    record.close()
    assert bench.has_work()
    assert not bench.running()


async def test_what_was_spent_is_told_by_an_interrupted_agent(bench: Bench) -> None:
    run, record = bench.begin("tells-its-cost-after-int", "claude")
    task = asyncio.create_task(run.run())
    await bench.begun()
    run.stop("drain")
    report = await task
    record.close()
    assert report.outcome.kind == "later"
    assert report.note["costUsd"] == pytest.approx(0.0010025)
    await run.close(False)


async def test_an_agent_that_stays_is_ended_and_has_succeeded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FINISHED_SECONDS", 0.05)
    assert (await bench.run("stays-after-its-result", timeout=10.0)).outcome.kind == "done"
    assert bench.has_work()
    assert not bench.running()


async def test_commits_on_a_detached_head_are_kept_with_the_worktree(bench: Bench) -> None:
    await bench.run("commits-on-a-detached-head")
    assert "HEAD is detached at" in bench.became
    assert bench.has_work()


async def test_a_lost_claim_keeps_the_work_where_it_is(bench: Bench) -> None:
    run, record = bench.begin("ignores-signals", "claude")
    task = asyncio.create_task(run.run())
    await bench.begun()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    became = await run.close(False)
    record.close()
    assert "1 file is not committed: work.txt" in became
    assert bench.has_work()
    assert not bench.running()
