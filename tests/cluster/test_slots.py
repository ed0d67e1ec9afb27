"""Projects are spread over the shards of a cluster. Slots move, and nodes come and go, while agents work: nothing
acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import AddressError, Store
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.embedded.server import password_of
from coordinator.store.link.slot_map import slot_of
from coordinator.store.metrics import MAPS, REDIRECTS
from tests.cluster.conftest import NODE_TIMEOUT_MS, SHARDS
from tests.cluster.load import Load
from tests.store.calls import BUMP
from tests.support.cluster import move_keys, move_slot, move_slot_at_once, node_id, primary_of, serves
from tests.support.counts import counted
from tests.support.wait import wait_until, wait_until_sync

pytestmark = pytest.mark.anyio

REFUSAL = "is moving the project to another shard"


@pytest.fixture
def added(cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[Node]:
    """A further node without slots and functions, which belongs to the cluster until it is forgotten."""
    node = Node(tmp_path / "added", "everysec")
    node.node_timeout_ms = cluster.nodes[0].node_timeout_ms
    node.data_dir.mkdir(mode=0o700)
    password_of(node.data_dir, password_of(cluster.data_dir))
    node.start()
    cluster.nodes.append(node)
    port, bus = cluster.nodes[0].ports()
    with node.client() as client:
        client.config_set("cluster-allow-replica-migration", "no")  # it stays a primary when its last slot has gone
        client.execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
    wait_until_sync(
        lambda: all(_serves_with(one, len(cluster.nodes)) for one in cluster.nodes), what="the nodes to meet"
    )
    yield node
    cluster.nodes.remove(node)
    node.stop()


def _serves_with(node: Node, nodes: int) -> bool:
    with node.client() as client:
        return serves(client, nodes)


async def test_projects_are_spread_over_the_shards(cluster: EmbeddedCluster, projects: list[str]) -> None:
    async with opened(cluster.url) as store:
        assert len({id(store.link(project)) for project in projects}) == len(projects) == SHARDS
    url = f"redis://{cluster.url.partition('://')[2].partition(',')[0]}"
    with pytest.raises(AddressError, match=r"is a node of a cluster; its URL is redis\+cluster://"):
        await Store(url).open()


async def test_a_timeout_that_does_not_fit_the_nodes_is_reported(cluster: EmbeddedCluster) -> None:
    async with opened(cluster.url) as store:  # its timeout is 5000 ms
        assert f"5000, and the cluster-node-timeout {NODE_TIMEOUT_MS}" in await store.failover_problem()
    async with opened(cluster.url, timeout_ms=500) as store:
        assert await store.failover_problem() == ""


async def test_a_slot_that_moves_at_once_loses_nothing(cluster: EmbeddedCluster, projects: list[str]) -> None:
    moved, other, _ = projects
    async with Load(cluster.url, projects) as load:
        await asyncio.to_thread(move_slot_at_once, *_nodes(cluster, moved, other), slot_of(moved))
        await load.goes_on(count=30)
        await load.check()


async def test_a_move_key_by_key_refuses_its_project_and_may_be_abandoned(
    cluster: EmbeddedCluster, projects: list[str]
) -> None:
    moved, other, _ = projects
    slot = slot_of(moved)
    source, target = _nodes(cluster, moved, other)
    async with Load(cluster.url, projects) as load:
        with source.client() as ours, target.client() as theirs:

            def begin() -> None:
                theirs.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(ours))
                ours.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(theirs))

            begin()
            await load.is_refused(moved, REFUSAL)
            for client in (ours, theirs):  # abandoned before a key has moved
                client.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
            await load.goes_on()
            begin()
            await load.is_refused(moved, REFUSAL)
            acknowledged = len(load.done[moved])
            move_keys(ours, theirs, target.port, slot, 30)
            assert min(client.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot) for client in (ours, theirs)) > 0
            await load.is_refused(moved, REFUSAL)
            await load.goes_on(projects[1:])
            async with opened(cluster.url) as fresh:
                with pytest.raises(ToolFailure, match=REFUSAL):
                    await fresh.run(BUMP, moved, "count")
            assert len(load.done[moved]) == acknowledged
            move_keys(ours, theirs, target.port, slot, 10_000)
            for client in (theirs, ours):
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(theirs))
        await load.goes_on()
        await load.check()


async def test_a_new_node_gets_its_functions_and_may_be_removed_again(
    cluster: EmbeddedCluster, projects: list[str], added: Node
) -> None:
    moved = projects[0]
    slot = slot_of(moved)
    node = primary_of(cluster, slot)
    async with Load(cluster.url, projects) as load:
        with added.client() as client:
            assert client.execute_command("FUNCTION", "LIST") == []
            await asyncio.to_thread(move_slot_at_once, node, added, slot)
            await load.goes_on()
            assert client.execute_command("FUNCTION", "LIST")
            await asyncio.to_thread(move_slot_at_once, added, node, slot)
            await load.goes_on()
            gone = node_id(client)
            for one in cluster.nodes[:-1]:
                with one.client() as other:
                    other.execute_command("CLUSTER", "FORGET", gone)
            await _serves(f"{cluster.url.partition('@')[0]}@127.0.0.1:{added.port}", moved)  # it knows the others still
            client.flushall()
            client.execute_command("CLUSTER", "RESET", "HARD")
            await load.goes_on()
            await _serves(cluster.url, moved)
        await load.check()


async def test_a_thousand_redirected_calls_read_the_map_once(cluster: EmbeddedCluster, projects: list[str]) -> None:
    moved, other, _ = projects
    async with opened(cluster.url) as store:
        assert await store.run(BUMP, moved, "count") == 1
        await asyncio.to_thread(move_slot, *_nodes(cluster, moved, other), slot_of(moved))
        before, redirected = counted(MAPS), counted(REDIRECTS, "moved")
        counts = await asyncio.gather(*(store.run(BUMP, moved, "count") for _ in range(1000)))
        assert sorted(counts) == list(range(2, 1002))
        await wait_until(lambda: counted(MAPS) > before, what="the map")
        assert counted(MAPS) == before + 1
        assert redirected + 1 <= counted(REDIRECTS, "moved") <= redirected + 1000


def _nodes(cluster: EmbeddedCluster, source: str, target: str) -> tuple[Node, Node]:
    """The primaries of two projects."""
    return primary_of(cluster, slot_of(source)), primary_of(cluster, slot_of(target))


@asynccontextmanager
async def opened(url: str, timeout_ms: int = 5000) -> AsyncIterator[Store]:
    """A store as a process that starts has it."""
    store = Store(url, timeout_ms=timeout_ms)
    await store.open()
    yield store
    await store.close()


async def _serves(url: str, project: str) -> None:
    """A process that starts with a URL serves a project."""
    async with opened(url) as store:
        assert await store.run(BUMP, project, "count")
