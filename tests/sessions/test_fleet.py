"""Sessions over real front-ends, real clients, and a restart of everything in the middle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import TextContent

from coordinator.definitions import Definitions, Library, LoadedWorkflow
from coordinator.store.embedded.server import EmbeddedServer
from tests.sessions.client import Answer
from tests.sessions.shown import forged, unsigned
from tests.sessions.walk import Walk
from tests.support.fleets import RunningCommand
from tests.support.workflows import roots

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def root() -> Path:
    """The set of definitions whose workflow is the longest."""

    def longest(root: Path) -> int:
        return max(len(workflow.activities) for workflow in Definitions([root], 0).current.workflows.values())

    return max(roots(), key=longest)


def checkpoints(workflow: LoadedWorkflow) -> int:
    """How many checkpoints a whole walk answers."""
    return sum(len(one.activity.checkpoints) for one in workflow.activities.values())


class Front:
    """A front-end process. Each call has its own client, so that none outlives its server."""

    def __init__(self, command: RunningCommand) -> None:
        self.command = command
        self.base = command.wait_ready().split("ready at ")[1].split()[0].removesuffix("/mcp")

    async def call(self, name: str, **arguments: Any) -> Answer:
        given = {key: one for key, one in arguments.items() if one is not None}
        async with Client(self.base + "/mcp/sessions", mode="2026-07-28") as client:
            result = await client.call_tool(name, given)
        (content,) = result.content
        assert isinstance(content, TextContent)
        body: Any = result.structured_content or {}
        if result.is_error:
            return Answer(content.text, {}, body["error"]["code"], body["error"].get("retryAfterMs"))
        if body:
            assert json.loads(content.text) == body
        return Answer(content.text, dict(result.meta or {}), result=body)


class Fleet:
    """Two front-end processes and a store that can be restarted."""

    def __init__(self, directory: Path, workflows: Path) -> None:
        self.directory = directory
        self.store = EmbeddedServer(directory / "store", fsync="always")
        self.environment = {
            "FLEET_SESSION_WORKFLOWS": str(workflows),
            "FLEET_MIN_CHECKPOINT_RESPONSE_SECONDS": "0",
        }
        self.fronts: list[Front] = []
        self.generation = 0
        self.calls = 0

    def start(self) -> None:
        url = self.store.start()
        self.generation += 1
        commands = [
            RunningCommand(
                self.directory / f"front-{self.generation}-{number}",
                *("serve", "--port", "0", "--frontends", "1", "--data-dir", str(self.directory / "data")),
                FLEET_REDIS_URL=url,
                **self.environment,
            )
            for number in range(2)
        ]
        self.fronts = [Front(command) for command in commands]

    def stop(self) -> None:
        for front in self.fronts:
            front.command.clean_up()
        self.store.stop()

    def restart(self) -> None:
        """Restarts every process, including the store."""
        self.stop()
        self.start()

    def call(self, name: str, **arguments: Any) -> Awaitable[Answer]:
        """Calls the front-ends in turn."""
        self.calls += 1
        return self.fronts[self.calls % 2].call(name, **arguments)


@pytest.fixture(scope="module")
def library() -> Library:
    return Definitions([root()], 0).current


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("sessions"), root())
    fleet.start()
    yield fleet
    fleet.stop()


@pytest.mark.chaos
async def test_a_whole_session_over_two_front_ends_and_a_restart(fleet: Fleet, library: Library) -> None:
    """Everything is restarted half way, while a checkpoint is pending. (test_walks.py walks the long ones.)"""
    workflow = min((one for one in library.workflows.values() if checkpoints(one) >= 4), key=checkpoints)
    half = checkpoints(workflow) // 2
    before = fleet.generation

    async def between(answered: int) -> None:
        if answered == half:
            fleet.restart()

    walk = await Walk(fleet.call, workflow.id, between).run()
    assert walk.warnings == []
    assert set(walk.activities) == set(workflow.activities)
    assert walk.checkpoints == checkpoints(workflow)
    assert walk.completed
    assert fleet.generation == before + 1


async def test_twenty_answers_race_through_two_front_ends(fleet: Fleet, library: Library) -> None:
    workflow, activity, asked = next(
        (workflow, name, checkpoint)
        for workflow in library.workflows.values()
        for name, one in workflow.activities.items()
        for checkpoint in one.activity.checkpoints
        if len(checkpoint.options) > 1
    )
    started = await fleet.call("start_session", agent_id="orchestrator", workflow_id=workflow.id)
    moved = await fleet.call("next_activity", session_token=started["session_token"], activity_id=activity)
    handle = (await fleet.call("yield_checkpoint", session_token=moved.token, checkpoint_id=asked.id)).token
    answers = await asyncio.gather(
        *(
            fleet.call("respond_checkpoint", checkpoint_handle=handle, option_id=asked.options[n % 2].id)
            for n in range(20)
        )
    )
    (won,) = [answer for answer in answers if not answer.error]
    lost = [answer for answer in answers if answer.error]
    assert {answer.error for answer in lost} == {"checkpoint_closed"}
    assert all(f"already resolved with option '{won['resolved_option']}'" in answer.text for answer in lost)


async def test_invalid_tokens_over_the_wire(fleet: Fleet, library: Library) -> None:
    name = next(iter(library.workflows))
    token = (await fleet.call("start_session", agent_id="orchestrator", workflow_id=name))["session_token"]
    for bad in (token[:-1], token[1:], forged(token, act="x"), unsigned(token), "x", "x" * 100_000, "é.é"):
        for tool in ("get_workflow", "get_workflow_status"):
            refused = await fleet.call(tool, session_token=bad)
            assert refused.error == "invalid_session_token"
            assert refused.text.startswith("Invalid session token: ")
    for missing in ({}, {"session_token": ""}):
        refused = await fleet.call("get_workflow", **missing)
        assert refused.error == "VALIDATION_ERROR"
        assert refused.text.startswith("session_token: ")
    assert (await fleet.call("get_workflow", session_token=token)).token


async def test_the_toolset_is_served_alone_or_with_others_without_name_clashes(fleet: Fleet) -> None:
    async with Client(fleet.fronts[0].base + "/mcp/items,sessions") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"start_session", "claim_item"} <= names
    assert len(names) == 30
