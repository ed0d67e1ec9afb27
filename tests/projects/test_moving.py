"""A project is moved to another shard while agents work: as a whole, and key by key, also after an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.operations import AuditLog
from coordinator.projects import moving
from coordinator.projects.errors import ProjectProblem
from coordinator.projects.moving import move
from coordinator.store import Store, keys
from coordinator.store.checks import key_space
from coordinator.store.cluster import facts
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.link.address import parse
from coordinator.store.link.slot_map import slot_of
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.support.cluster import move_keys, node_id, primary_of, project_on
from tests.support.fleets import fleet_command

pytestmark = pytest.mark.anyio

WRITERS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster"), 3, fsync="everysec") as cluster:
        yield cluster


@pytest.fixture
async def stores(cluster: EmbeddedCluster) -> AsyncIterator[list[Store]]:
    """Those of two front-ends."""
    made = [Store(cluster.url, timeout_ms=10_000) for _ in range(2)]
    for store in made:
        await store.open()
        await key_space.settle(store)
    yield made
    for store in made:
        await store.close()


@pytest.fixture
def key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with servers that cannot move a slot as a whole: they do not know the command."""
    ask = facts.ask_node

    async def older(*args: Any) -> Any:
        reply = await ask(*args)
        return [line for line in reply if b"MIGRATESLOTS" not in line] if args[3:] == (("CLUSTER", "HELP"),) else reply

    monkeypatch.setattr(moving, "ask_node", older)


def shard_of(cluster: EmbeddedCluster, node: Node) -> int:
    """The number of a node's shard."""
    with cluster.nodes[0].client() as client:
        rows = sorted(client.execute_command("CLUSTER", "SLOTS"))
    ports = list(dict.fromkeys(row[2][1] for row in rows))
    return ports.index(node.port)


def another(cluster: EmbeddedCluster, project: str) -> Node:
    """A node that does not have a project."""
    owner = primary_of(cluster, slot_of(project))
    return next(node for node in cluster.nodes if node is not owner)


class Writing:
    """Agents that create items over both front-ends, and repeat what is refused under the same request id."""

    def __init__(self, stores: list[Store], project: str) -> None:
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self._tools = [Client(store, project) for store in stores]
        self._done = False
        self._tasks = [asyncio.ensure_future(self._write(n)) for n in range(WRITERS)]

    async def _write(self, number: int) -> None:
        tools = self._tools[number % len(self._tools)]
        for n in range(10_000):
            if self._done:
                return
            request = f"00000000-0000-4000-8000-{number:04}{n:08}"
            asked = {"requestId": request, "actor": {"id": f"a{number}", "kind": "subagent"}}
            while True:
                try:
                    made = await tools.create({"title": f"{number} {n}"}, **asked)
                except ToolFailure as failure:
                    assert failure.code == "store_unavailable"  # noqa: PT017
                    assert failure.retry_after_ms  # noqa: PT017
                    self.refused.append(failure.message)
                    await asyncio.sleep(0.005)
                else:
                    self.acknowledged.append(made["items"][0]["id"])
                    break

    async def more(self) -> None:
        """Waits until some more was written."""
        wanted = len(self.acknowledged) + 4 * WRITERS
        while len(self.acknowledged) < wanted:
            await asyncio.sleep(0.01)
            for task in self._tasks:
                if task.done():
                    task.result()

    async def end(self) -> None:
        self._done = True
        await asyncio.gather(*self._tasks)


async def check(stores: list[Store], project: str, writing: Writing) -> None:
    """What was acknowledged is there, once, and the audit agrees."""
    await writing.end()
    report = await audit(stores[0], project)
    assert not report.differences
    assert report.items == len(set(writing.acknowledged)) == len(writing.acknowledged)


@pytest.mark.parametrize("way", ["as a whole", "key by key"])
async def test_agents_go_on(
    cluster: EmbeddedCluster, stores: list[Store], request: pytest.FixtureRequest, way: str
) -> None:
    if way == "key by key":
        request.getfixturevalue("key_by_key")
    project = project_on(cluster, cluster.nodes[0], f"go-{way.replace(' ', '-')}")
    writing = Writing(stores, project)
    await writing.more()
    target, said = another(cluster, project), list[str]()
    number = shard_of(cluster, target)
    done = await move(parse(cluster.url), stores[0], project, number, said.append)
    assert done.startswith(f"the project {project} is on shard {number}: ")
    await writing.more()
    await check(stores, project, writing)
    assert primary_of(cluster, slot_of(project)) is target
    assert ("moving key by key" in " ".join(said)) == (way == "key by key")


