"""A store that is a cluster of three primaries with a replica each: real processes of the embedded server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, StoreUnreachable, key_space
from coordinator.store.embedded_cluster import EmbeddedCluster, Node
from coordinator.store.slot_map import slot_of
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.support.cluster import leads, move_keys, node_id, primary_of, project_on
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

SHARDS = 3


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """One is enough: each test has processes to wait for."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    cluster = EmbeddedCluster(tmp_path_factory.mktemp("cluster"), SHARDS, 1, "everysec", node_timeout_ms=3000)
    with cluster:
        yield cluster


@pytest.fixture
async def store(cluster: EmbeddedCluster) -> AsyncIterator[Store]:
    store = Store(cluster.start(), timeout_ms=500)
    await store.open()
    await key_space.settle(store)
    yield store
    await store.close()


async def test_projects_are_spread_over_the_shards(store: Store, cluster: EmbeddedCluster) -> None:
    projects = [project_on(cluster, primary_of(cluster, slot), "spread") for slot in (0, 8000, 16000)]
    for project in projects:
        tools = Client(store, project)
        item = await tools.add("x")
        assert (await tools.claim("agent", item))["outcome"] == "success"
        assert (await audit(store, project)).differences == []
    assert len({id(store.link(project)) for project in projects}) == SHARDS


async def test_one_node_is_refused_with_the_right_url(cluster: EmbeddedCluster) -> None:
    url = f"redis://{cluster.start().partition('://')[2].partition(',')[0]}"
    with pytest.raises(StoreUnreachable, match=r"is a node of a cluster; its URL is redis\+cluster://"):
        await Store(url).open()


async def test_a_killed_primary_is_replaced_by_its_replica(store: Store, cluster: EmbeddedCluster) -> None:
    node = primary_of(cluster, slot_of("killed"))
    other = project_on(cluster, next(one for one in cluster.nodes if one is not node and leads(one)), "other")
    tools, elsewhere = Client(store, "killed"), Client(store, other)
    assert await elsewhere.add("before")
    items = [await tools.add(str(n)) for n in range(20)]
    await replicated(node)
    assert node.pid is not None
    os.kill(node.pid, signal.SIGKILL)
    assert await elsewhere.add("not held up")
    await wait_until(lambda: answers(tools), what="the replica to take over")
    found = [await tools.get(item) for item in items]
    assert [one["title"] for one in found] == [str(n) for n in range(20)]
    assert (await audit(store, "killed")).differences == []
    cluster.start()


async def test_a_slot_that_is_moved_key_by_key_is_refused_until_it_is_there(
    store: Store, cluster: EmbeddedCluster
) -> None:
    slot = slot_of("moving")
    source = primary_of(cluster, slot)
    target = next(one for one in cluster.nodes if one is not source and leads(one))
    tools = Client(store, "moving")
    items = [await tools.add(str(n)) for n in range(20)]
    with source.client() as ours, target.client() as theirs:
        ids = [node_id(client) for client in (ours, theirs)]
        theirs.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        ours.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        move_keys(ours, theirs, target.port, slot, 10)
        with pytest.raises(ToolFailure, match="is moving the project to another shard") as refused:
            await tools.get(items[0])
        assert (refused.value.code, refused.value.kind) == ("store_unavailable", "shedding")
        move_keys(ours, theirs, target.port, slot, 10_000)
        for client in (theirs, ours):
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
    assert [(await tools.get(item))["title"] for item in items] == [str(n) for n in range(20)]
    assert (await audit(store, "moving")).differences == []


async def replicated(node: Node) -> None:
    """Waits until the replica of a primary has all of its writes."""
    with node.client() as client:
        await asyncio.to_thread(client.execute_command, "WAIT", 1, 5000)


async def answers(tools: Client) -> bool:
    try:
        await tools.add("again")
    except Exception:
        return False
    return True
