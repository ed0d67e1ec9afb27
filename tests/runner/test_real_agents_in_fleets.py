"""Whole runners with the real ``claude`` and ``codex`` at a fleet, and the examples for Claude Code."""

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
from tests.runner.real_agents import NAMES, WORK, command
from tests.support.fleets import RunningCommand, RunningFleet
from tests.support.wait import wait_until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.agents,
    pytest.mark.skipif(not real_agents.INSTALLED, reason=real_agents.REASON),
]
TOKENS: list[str] = []
"""Of runners that may delegate claims."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    """Asks callers with tokens who they are, and serves those without one."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = Tokens(folder / "tokens.yaml")
    TOKENS.append(tokens.add("run", permissions=("items", "items.delegate")))
    config = folder / "fleet.yaml"
    config.write_text(json.dumps({"auth": {"mode": "optional", "tokens": str(tokens.path)}}))
    options = ("--port", "0", "--frontends", "1", "--workers", "0", "--config", str(config))
    with RunningFleet(folder / "data", *options) as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.mark.parametrize("name", NAMES)
async def test_an_agent_notes_and_asks_with_the_token_of_its_claim(
    running: RunningFleet, real_bench: Bench, name: str, tmp_path: Path
) -> None:
    token = TOKENS[-1]
    text = (
        f'{WORK}CALL: work_note {{"key": "found", "body": "something"}}\nCALL: work_ask {{"question": "red or blue?"}}'
    )
    url = running.state.base_url
    async with Fleet(url, token, agent="run") as fleet:
        item = {"title": "Paint it", "description": text, "tags": name}
        made = await fleet.call("manage_items", {"operation": "create", "items": [item]})
        item_id = made["items"][0]["id"]
        words = (
            "run",
            "--tags",
            name,
            "--mcp",
            "--worktree",
            str(real_bench.place.path),
            "--min-free",
            "0",
            "--ttl",
            "60",
        )
        state = ("--state-dir", str(tmp_path / "state"), "--", *command(name))
        env = {**real_bench.place.environment, "FLEET_URL": url, "FLEET_TOKEN": token}
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
    assert f"work of {item_id}" in real_bench.place.everything()


EXAMPLES = Path(__file__).parents[2] / "config" / "examples"


async def test_the_example_of_a_claude_code_fleet(
    running: RunningFleet, fleet: Fleet, named: str, real_bench: Bench, tmp_path: Path
) -> None:
    items = await add(fleet, "first", "second", description=WORK)
    await chain(fleet, *items)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").symlink_to(real_agents.program("claude"))
    environment = {
        **real_bench.place.environment,
        "PATH": os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "FLEET_URL": running.state.base_url,
        "FLEET_PROJECT": named,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "VERIFY": "grep -q work work.txt",
        "ALLOWED": "Bash",
    }
    words = [str(EXAMPLES / "claude-fleet.sh"), str(real_bench.place.path), "--max-items", "2", "--min-free", "0"]
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert out.count(b" done after ") == 2
    assert {f"work of {item}" for item in items} <= real_bench.place.everything()
    assert len(real_bench.place.branches()) == 2


async def test_the_example_of_a_session_that_takes_items_by_itself(
    running: RunningFleet, real_bench: Bench, fleet: Fleet, named: str
) -> None:
    config = json.loads((EXAMPLES / "claude.mcp.json").read_text())
    config["mcpServers"]["fleet"]["url"] = config["mcpServers"]["fleet"]["url"].replace("/mcp/", f"/p/{named}/mcp/")
    (item,) = await add(fleet, "first")
    words = [real_agents.program("claude"), "-p", "--allowedTools", "mcp__fleet", "--mcp-config", json.dumps(config)]
    environment = {**real_bench.place.environment, "FLEET_URL": running.state.base_url}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, env=environment, cwd=real_bench.place.path, stdin=pipe, stdout=pipe
    )
    said = 'CALL: work_next {"waitMs": 0}\nCALL: work_done {"result": "by itself"}\nSAY: ended'
    out, _ = await process.communicate(said.encode())
    assert out.strip() == b"ended"
    assert (await notes(fleet, item))["result"] == "by itself"