@pytest.mark.parametrize("where", ["opened", "half-way", "assigned"])
async def test_an_interrupted_move_is_continued(
    cluster: EmbeddedCluster, stores: list[Store], where: str, key_by_key: None
) -> None:
    """To the shard that it was on its way to, or back to where it was."""
    for back in (False, True):
        project = project_on(cluster, cluster.nodes[1], f"half-{where}-{back}".lower())
        tools = Client(stores[1], project)
        ids = await tools.add_many(60)
        slot, source, target = slot_of(project), primary_of(cluster, slot_of(project)), another(cluster, project)
        here, there = shard_of(cluster, source), shard_of(cluster, target)
        with source.client() as ours, target.client() as theirs:
            theirs.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(ours))
            ours.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(theirs))
            if where != "opened":
                move_keys(ours, theirs, target.port, slot, 10_000 if where == "assigned" else 50)
            if where == "assigned":
                theirs.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(theirs))
        await move(parse(cluster.url), stores[0], project, here if back else there, print)
        assert primary_of(cluster, slot) is (source if back else target)
        assert {(await tools.get(one))["id"] for one in ids} == set(ids)
        assert not (await audit(stores[0], project)).differences


async def test_others_in_the_slot_are_named(cluster: EmbeddedCluster, stores: list[Store]) -> None:
    project = project_on(cluster, cluster.nodes[0], "first")
    other = next(name for n in range(200_000) if slot_of(name := f"o{n}") == slot_of(project))
    for name in (project, other):
        await Client(stores[0], name).add()
    said: list[str] = []
    number = shard_of(cluster, another(cluster, project))
    await move(parse(cluster.url), stores[0], project, number, said.append)
    assert f"in the same slot, and moved with it: {other}" in said
    assert "0 keys moved" in await move(parse(cluster.url), stores[0], project, number, said.append)


async def test_a_large_project_is_warned_about(
    cluster: EmbeddedCluster, stores: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MANY", 10)
    project, said = project_on(cluster, cluster.nodes[0], "large"), list[str]()
    await Client(stores[0], project).add_many(20)
    await move(parse(cluster.url), stores[0], project, shard_of(cluster, another(cluster, project)), said.append)
    assert any("answers no call for up to about" in one and "redis_timeout_ms" in one for one in said)


async def test_what_cannot_be_moved_is_refused(cluster: EmbeddedCluster, stores: list[Store], redis_url: str) -> None:
    project = project_on(cluster, cluster.nodes[0], "stays")
    await Client(stores[0], project).add()
    with pytest.raises(ProjectProblem, match="there is no shard 7; there are: 0, 1, 2"):
        await move(parse(cluster.url), stores[0], project, 7, print)
    other = project_on(cluster, cluster.nodes[1], "open")
    with cluster.nodes[1].client() as ours, cluster.nodes[2].client() as theirs:
        ours.execute_command("CLUSTER", "SETSLOT", slot_of(other), "MIGRATING", node_id(theirs))
        with pytest.raises(ProjectProblem, match=f"the slot {slot_of(other)} is being moved: end that first"):
            await move(parse(cluster.url), stores[0], project, 1, print)
        ours.execute_command("CLUSTER", "SETSLOT", slot_of(other), "STABLE")
    done = fleet_command("project", "move", project, "--to", "1", "--redis-url", redis_url)
    assert "is no cluster: `fleet project copy` is for others" in done.stderr
    done = fleet_command("project", "move", "nobody", "--to", "1", "--redis-url", cluster.url)
    assert "there is no project nobody" in done.stderr
    assert await stores[0].command("EXISTS", keys.events.key(project))
    done = fleet_command("project", "move", project, "--to", "1", "--redis-url", cluster.url)
    assert done.returncode == 0, done.stderr
    assert f"the project {project} is on shard 1" in done.stdout
    (act,) = await AuditLog(stores[0]).last(5, project)
    assert (act.action, act.outcome) == ("move_project", "allowed")
    assert act.detail.startswith(f"to shard 1; the project {project} is on shard 1: ")
