"""Attempts with the real ``claude`` and ``codex``, whose model is a stand-in on loopback."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.runner import real_agents
from tests.runner.attempts import Bench
from tests.runner.model import Model
from tests.runner.real_agents import NAMES, WORK, command
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.agents,
    pytest.mark.skipif(not real_agents.INSTALLED, reason=real_agents.REASON),
]


@pytest.mark.parametrize("name", NAMES)
async def test_an_item_is_done(real_bench: Bench, model: Model, name: str) -> None:
    report = await real_bench.run(command(name), name, f"{WORK}SAY: it is written")
    assert (report.outcome.kind, report.outcome.reason) == ("done", "")
    assert report.result == "it is written"
    assert real_bench.has_work()
    assert "removed; branch" in real_bench.became
    note = report.note
    assert note["commit"] == real_bench.place.git("rev-parse", real_bench.place.branches()[0])
    assert note["session"]
    assert note["inputTokens"] >= 200
    assert note["outputTokens"] >= 40
    assert (note["costUsd"] is None) == (name == "codex")
    # The prompt came on stdin, with the item's text between its marks.
    said = json.dumps(model.requests[0])
    assert "Write it" in said
    assert "==== " in said
    assert not real_bench.running()


async def test_the_runner_commits_where_the_sandbox_of_codex_forbids_it(real_bench: Bench) -> None:
    report = await real_bench.run(command("codex"), "codex", f"{WORK}RUN: git add -A && git commit -m mine")
    assert report.outcome.kind == "done"
    assert real_bench.has_work()
    assert real_bench.place.git("log", "-1", "--format=%s %an", real_bench.place.branches()[0]) == "Write it w-1"


async def test_claude_commits_by_itself(real_bench: Bench) -> None:
    report = await real_bench.run(command("claude"), "claude", f"{WORK}RUN: git add -A && git commit -m mine")
    assert report.outcome.kind == "done"
    assert real_bench.place.git("log", "-1", "--format=%s", real_bench.place.branches()[0]) == "mine"


async def test_a_denied_tool_is_a_failure(real_bench: Bench) -> None:
    report = await real_bench.run([real_agents.program("claude")], "claude", "RUN: curl http://127.0.0.1:1/")
    assert (report.outcome.kind, report.outcome.reason) == (
        "failed",
        "it was not permitted to: Bash curl http://127.0.0.1:1/",
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("status", "kind"), [(401, "broken"), (429, "later"), (500, "later")])
async def test_refusals_and_failures_of_the_provider(real_bench: Bench, name: str, status: int, kind: str) -> None:
    report = await real_bench.run(command(name), name, f"{WORK}STATUS: {status}")
    assert (report.outcome.kind, report.outcome.pauses) == (kind, True), report.outcome
    assert real_bench.has_work()  # what it had done before is committed
    assert not real_bench.running()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("then", ["RUN: tail -f /dev/null", "WAIT"])
async def test_what_is_stopped_in_a_tool_or_a_call_is_dead(
    real_bench: Bench, model: Model, name: str, then: str
) -> None:
    run, record = real_bench.begin(command(name), name, f"{WORK}{then}", ttl=60)
    task = asyncio.create_task(run.run())
    await real_bench.begun()
    await wait_until(lambda: len(model.requests) >= 2)
    run.stop("drain")
    report = await task
    record.close()
    assert report.outcome.kind == "later"
    await run.close(False)
    assert real_bench.has_work()
    assert not real_bench.running()
    if name == "claude" and then != "WAIT":
        assert report.note["costUsd"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["claude", "--no-such-flag"], "unknown option"),
        (["codex", "--no-such-flag"], "unexpected argument"),
    ],
)
async def test_wrong_arguments_are_told(real_bench: Bench, words: list[str], said: str) -> None:
    report = await real_bench.run([real_agents.program(words[0]), *words[1:]], words[0])
    assert report.outcome.kind == "broken"
    assert said in report.outcome.reason
