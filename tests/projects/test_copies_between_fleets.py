"""Whole fleets while a project is copied from one to the other: agents go on where they are told to."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from coordinator.projects.transfer import Keys
from coordinator.store import Store
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fences.copies import Fencing
from coordinator.toolsets.items.audit import audit
from tests.support.fleets import MCP_HEADERS, Http, RunningCommand, call_body, fleet_command
from tests.support.wait import wait_until_sync

pytestmark = pytest.mark.chaos

WRITERS = 4


class Site:
    """A store with front-ends."""

    def __init__(self, folder: Path, url: str, frontends: int) -> None:
        self.url = url
        options = ("--port", "0", "--frontends", str(frontends), "--data-dir", str(folder / "data"))
        self.command = RunningCommand(folder / "output", "serve", *options, FLEET_REDIS_URL=url)

    @property
    def port(self) -> int:
        return int(self.command.wait_ready().split("http://")[1].split(":")[1].split("/")[0].split()[0])


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    """One on a single server, one on a cluster."""
    folder = tmp_path_factory.mktemp("sites")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer(folder / "server"))
        cluster = stack.enter_context(EmbeddedCluster(folder / "cluster", 3, fsync="everysec"))
        here = Site(folder / "here", server.url, 2)
        stack.enter_context(here.command)
        there = Site(folder / "there", cluster.url, 1)
        stack.enter_context(there.command)
        yield here, there


def call(http: Http, project: str, tool: str, arguments: dict[str, Any]) -> Any:
    """The result of a call, or its error."""
    http.connection.request("POST", f"/p/{project}/mcp/items", call_body(tool, arguments), MCP_HEADERS)
    return msgspec.json.decode(http.connection.getresponse().read())["result"]


class Writer(threading.Thread):
    """An agent that creates items until it is told to stop. If the project is away, it repeats the call elsewhere."""

    def __init__(self, name: str, project: str, ports: list[int]) -> None:
        super().__init__()
        self.name, self.project, self.ports = name, project, ports
        self.done = threading.Event()
        self.ids: list[str] = []
        """What was acknowledged."""
        self.refused: list[dict[str, Any]] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.done.is_set():
                self._write()
        except BaseException as failure:
            self.failure = failure

    def _write(self) -> None:
        arguments = {
            "operation": "create",
            "items": [{"title": f"{self.name} {len(self.ids)}"}],
            "requestId": str(uuid.uuid4()),
            "actor": {"id": self.name, "kind": "subagent"},
        }
        while True:
            with Http(self.ports[0]) as http:
                answer = call(http, self.project, "manage_items", arguments)
            if not answer.get("isError"):
                (item,) = answer["structuredContent"]["items"]
                self.ids.append(item["id"])
                self.done.wait(0.02)
                return
            error = answer["structuredContent"]["error"]
            assert error["code"] == "project_away", error
            assert error["retryAfterMs"] >= 1000
            self.refused.append(error)
            if self.done.wait(0.02):
                return
            self.ports.append(self.ports.pop(0))

    def told(self, part: str) -> bool:
        return any(part in error["message"] for error in self.refused)


@contextlib.contextmanager
def writing(*writers: Writer) -> Iterator[None]:
    for writer in writers:
        writer.start()
    try:
        go_on(writers)
        yield
    finally:
        for writer in writers:
            writer.done.set()
        for writer in writers:
            writer.join()
    assert [writer.failure for writer in writers] == [None] * len(writers)


def go_on(writers: Sequence[Writer]) -> None:
    """Waits until all have written some more."""
    counts = [len(writer.ids) for writer in writers]

    def more() -> bool:
        for writer in writers:
            if writer.failure is not None:
                raise writer.failure
        return all(len(writer.ids) > count + 3 for writer, count in zip(writers, counts, strict=True))

    wait_until_sync(more, what="the writers to write")


async def items_of(url: str, project: str) -> int:
    """How many items a project has, which its audit agrees with."""
    store = Store(url, timeout_ms=20_000)
    await store.open()
    try:
        report = await audit(store, project)
    finally:
        await store.close()
    assert not report.differences
    return report.items


async def keys_of(url: str, project: str) -> set[bytes]:
    store = Store(url, timeout_ms=20_000)
    await store.open()
    try:
        return await Keys(Fencing(store), project, "").names()
    finally:
        await store.close()


def titles(port: int, project: str) -> list[str]:
    found: list[str] = []
    with Http(port) as http:
        while True:
            arguments = {"operation": "search", "limit": 100, "offset": len(found)}
            page = call(http, project, "query_items", arguments)["structuredContent"]
            found += [item["title"] for item in page["items"]]
            if len(found) >= page["total"]:
                return found


def command(here: Site, there: Site, project: str) -> tuple[list[str], dict[str, Any]]:
    """The command that moves a project, with the passwords beside the URLs."""
    password = urlsplit(there.url).password or ""
    bare = there.url.replace(f":{password}@", "")
    words = ["project", "copy", project, "--redis-url", here.url, "--to", bare, "--delete-source"]
    return words, {"FLEET_TO_PASSWORD": password}


def check(writers: list[Writer], here: Site, there: Site, project: str) -> None:
    """Acknowledged is there, once."""
    acknowledged = sorted(f"{writer.name} {n}" for writer in writers for n in range(len(writer.ids)))
    assert len(acknowledged) == asyncio.run(items_of(there.url, project))
    assert sorted(titles(there.port, project)) == acknowledged
    assert asyncio.run(keys_of(here.url, project)) == set()


def test_agents_go_on_at_the_other_store(sites: tuple[Site, Site]) -> None:
    here, there = sites
    writers = [Writer(f"w{n}", "moved", [here.port, there.port]) for n in range(WRITERS)]
    bystander = Writer("bystander", "other", [here.port])
    with writing(*writers, bystander):
        words, env = command(here, there, "moved")
        done = fleet_command(*words, **env)
        assert done.returncode == 0, done.stderr
        go_on([*writers, bystander])
    assert not bystander.refused
    log = fleet_command("audit-log", "tail", "--project", "moved", "--redis-url", here.url, **env)
    assert "allowed" in log.stdout
    assert "copy_project  project moved" in log.stdout
    assert "and delete it here; moved the project moved to " in log.stdout
    for site in sites:
        assert (urlsplit(site.url).password or "") not in log.stdout
        assert (urlsplit(site.url).password or "") not in done.stdout + done.stderr
    assert any(writer.told("is being copied to") for writer in writers)
    check(writers, here, there, "moved")
    with Http(here.port) as http:
        error = call(http, "moved", "query_items", {"operation": "search"})["structuredContent"]["error"]
    assert (error["code"], error["kind"], error["retryAfterMs"]) == ("project_away", "transient", 10_000)
    assert "the project moved was moved to another store" in error["message"]


@pytest.mark.parametrize("seed", range(2))
def test_the_command_is_killed_again_and_again(sites: tuple[Site, Site], tmp_path: Path, seed: int) -> None:
    here, there = sites
    project = f"killed-{seed}"
    chance = random.Random(seed)
    writers = [Writer(f"w{n}", project, [here.port, there.port]) for n in range(WRITERS)]
    words, env = command(here, there, project)
    with writing(*writers):
        kills = 0
        while True:
            with RunningCommand(tmp_path / f"copy-{seed}-{kills}", *words, **env) as copy:
                deadline = time.monotonic() + chance.uniform(0.1, 3.5) + kills
                while copy.process.poll() is None and time.monotonic() < deadline:
                    copy.process.poll()
                    threading.Event().wait(0.02)
                if copy.process.poll() == 0:
                    break
                if copy.process.poll() is None:
                    copy.end(signal.SIGKILL)
                    kills += 1
        go_on(writers)
    check(writers, here, there, project)
