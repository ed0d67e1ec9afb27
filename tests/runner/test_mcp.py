"""`--mcp`: a command works with the tools of the toolset worker, with a token for its claim or as its agent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.client import Fleet
from coordinator.runner.loop import Runner
from coordinator.runner.options import Options
from coordinator.runner.presets import SCRIPT
from coordinator.runner.workspaces import Directories
from tests.authentication.support import Tokens
from tests.client.backlog import add, notes, seen
from tests.support.fleets import RunningFleet

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

AGENT = """
import json, os, sys, urllib.request

server = json.load(open(os.environ["FLEET_MCP_CONFIG"]))["mcpServers"]["fleet"]
headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18", **server["headers"]}

def call(tool, **arguments):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    request = urllib.request.Request(server["url"], json.dumps(message).encode(), headers)
    text = urllib.request.urlopen(request, timeout=20).read().decode()
    text = text.partition("data: ")[2] if text.startswith("event") else text
    return json.loads(text)["result"]["structuredContent"]

with open("saw.json", "w") as file:
    json.dump({"next": call("work_next"), "headers": sorted(server["headers"])}, file)
call("work_note", key="progress", body="half")
for tool, arguments in json.loads(sys.argv[1]):
    call(tool, **arguments)
"""

CREDENTIALS = {"anonymous": ""}
"""The bearer tokens of runners."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    """Asks callers with tokens who they are, and serves those without one."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = Tokens(folder / "tokens.yaml")
    CREDENTIALS["token"] = tokens.add("runner", permissions=("items", "items.delegate"))
    CREDENTIALS["poor"] = tokens.add("poor", permissions=("items",))
    config = folder / "fleet.yaml"
    config.write_text(json.dumps({"auth": {"mode": "optional", "tokens": str(tokens.path)}}))
    options = ("--port", "0", "--frontends", "1", "--workers", "0", "--config", str(config))
    with RunningFleet(folder / "data", *options) as fleet:
        fleet.wait_ready()
        yield fleet


class Desk:
    """Runs one item."""

    def __init__(self, running: RunningFleet, project: str, directory: Path, token: str) -> None:
        self._url, self._project, self._token = running.state.base_url, project, token
        self.place = directory
        self.said: list[str] = []

    async def run(self, *calls: tuple[str, dict[str, Any]]) -> Runner:
        command = (sys.executable, "-c", AGENT, json.dumps(calls))
        options = Options(
            command=command,
            state=self.place / "state",
            environment=dict(os.environ),
            preset=SCRIPT,
            mcp=True,
            ttl=10,
            max_items=1,
        )
        async with Fleet(self._url, self._token, self._project, kind="external") as fleet:
            runner = Runner(fleet, options, Directories(str(self.place), min_free=0), self.said.append)
            await runner.run()
        return runner


@pytest.fixture(params=["token", "anonymous"])
def desk(request: pytest.FixtureRequest, guarded: RunningFleet, named: str, tmp_path: Path) -> Desk:
    return Desk(guarded, named, tmp_path, CREDENTIALS[request.param])


@pytest.fixture
async def people(guarded: RunningFleet, named: str) -> Any:
    async with Fleet(guarded.state.base_url, "", named) as fleet:
        yield fleet


async def test_a_command_sees_its_item_and_writes_notes(desk: Desk, people: Fleet) -> None:
    item, other = await add(people, "mine", "other")
    await desk.run()
    saw = json.loads((desk.place / "saw.json").read_text())
    assert saw["next"]["item"]["id"] == item
    assert (await notes(people, item))["progress"] == "half"
    assert (await seen(people, item))["role"] == "terminal"
    assert (await seen(people, other))["role"] == "queue"
    assert any("done after" in line for line in desk.said)


def kinds(desk: Desk) -> list[str]:
    """What came of each attempt."""
    return [line.split(" ", 2)[1] for line in desk.said if " after " in line]


async def test_a_question_blocks_the_item(desk: Desk, people: Fleet) -> None:
    (asked,) = await add(people, "asked")
    await desk.run(("work_ask", {"question": "Which colour?"}))
    assert (await seen(people, asked))["role"] == "blocked"
    assert kinds(desk) == ["blocked"]


@pytest.mark.parametrize("desk", ["anonymous"], indirect=True)
async def test_what_a_command_reports_without_a_token_is_taken(desk: Desk, people: Fleet) -> None:
    done, failed = await add(people, "done", "failed")
    await desk.run(("work_done", {"result": "by tool"}))
    assert (await notes(people, done))["result"] == "by tool"
    await desk.run(("work_failed", {"reason": "no way"}))
    found = await people.call("get_context", {"itemId": failed})
    assert found["attempts"]["count"] == 1
    assert kinds(desk) == ["done", "failed"]


@pytest.mark.parametrize("desk", ["token"], indirect=True)
async def test_a_token_for_a_claim_completes_nothing(desk: Desk, people: Fleet) -> None:
    """Verification would be passed by."""
    (item,) = await add(people, "mine")
    await desk.run(("work_done", {"result": "by tool"}))
    assert (await seen(people, item))["role"] == "work"
    assert kinds(desk) == ["failed"]


async def test_a_runner_that_may_make_no_tokens_stops(
    guarded: RunningFleet, people: Fleet, named: str, tmp_path: Path
) -> None:
    (item,) = await add(people, "mine")
    runner = await Desk(guarded, named, tmp_path, CREDENTIALS["poor"]).run()
    assert "items.delegate" in runner.broken
    found = await people.call("get_context", {"itemId": item})
    assert "attempts" not in found
