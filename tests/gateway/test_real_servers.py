"""A fleet in front of MCP servers as others publish them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.fleet import Agent, GatewayFleet, Json, importing, link
from tests.gateway.published import FASTMCP, items
from tests.support import real_servers
from tests.support.fleets import fleet_command
from tests.support.programs import needs
from tests.support.wait import wait_until_sync


def called(agent: Agent, capability: str, **arguments: Any) -> Any:
    """The result of an imported tool."""
    answer = agent.start("proxy_default", capability=capability, arguments=arguments)
    assert answer["context"].get("lastResult") is not None, answer
    return answer["context"]["lastResult"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with a file that is not committed."""
    needs("git")
    place = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", "-b", "main", place], check=True)
    for key, value in (("user.name", "ana"), ("user.email", "ana@example.org")):
        subprocess.run(["git", "-C", place, "config", key, value], check=True)
    (place / "notes.txt").write_text("first\n")
    return place


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[GatewayFleet]:
    directory = tmp_path_factory.mktemp("served")
    connections = {
        "git": real_servers.stdio("mcp-server-git", "--repository", str(repository)),
        "time": real_servers.stdio("mcp-server-time", "--local-timezone", "UTC"),
        "sqlite": real_servers.stdio("mcp-server-sqlite", "--db-path", str(directory / "data.db")),
        "fast": FASTMCP,
    }
    hold: Json = {
        "kind": "mcp", "connection": "fast", "tool": "hold", "map": {"path": str(directory / "held")},
    }  # fmt: skip
    moves = {"go": {"target": "done", "executor": hold}}
    holding = {"initialState": "ready", "states": {"ready": {"transitions": moves}, "done": {"terminal": True}}}
    with importing(directory, connections, holding=holding) as served:
        yield served


@pytest.fixture
def agent(served: GatewayFleet) -> Agent:
    return served.agent()


def test_no_tool_is_left_out_without_a_reason(served: GatewayFleet, agent: Agent) -> None:
    items(agent, "git.git_commit", "time.convert_time", "sqlite.read_query", "fast.grow")
    at = ("--data-dir", str(served.fleet.data_dir), "--config", str(served.file))
    left_out = json.loads(fleet_command("gateway", "tools", "--left-out", "--json", *at).stdout)
    assert [one["tool"] for one in left_out] == []
    listed = json.loads(fleet_command("gateway", "tools", "--json", *at).stdout)
    assert {one["capability"] for one in listed} == {name for name in items(agent) if name != "holding"}


def test_a_file_is_committed(agent: Agent, repository: Path) -> None:
    found = items(agent, "git.git_commit", "git.git_add")
    assert "available" not in found["git.git_commit"]
    place = str(repository)
    assert "notes.txt" in json.dumps(called(agent, "git.git_status", repo_path=place))
    called(agent, "git.git_add", repo_path=place, files=["notes.txt"])
    called(agent, "git.git_commit", repo_path=place, message="Write it down")
    logged = subprocess.run(["git", "-C", place, "log", "--format=%s"], capture_output=True, text=True, check=True)
    assert logged.stdout == "Write it down\n"


def test_a_tool_that_fails_says_why(agent: Agent) -> None:
    items(agent, "time.convert_time")
    given = {"source_timezone": "Nowhere/None", "time": "12:00", "target_timezone": "UTC"}
    calling = {"capability": "time.convert_time", "arguments": given}
    refused = agent.refused("workflow.start", definitionId="proxy_default", input=calling)
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    assert "Nowhere/None" in refused["error"]["message"]


def test_rows_are_written_and_read(agent: Agent) -> None:
    items(agent, "sqlite.write_query", "sqlite.create_table", "sqlite.read_query")
    called(agent, "sqlite.create_table", query="CREATE TABLE notes (text TEXT)")
    called(agent, "sqlite.write_query", query="INSERT INTO notes VALUES ('first')")
    assert "first" in json.dumps(called(agent, "sqlite.read_query", query="SELECT text FROM notes"))


