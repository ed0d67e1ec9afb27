"""Attempts with the real ``claude`` and ``codex``, whose model is a stand-in on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner import real_agents
from tests.runner.attempts import Bench
from tests.runner.model import Model
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.agents,
    pytest.mark.skipif(not real_agents.INSTALLED, reason=real_agents.REASON),
]
WORK = 'RUN: echo "work of $FLEET_ITEM_ID" > work.txt\n'
NAMES = ("claude", "codex")


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture
def bench(tmp_path: Path, model: Model) -> Bench:
    bench = Bench(tmp_path)
    bench.place.environment |= real_agents.environment(tmp_path / "home", model)
    return bench


def command(name: str, *more: str) -> list[str]:
    allowed = ["--allowedTools", "Bash", *more] if name == "claude" else list(more)
    return [real_agents.program(name), *allowed]


@pytest.mark.parametrize("name", NAMES)
async def test_an_item_is_done(bench: Bench, model: Model, name: str) -> None:
    report = await bench.run(command(name), name, f"{WORK}SAY: it is written")
    assert (report.outcome.kind, report.outcome.reason) == ("done", "")
    assert report.result == "it is written"
    assert bench.has_work()
    assert "removed; branch" in bench.became
    note = report.note
    assert note["commit"] == bench.place.git("rev-parse", bench.place.branches()[0])
    assert note["session"]
    assert note["inputTokens"] >= 200
    assert note["outputTokens"] >= 40
    assert (note["costUsd"] is None) == (name == "codex")
    # The prompt came on stdin, with the item's text between its marks.
    said = json.dumps(model.requests[0])
    assert "Write it" in said
    assert "==== " in said
    assert not bench.running()


async def test_the_runner_commits_where_the_sandbox_of_codex_forbids_it(bench: Bench) -> None:
    report = await bench.run(command("codex"), "codex", f"{WORK}RUN: git add -A && git commit -m mine")
    assert report.outcome.kind == "done"
    assert bench.has_work()
    assert bench.place.git("log", "-1", "--format=%s %an", bench.place.branches()[0]) == "Write it w-1"


async def test_claude_commits_by_itself(bench: Bench) -> None:
    report = await bench.run(command("claude"), "claude", f"{WORK}RUN: git add -A && git commit -m mine")
    assert report.outcome.kind == "done"
    assert bench.place.git("log", "-1", "--format=%s", bench.place.branches()[0]) == "mine"


async def test_a_denied_tool_is_a_failure(bench: Bench) -> None:
    report = await bench.run([real_agents.program("claude")], "claude", "RUN: curl http://127.0.0.1:1/")
    assert (report.outcome.kind, report.outcome.reason) == (
        "failed",
        "it was not permitted to: Bash curl http://127.0.0.1:1/",
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("status", "kind"), [(401, "broken"), (429, "later"), (500, "later")])
async def test_refusals_and_failures_of_the_provider(bench: Bench, name: str, status: int, kind: str) -> None:
    report = await bench.run(command(name), name, f"{WORK}STATUS: {status}")
    assert (report.outcome.kind, report.outcome.pauses) == (kind, True), report.outcome
    assert bench.has_work()  # what it had done before is committed
    assert not bench.running()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("then", ["RUN: tail -f /dev/null", "WAIT"])
async def test_what_is_stopped_in_a_tool_or_a_call_is_dead(bench: Bench, model: Model, name: str, then: str) -> None:
    run, record = bench.begin(command(name), name, f"{WORK}{then}", ttl=60)
    task = asyncio.create_task(run.run())
    await bench.begun()
    await wait_until(lambda: len(model.requests) >= 2)
    run.stop("drain")
    report = await task
    record.close()
    assert report.outcome.kind == "later"
    await run.close(False)
    assert bench.has_work()
    assert not bench.running()
    if name == "claude" and then != "WAIT":
        assert report.note["costUsd"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["claude", "--no-such-flag"], "unknown option"),
        (["codex", "--no-such-flag"], "unexpected argument"),
    ],
)
async def test_wrong_arguments_are_told(bench: Bench, words: list[str], said: str) -> None:
    report = await bench.run([real_agents.program(words[0]), *words[1:]], words[0])
    assert report.outcome.kind == "broken"
    assert said in report.outcome.reason
