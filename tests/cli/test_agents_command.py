"""``fleet agents``: the list, drains of agents over a running fleet, and what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from coordinator.store import Store
from tests.items.client import Client
from tests.support.fleets import MCP_HEADERS, Http, RunningFleet, call_body, fleet_command, once
from tests.support.wait import wait_until_sync


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("agents")
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "3", "--workers", "0") as running:
        running.wait_ready()
        yield running


def agents(fleet: RunningFleet, *words: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    done = fleet_command("agents", *words, "--data-dir", str(fleet.data_dir))
    return done.returncode, done.stdout + done.stderr


def claim(fleet: RunningFleet, agent: str, claim: dict[str, Any], **more: Any) -> Any:
    """A claim on a connection of its own, so that any process may get it."""
    call = {"actor": {"id": agent, "kind": "subagent"}, "requestId": str(uuid.uuid4()), "claims": [claim], **more}
    with Http(fleet.port) as client:
        return client.call("claim_item", **call)["claimResults"][0]


def wait_for_nothing(fleet: RunningFleet, agent: str, project: str = "default") -> str:
    """A claim that waits for what does not come; the answer, a stream of events, as text."""
    call = {"actor": {"id": agent, "kind": "subagent"}, "requestId": str(uuid.uuid4()), "waitMs": 45_000}
    with Http(fleet.port) as client:
        body = call_body("claim_item", {**call, "claims": [{"selector": {"tags": "none"}}]})
        client.connection.request("POST", f"/p/{project}/mcp/items", body, MCP_HEADERS)
        return client.connection.getresponse().read().decode()


def ended_as_said(fleet: RunningFleet, said: str) -> str:
    """What the command prints that a drain has named as the one that ends it."""
    assert "; `fleet agents undrain " in said
    return agents(fleet, *shlex.split(said.split("`")[1])[2:])[1]


def new_item(fleet: RunningFleet, **fields: Any) -> str:
    with Http(fleet.port) as client:
        made = client.call("manage_items", operation="create", items=[{"title": "x", **fields}])
    return str(made["items"][0]["id"])


def test_a_drain_over_a_running_fleet(fleet: RunningFleet) -> None:
    item = new_item(fleet)
    assert claim(fleet, "bot/1", {"itemId": item}, capabilities=["gpu"])["outcome"] == "success"
    code, said = agents(fleet)
    assert code == 0
    first, last = said.splitlines()
    assert first.startswith(f"bot/1  subagent, unverified, holds {item} since ")
    assert first.endswith("; can gpu")
    assert last == "project default: 1 agent, 1 live claim, 0 waiting claims, 0 drains"
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(wait_for_nothing, fleet, f"bot/{n}") for n in range(2, 8)]
        wait_until_sync(lambda: "6 waiting claims" in agents(fleet)[1], what="all to wait")
        code, said = agents(fleet, "drain", "bot")
        assert code == 0
        assert "bot claims no more in project default; 6 waiting claims answered" in said
        assert f"bot/1 still holds {item} until " in said
        assert all('"outcome":"agent_draining"' in one.result(timeout=20) for one in waiting)
    assert claim(fleet, "bot/9", {"selector": {}})["outcome"] == "agent_draining"
    assert claim(fleet, "bot/1", {"itemId": item})["stop"] is True
    # It outlasts every process.
    slots = ("fe-0", "fe-1", "fe-2")
    before = {slot: fleet.pid(slot) for slot in slots}
    for pid in before.values():
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    wait_until_sync(lambda: all(fleet.pid(slot) not in (None, before[slot]) for slot in slots), what="new front-ends")

    def ready() -> bool:
        with contextlib.suppress(OSError):
            return once(fleet.port, "/readyz")[0] == 200
        return False

    wait_until_sync(ready, what="one to be ready")
    assert claim(fleet, "bot/1", {"itemId": item})["stop"] is True
    found = json.loads(agents(fleet, "--json")[1])
    assert [one["name"] for one in found["drains"]] == ["bot"]
    assert all(one["draining"] for one in found["agents"])
    again = json.loads(agents(fleet, "drain", "bot/", "--json")[1])
    assert (again["drained"], again["begun"], again["answered"]) == ("bot", False, 0)
    assert {"bot/1", "bot/2"} <= {one["id"] for one in again["agents"]}
    assert agents(fleet, "undrain", "bot") == (0, "bot may claim again in project default\n")
    assert agents(fleet, "undrain", "bot") == (1, "bot: it was not drained in project default\n")
    assert "stop" not in claim(fleet, "bot/1", {"itemId": item})


def test_agents_that_wait_where_nobody_has_written_are_drained(fleet: RunningFleet) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(wait_for_nothing, fleet, "bot", "empty")
        wait_until_sync(lambda: "1 waiting claim" in agents(fleet, "--project", "empty")[1], what="it to wait")
        code, said = agents(fleet, "drain", "bot", "--project", "empty")
        assert (code, "bot claims no more in project empty; 1 waiting claim answered" in said) == (0, True), said
        assert '"outcome":"agent_draining"' in waiting.result(timeout=20)
    assert ended_as_said(fleet, said) == "bot may claim again in project empty\n"


def test_unknown_names_and_projects(fleet: RunningFleet) -> None:
    new_item(fleet)
    code, said = agents(fleet, "drain", "nobody yet")
    assert (code, "no agent of that name was seen in the last day" in said) == (0, True)
    assert ended_as_said(fleet, said) == "nobody yet may claim again in project default\n"
    for words in (("drain", "bot", "--project", "nope"), ("--project", "nope")):
        code, said = agents(fleet, *words)
        assert (code, "there is no project nope" in said) == (2, True), said
    code, said = agents(fleet, "drain", " ")
    assert (code, "NAME: must be 1 to 500 characters" in said) == (2, True), said
    assert agents(fleet, "drain")[0] == 2
    assert agents(fleet, "evict", "bot")[0] == 2


@pytest.mark.anyio
async def test_all_pages_are_listed(store: Store, project: str, redis_url: str) -> None:
    tools = Client(store, project)
    items = await tools.add_many(450)
    for n, item in enumerate(items):
        await tools.claim(f"a-{n}\x1b", item)
    done = fleet_command("agents", "--project", project, "--redis-url", redis_url)
    lines = done.stdout.splitlines()
    assert lines[-1] == f"project {project}: 450 agents, 450 live claims, 0 waiting claims, 0 drains"
    assert {line.split("  ")[0] for line in lines[:-1]} == {f"a-{n}?" for n in range(450)}
