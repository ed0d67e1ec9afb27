"""The programs in ``config/examples``, as a new user runs them: each in a process of its own, on one fleet."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from coordinator.client import Fleet, SyncFleet
from tests.runner.repositories import Place
from tests.support.fleets import ROOT, RunningFleet, environment, fleet_command
from tests.support.wait import wait_until_sync

EXAMPLES = ROOT / "config" / "examples"
AGENTS = ROOT / "tests" / "runner" / "agents"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="fleet run needs /proc")


def variables(running: RunningFleet, project: str, **more: str) -> dict[str, str]:
    return environment(FLEET_URL=running.state.base_url, FLEET_PROJECT=project, **more)


def test_every_example_is_run_by_a_test() -> None:
    text = Path(__file__).read_text()
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert {name for name in files if name not in text} == set()
    page = (EXAMPLES / "README.md").read_text()
    assert {name for name in files if f"({name})" not in page} == set()


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "agents" / "hosts").iterdir()), ids=lambda path: path.name)
def test_server_entries_are_named_by_their_page_and_have_one_form(path: Path) -> None:
    """``tests/runner/test_real_agents_hosts.py`` gives them to the real hosts."""
    assert f"(hosts/{path.name})" in (path.parents[1] / "README.md").read_text()
    entry: Any = tomllib.loads(path.read_text()) if path.suffix == ".toml" else json.loads(path.read_text())
    (servers,) = (value for name, value in entry.items() if name != "$schema")
    (server,) = servers.values()
    assert list(servers) == ["fleet"]
    assert "http://127.0.0.1:8420/mcp/worker" in (server.get("url"), server.get("httpUrl"))
    headers = server["http_headers" if path.name == "codex.toml" else "headers"]
    assert headers == {"Fleet-Agent": f"{path.stem.partition('-')[0]}-1"}


def test_step_tools_are_those_of_a_folder_in_pythonpath(tmp_path: Path) -> None:
    """step_tools/texts.py and step_tools/fleet.yaml."""
    folder = EXAMPLES / "step_tools"
    config = ("--config", str(folder / "fleet.yaml"))
    assert "texts:word_count cannot be used: ModuleNotFoundError" in fleet_command("flows", "tools", *config).stdout
    path = f"{folder}{os.pathsep}{ROOT}"
    flow = {
        "start": {"name": "count", "tool": "word_count", "args": {"text": "{{input.text}}"}, "next": "publish"},
        "publish": {
            "name": "publish",
            "tool": "publish",
            "args": {"title": "One", "counts": "{{steps.count.result}}"},
            "done": True,
        },
    }
    options = ("--port", "0", "--frontends", "1", "--workers", "1", *config)
    with RunningFleet(tmp_path / "data", *options, PYTHONPATH=path) as running:
        running.wait_ready()
        with SyncFleet(running.state.base_url) as fleet:
            result = fleet.flow("texts", flow, {"text": "two words"}).result()
    assert (result["title"], result["words"]) == ("One", 2)


def test_an_orchestrator_and_a_worker_finish_the_plan(running: RunningFleet, named: str, tmp_path: Path) -> None:
    """orchestrator.py with plan.md, and worker.py."""
    env = variables(running, named)
    with subprocess.Popen([sys.executable, str(EXAMPLES / "worker.py")], env=env) as worker:
        try:
            done = subprocess.run(
                [sys.executable, str(EXAMPLES / "orchestrator.py")],
                env=env,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith("planned ")
            assert re.search(r"[0-9a-f]{8}: work -> terminal", done.stdout)
            assert "{'words': 17}" in done.stdout.splitlines()[-1]
            # What it cannot do it asks, and goes on with other work.
            with SyncFleet(running.state.base_url, project=named, agent="boss") as fleet:
                made = fleet.call("manage_items", {"operation": "create", "items": [{"title": "?", "tags": "count"}]})
                item = made["items"][0]["id"]

                def role() -> bool:
                    return bool(fleet.call("query_items", {"operation": "get", "id": item})["role"] == "blocked")

                wait_until_sync(role, what="the question")
                listed = fleet.call("query_notes", {"operation": "list", "itemId": item})["notes"]
                assert [note["key"] for note in listed] == ["question-1"]
        finally:
            worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0


@LINUX
def test_a_shell_script_is_a_worker(running: RunningFleet, named: str, tmp_path: Path) -> None:
    """worker.sh, called by ``fleet run``."""
    with SyncFleet(running.state.base_url, project=named, agent="boss") as fleet:
        made = fleet.call(
            "manage_items",
            {"operation": "create", "items": [{"title": "t", "description": "one two three", "tags": "count"}]},
        )
        item = made["items"][0]["id"]
        command = ("run", "--tags", "count", "--max-items", "1", "--min-free", "0", "--state-dir", str(tmp_path))
        done = subprocess.run(
            [sys.executable, "-m", "coordinator", *command, "--", str(EXAMPLES / "worker.sh")],
            env=variables(running, named),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        notes = fleet.call("query_notes", {"operation": "list", "itemId": item})["notes"]
        found = {note["key"]: note["body"] for note in notes}
        assert json.loads(found["result"])["words"] > 3, "the prompt has the description, and more"
        assert found["counted"].startswith("by ")


@LINUX
def test_claude_code_as_a_fleet(running: RunningFleet, named: str, tmp_path: Path) -> None:
    """claude-fleet.sh, with a program that does what Claude Code does when it succeeds."""
    place = Place(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "claude").write_text(f'#!/bin/sh\nexec "{AGENTS}/works" "$@"\n')
    (programs / "fleet").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m coordinator "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    env = variables(
        running, named, PATH=f"{programs}:{os.environ['PATH']}", VERIFY="test -f work.txt", HOME=str(tmp_path)
    )
    with SyncFleet(running.state.base_url, project=named, agent="boss") as fleet:
        items = [{"title": f"change {n}", "tags": "code"} for n in range(3)]
        made = fleet.call("manage_items", {"operation": "create", "items": items})["items"]
        more = ("--tags", "code", "--max-items", "3", "--min-free", "0", "--state-dir", str(tmp_path / "state"))
        done = subprocess.run(
            [str(EXAMPLES / "claude-fleet.sh"), str(place.path), *more],
            env={**place.environment, **env},
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stderr
        for item in made:
            assert fleet.call("query_items", {"operation": "get", "id": item["id"]})["role"] == "terminal"
            branches = place.git("branch", "--list", f"fleet-{item['id'][:8]}-*", "--format=%(refname:short)").split()
            assert len(branches) == 1
            assert place.git("show", f"{branches[0]}:work.txt") == f"work of {item['id']}"
    usage = subprocess.run([str(EXAMPLES / "claude-fleet.sh")], capture_output=True, text=True, timeout=60)
    assert (usage.returncode != 0, "the repository" in usage.stderr) == (True, True)
    assert shutil.which("sh")


@pytest.mark.anyio
async def test_a_session_takes_items_by_itself(running: RunningFleet, named: str, fleet: Fleet) -> None:
    """claude.mcp.json, read as Claude Code reads it."""
    given = {"FLEET_URL": f"{running.state.base_url}/p/{named}"}

    def filled(value: str) -> str:
        return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: given.get(found[1], found[2]), value)

    entry: Any = json.loads((EXAMPLES / "claude.mcp.json").read_text())["mcpServers"]["fleet"]
    assert filled(entry["url"]).endswith("/mcp/worker")
    made = await fleet.call("manage_items", {"operation": "create", "items": [{"title": "one"}]})
    headers = {name: filled(value) for name, value in entry["headers"].items()}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(filled(entry["url"]), http_client=http)) as client,
    ):
        assert "work" in [prompt.name for prompt in (await client.list_prompts()).prompts]
        got: Any = (await client.call_tool("work_next", {})).structured_content
        assert got["item"]["id"] == made["items"][0]["id"]
        await client.call_tool("work_done", {"result": "done"})
    item = await fleet.call("query_items", {"operation": "get", "id": made["items"][0]["id"]})
    assert item["transitions"][0]["actor"]["id"] == "claude-1"
