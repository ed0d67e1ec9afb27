"""Attempts with the real ``claude`` and ``codex``, whose model is a stand-in on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.client import Fleet
from tests.authentication.support import Tokens
from tests.client.backlog import add, chain, notes
from tests.runner import real_agents
from tests.runner.attempts import Bench
from tests.runner.model import Model
from tests.support.fleets import RunningCommand, RunningFleet
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


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningFleet, str]]:
    """A fleet that wants tokens, and that of a runner."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = Tokens(folder / "tokens.yaml")
    token = tokens.add("run", permissions=("items", "items.delegate"))
    config = folder / "fleet.yaml"
    config.write_text(json.dumps({"auth": {"tokens": str(tokens.path), "mode": "required"}}))
    options = ("--port", "0", "--frontends", "1", "--workers", "1", "--config", str(config))
    with RunningFleet(folder / "data", *options) as fleet:
        fleet.wait_ready()
        yield fleet, token


@pytest.mark.parametrize("name", NAMES)
async def test_an_agent_notes_and_asks_with_the_token_of_its_claim(
    guarded: tuple[RunningFleet, str], bench: Bench, name: str, tmp_path: Path
) -> None:
    running, token = guarded
    text = (
        f'{WORK}CALL: work_note {{"key": "found", "body": "something"}}\nCALL: work_ask {{"question": "red or blue?"}}'
    )
    url = running.state.base_url
    async with Fleet(url, token, agent="run") as fleet:
        item = {"title": "Paint it", "description": text, "tags": name}
        made = await fleet.call("manage_items", {"operation": "create", "items": [item]})
        item_id = made["items"][0]["id"]
        words = ("run", "--tags", name, "--mcp", "--worktree", str(bench.place.path), "--min-free", "0", "--ttl", "60")
        state = ("--state-dir", str(tmp_path / "state"), "--", *command(name))
        env = {**bench.place.environment, "FLEET_URL": url, "FLEET_TOKEN": token}
        with RunningCommand(tmp_path / "runner", *words, *state, **env) as runner:

            async def asked() -> bool:
                found = await fleet.call("query_items", {"operation": "get", "id": item_id})
                return bool(found["role"] == "blocked")

            await wait_until(asked, what="a question")
            await wait_until(lambda: "workspace" in runner.stdout)
        notes = await fleet.call("query_notes", {"operation": "list", "itemId": item_id, "includeBody": True})
    bodies = {note["key"]: note["body"] for note in notes["notes"]}
    assert bodies["found"] == "something"
    assert any("red or blue?" in body for body in bodies.values())
    logs = [path.read_text(errors="replace") for path in (tmp_path / "state").rglob("*.*") if path.is_file()]
    assert token not in "".join([*logs, runner.stdout, runner.stderr])
    assert "blocked after" in runner.stdout
    assert "workspace removed; branch" in runner.stdout
    assert f"work of {item_id}" in bench.place.everything()


EXAMPLES = Path(__file__).parents[2] / "config" / "examples"


async def test_the_example_of_a_claude_code_fleet(
    running: RunningFleet, fleet: Fleet, named: str, bench: Bench, tmp_path: Path
) -> None:
    items = await add(fleet, "first", "second", description=WORK)
    await chain(fleet, *items)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").symlink_to(real_agents.program("claude"))
    environment = {
        **bench.place.environment,
        "PATH": os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "FLEET_URL": running.state.base_url,
        "FLEET_PROJECT": named,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "VERIFY": "grep -q work work.txt",
        "ALLOWED": "Bash",
    }
    words = [str(EXAMPLES / "claude-fleet.sh"), str(bench.place.path), "--max-items", "2", "--min-free", "0"]
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert out.count(b" done after ") == 2
    assert {f"work of {item}" for item in items} <= bench.place.everything()
    assert len(bench.place.branches()) == 2


async def test_the_example_of_a_session_that_takes_items_by_itself(
    running: RunningFleet, bench: Bench, fleet: Fleet, named: str
) -> None:
    config = json.loads((EXAMPLES / "claude.mcp.json").read_text())
    config["mcpServers"]["fleet"]["url"] = config["mcpServers"]["fleet"]["url"].replace("/mcp/", f"/p/{named}/mcp/")
    (item,) = await add(fleet, "first")
    words = [real_agents.program("claude"), "-p", "--allowedTools", "mcp__fleet", "--mcp-config", json.dumps(config)]
    environment = {**bench.place.environment, "FLEET_URL": running.state.base_url}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, env=environment, cwd=bench.place.path, stdin=pipe, stdout=pipe
    )
    said = 'CALL: work_next {"waitMs": 0}\nCALL: work_done {"result": "by itself"}\nSAY: ended'
    out, _ = await process.communicate(said.encode())
    assert out.strip() == b"ended"
    assert (await notes(fleet, item))["result"] == "by itself"
