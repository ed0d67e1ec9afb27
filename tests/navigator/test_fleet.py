"""Walks over real front-ends: each call goes to another process, and all of them are restarted in the middle."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client as McpClient

from coordinator.definitions import Definitions, shipped, toon
from coordinator.store.embedded.server import EmbeddedServer
from tests.navigator.walker import Walked, walk
from tests.support.fleets import RunningCommand
from tests.support.wait import wait_until
from tests.support.workflows import Tree, roots

pytestmark = pytest.mark.anyio

FRONTS = 2
MIDDLE = 9
"""The call of each walk before which everything is restarted."""
Json = dict[str, Any]


class Fleet:
    """Front-ends that share a store and nothing else."""

    def __init__(self, folder: Path, workflows: list[Path]) -> None:
        self._folder = folder
        self._workflows = ",".join(map(str, workflows))
        self._server = EmbeddedServer(folder / "store")
        self._numbers = itertools.count()
        self.fronts: list[RunningCommand] = []

    def start(self) -> None:
        url = self._server.start()
        arguments = ("serve", "--port", "0", "--frontends", "1", "--data-dir", str(self._folder / "data"))
        env = {"FLEET_REDIS_URL": url, "FLEET_NAVIGATOR_WORKFLOWS": self._workflows}
        self.fronts = [
            RunningCommand(self._folder / f"front-{next(self._numbers)}", *arguments, **env) for _ in range(FRONTS)
        ]
        for front in self.fronts:
            front.wait_ready()

    def kill(self) -> None:
        """Stops everything: one front-end gracefully, the others and the store by kill."""
        self.fronts[0].end()
        for front in self.fronts[1:]:
            front.end(signal.SIGKILL)
        self._server.stop()

    def stop(self) -> None:
        for front in self.fronts:
            front.clean_up()
        self._server.stop()

    def urls(self, path: str = "/mcp/navigator") -> list[str]:
        return [front.stdout.split("ready at ")[1].split()[0].removesuffix("/mcp") + path for front in self.fronts]


@pytest.fixture(scope="module")
def workflows(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All sets; the examples as a copy that may be changed, with a workflow that runs another one for each item."""
    copy = tmp_path_factory.mktemp("workflows") / "own"
    shutil.copytree(shipped(), copy)
    release = {
        "id": "release",
        "version": "1.0.0",
        "title": "Release",
        "initialActivity": "make",
        "activities": [
            {
                "id": "make",
                "version": "1.0.0",
                "name": "Make",
                "triggers": [{"workflow": "change", "passContext": ["notes_path"]}],
                "loops": [{"id": "each", "name": "Each", "type": "forEach", "variable": "part", "over": "parts"}],
                "context_to_preserve": ["findings - of the review"],
            }
        ],
    }
    Tree(copy).write("release/workflow.toon", toon.write(release))
    return [copy, *roots()[1:]]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, workflows: list[Path]) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), workflows)
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()


class Callers:
    """One MCP client for each front-end, used in turn."""

    def __init__(self, clients: list[McpClient]) -> None:
        self.clients = clients
        self._turns = itertools.count()

    async def ask(self, tool: str, **arguments: Any) -> Any:
        client = self.clients[next(self._turns) % len(self.clients)]
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content


@asynccontextmanager
async def callers(fleet: Fleet, mode: Any = "auto", path: str = "/mcp/navigator") -> AsyncIterator[Callers]:
    async with AsyncExitStack() as stack:
        yield Callers([await stack.enter_async_context(McpClient(url, mode=mode)) for url in fleet.urls(path)])


class Halves:
    """Holds every walk after its first calls, until released."""

    def __init__(self, walks: int) -> None:
        self.asking: Callers | None = None
        self.resting = 0
        self._walks = walks
        self._go_on = asyncio.Event()

    async def walk(self, name: str) -> Walked:
        made = 0

        async def ask(tool: str, **arguments: Any) -> Any:
            nonlocal made
            made += 1
            if made == MIDDLE and not self._go_on.is_set():
                self.resting += 1
                await self._go_on.wait()
            assert self.asking is not None
            return await self.asking.ask(tool, **arguments)

        return await walk(ask, name)

    async def all_rest(self) -> None:
        await wait_until(lambda: self.resting == self._walks, 60, "every walk to reach its middle")

    def go_on(self, asking: Callers) -> None:
        self.asking = asking
        self._go_on.set()