def test_a_long_answer_is_read_whole(agent: Agent) -> None:
    items(agent, "sqlite.read_query")
    given = {"capability": "sqlite.read_query", "arguments": {"query": "SELECT hex(zeroblob(150000)) AS zeros"}}
    answer = agent("workflow.start", definitionId="proxy_default", input=given)
    cut = answer["context"]["lastResult"]
    text, link = "", next(one for one in answer["links"] if one["rel"] == "result")
    while link is not None:
        page = agent(link["method"], **link["args"])
        text, link = text + page["text"], next((one for one in page["links"] if one["rel"] == "next"), None)
    assert cut == {"truncated": True, "bytes": len(text), "beginning": text[:16_384]}
    assert "0" * 300_000 in text


def test_a_new_tool_is_found(agent: Agent) -> None:
    items(agent, "fast.grow")
    called(agent, "fast.grow", name="new")
    assert "fast.new" in items(agent, "fast.new")


def test_a_call_is_cancelled(served: GatewayFleet) -> None:
    asking = served.agent(served.human)
    task = asking.begun("workflow.submit", **link(asking.start("holding"), "go"))
    held = served.file.with_name("held")
    wait_until_sync(held.with_name("held.begun").exists, what="the call")
    asking.task(task, "cancel")
    wait_until_sync(held.with_name("held.cancelled").exists, what="the cancellation at the server")


def test_an_answer_that_is_too_long_fails_its_own_call(served: GatewayFleet) -> None:
    agent = served.agent()
    items(agent, "fast.read")
    log, gate = served.file.with_name("reads"), served.file.with_name("reads.gate")
    log.touch()

    def held(agent: Agent) -> Any:
        return called(agent, "fast.read", size=10, log=str(log), gate=str(gate))

    with ThreadPoolExecutor(1) as pool:
        # On both workers, so some of them are under way over the session that gets the answer.
        others = pool.submit(served.together, 4, held)
        wait_until_sync(lambda: len(log.read_text().splitlines()) == 4, what="the other calls")
        calling = {"capability": "fast.read", "arguments": {"size": 12_000_000, "log": str(log)}}
        refused = agent.refused("workflow.start", definitionId="proxy_default", input=calling)
        assert "was carried out, but its answer cannot be used: it has more than" in refused["error"]["message"]
        gate.touch()
        assert [one["result"] for one in others.result()] == ["\u00e9x" * 5] * 4


@pytest.fixture(scope="module")
def from_npm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFleet]:
    directory = tmp_path_factory.mktemp("npm")
    connections = {
        "everything": real_servers.npm("mcp-server-everything"),
        "files": real_servers.npm("mcp-server-filesystem", str(directory)),
        "memory": real_servers.npm("mcp-server-memory", env={"MEMORY_FILE_PATH": str(directory / "memory.jsonl")}),
        "thinking": real_servers.npm("mcp-server-sequential-thinking"),
    }
    with importing(directory, connections) as served:
        yield served


@pytest.mark.servers
@pytest.mark.skipif(not real_servers.INSTALLED, reason=real_servers.REASON)
def test_servers_from_npm(from_npm: GatewayFleet) -> None:
    agent = from_npm.agent()
    at = ("--data-dir", str(from_npm.fleet.data_dir), "--config", str(from_npm.file))
    items(agent, "everything.echo", "files.write_file", "memory.create_entities", "thinking.sequentialthinking")
    left_out = json.loads(fleet_command("gateway", "tools", "--left-out", "--json", *at).stdout)
    assert all("taskSupport: required" in one["reason"] for one in left_out), left_out
    assert "hello" in json.dumps(called(agent, "everything.echo", message="hello"))
    file = from_npm.file.with_name("note.txt")
    called(agent, "files.write_file", path=str(file), content="written")
    assert file.read_text() == "written"
    entity = {"name": "ana", "entityType": "person", "observations": ["writes"]}
    called(agent, "memory.create_entities", entities=[entity])
    assert "writes" in json.dumps(called(agent, "memory.read_graph"))
    thought = {"thought": "one", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    assert "thoughtHistoryLength" in json.dumps(called(agent, "thinking.sequentialthinking", **thought))
