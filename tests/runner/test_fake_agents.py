"""Attempts with made-up agents that misbehave as real ones do, in worktrees: nothing keeps running, no work is lost."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from coordinator.runner import watch
from coordinator.runner.workspaces import Hooks
from tests.runner.attempts import Bench
from tests.support.wait import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]
AGENTS = Path(__file__).parent / "agents"


def agent(name: str) -> list[str]:
    return [str(AGENTS / name)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


DONE = ("works", "works-and-commits", "leaves-a-session", "reads-its-input", "floods-stderr", "writes-a-long-line")


@pytest.mark.parametrize("name", DONE)
async def test_work_that_is_done(bench: Bench, name: str) -> None:
    report = await bench.run(agent(name))
    assert (report.outcome.kind, report.outcome.reason) == ("done", "")
    assert report.result == "all done"
    assert bench.became.startswith("removed; branch fleet-")
    assert bench.has_work()
    assert not bench.running()
    assert report.note["costUsd"] == pytest.approx(0.002005)


async def test_the_runner_commits_for_an_agent_that_cannot(bench: Bench) -> None:
    report = await bench.run(agent("codex-that-cannot-commit"), "codex")
    assert (report.outcome.kind, report.note["commit"]) == (
        "done",
        bench.place.git("rev-parse", bench.place.branches()[0]),
    )
    assert bench.has_work()


@pytest.mark.parametrize(
    ("name", "preset", "kind", "words"),
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
async def test_work_that_is_not_done(bench: Bench, name: str, preset: str, kind: str, words: str) -> None:
    report = await bench.run(agent(name), preset)
    assert report.outcome.kind == kind
    assert words in report.outcome.reason
    assert not bench.running()
    if name == "fails-with-173":
        assert report.outcome.retry_after_seconds == 90


@pytest.mark.parametrize("name", ["ignores-signals", "ends-with-0-after-int", "relaunches", "guard-each-other"])
async def test_what_is_stopped_is_dead_and_its_work_is_committed(bench: Bench, name: str) -> None:
    run, record = bench.begin(agent(name), "claude")
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
    run, record = bench.begin(agent("tells-its-cost-after-int"), "claude")
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
    assert (await bench.run(agent("stays-after-its-result"))).outcome.kind == "done"
    assert bench.has_work()
    assert not bench.running()


async def test_commits_on_a_detached_head_are_brought_to_the_branch(bench: Bench) -> None:
    await bench.run(agent("commits-on-a-detached-head"))
    assert bench.became.startswith("removed; branch fleet-")
    assert bench.has_work()


async def test_a_lost_claim_keeps_the_work_where_it_is(bench: Bench) -> None:
    run, record = bench.begin(agent("ignores-signals"), "claude")
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


async def test_a_stop_ends_a_set_up_that_runs(bench: Bench, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    run, record = bench.begin(agent("works"), "claude", hooks=Hooks(setup=f"touch {begun}; exec tail -f /dev/null"))
    task = asyncio.create_task(run.run())
    await wait_until(begun.exists)
    run.stop("drain")
    assert (await task).outcome.kind == "later"
    assert await run.close(False) == ""
    record.close()
    assert bench.place.branches() == []
    assert not bench.running()


async def test_a_kill_ends_a_commit_that_hangs_and_its_work_is_kept(bench: Bench, tmp_path: Path) -> None:
    begun, hook = tmp_path / "begun", bench.place.path / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\ntouch {begun}\nexec tail -f /dev/null\n")
    hook.chmod(0o755)
    run, record = bench.begin(agent("works"), "claude")
    task = asyncio.create_task(run.run())
    await wait_until(begun.exists)
    run.kill()
    assert (await task).outcome.kind == "later"
    assert "1 file is not committed: work.txt" in await run.close(False)
    record.close()
    assert bench.has_work()
    assert not bench.running()