@pytest.mark.chaos
async def test_walks_continue_on_any_front_end_and_after_a_full_restart(fleet: Fleet, workflows: list[Path]) -> None:
    """By an agent that knows only the answers; all workflows at once, including nested ones."""
    there = Definitions(workflows, poll_seconds=0).current.workflows
    names = [name for name, workflow in there.items() if workflow.initial_activity]
    assert {"change", "release"} <= set(names)
    halves = Halves(len(names))
    async with callers(fleet) as before:
        halves.asking = before
        walks = [asyncio.create_task(halves.walk(name)) for name in names]
        await halves.all_rest()
    await asyncio.to_thread(fleet.kill)
    await asyncio.to_thread(fleet.start)
    async with callers(fleet) as after:
        halves.go_on(after)
        walked = await asyncio.gather(*walks)
    for name, one in zip(names, walked, strict=True):
        assert one.calls > MIDDLE
        assert one.last["position"]["workflow"] == name
    assert {owner for owner, _ in walked[names.index("release")].places} == {"release", "change"}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_answers_have_the_forms_that_clients_expect(fleet: Fleet, mode: Any) -> None:
    async with callers(fleet, mode) as both:
        client = both.clients[0]
        assert len((await client.list_tools()).tools) == 20
        listed = (await client.call_tool("list_workflows", {})).structured_content
        workflows: Any = listed if mode != "legacy" else listed and listed["result"]
        assert "change" in [one["id"] for one in workflows]
        resource = await client.call_tool("get_resource", {"workflow_id": "change", "index": "1"})
        assert resource.structured_content is None
        assert resource.content[0].text == (shipped() / "change/resources/01-review-guide.md").read_text()  # type: ignore[union-attr]
        wrong: list[tuple[Json, str]] = [
            ({"state": "v1.gzB64.H4sIAAAA"}, "invalid_state"),
            ({}, "VALIDATION_ERROR"),
            ({"state": 3}, "VALIDATION_ERROR"),
        ]
        for arguments, code in wrong:
            failed = await client.call_tool("nav_situation", arguments)
            assert failed.is_error
            assert failed.structured_content
            assert failed.structured_content["error"]["code"] == code
        started = await both.ask("nav_start", workflow_id="change")
        refused = await both.ask("nav_action", state=started["state"], action="complete_step", step_id="read-request")
        assert (refused["success"], refused["error"]["code"]) == (False, "CHECKPOINT_BLOCKING")
        assert refused["state"] == started["state"]


async def test_a_state_is_valid_only_in_its_project_on_every_front_end(fleet: Fleet) -> None:
    async with callers(fleet) as here, callers(fleet, path="/p/other/mcp/navigator") as there:
        state = (await here.ask("nav_start", workflow_id="change"))["state"]
        for client in here.clients:
            assert not (await client.call_tool("nav_situation", {"state": state})).is_error
        for client in there.clients:
            assert (await client.call_tool("nav_situation", {"state": state})).is_error


async def test_changes_on_disk_are_noticed_by_every_front_end(fleet: Fleet, workflows: list[Path]) -> None:
    path = workflows[0] / "hotfix/workflow.toon"
    text = path.read_text()
    async with callers(fleet) as both:

        async def versions() -> list[str]:
            found = []
            for client in both.clients:
                answer = await client.call_tool("get_workflow", {"workflow_id": "hotfix"})
                content: Any = answer.structured_content
                found.append(content.get("version", "gone"))
            return found

        async def reach(version: str) -> None:
            async def there() -> bool:
                return await versions() == [version] * FRONTS

            await wait_until(there, what=f"version {version} everywhere")

        await reach("1.0.0")
        path.write_text(text.replace("1.0.0", "1.2.3"))
        await reach("1.2.3")
        path.write_text("id: hotfix\n")
        await reach("gone")
        assert len(await both.ask("get_activities")) > 1
        path.write_text(text)
        await reach("1.0.0")
