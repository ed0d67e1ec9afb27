"""The identity of a cluster is kept per project: an emptied or replaced shard stops its projects, and only these."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, StoreIdentity, keys
from coordinator.store.checks import key_space
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.link.slot_map import slot_of
from tests.store.calls import BUMP, ECHO
from tests.store.conftest import MakeStore
from tests.support.cluster import move_slot, primary_of, project_on
from tests.support.fleets import fleet_command
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of the product only."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster"), 3, fsync="everysec") as cluster:
        yield cluster


@pytest.fixture
async def store(cluster: EmbeddedCluster, make_store: MakeStore) -> Store:
    cluster.start()
    return await opened(cluster, make_store)


async def opened(cluster: EmbeddedCluster, make_store: MakeStore, identity: StoreIdentity | None = None) -> Store:
    """A store as a serving process has it."""
    store = make_store(cluster.url, timeout_ms=5000, identity=identity)
    await store.open()
    await key_space.settle(store)
    return store


@pytest.fixture
def nodes(cluster: EmbeddedCluster) -> tuple[Node, Node]:
    """Two that do not have the keys of the fleet."""
    fleet = primary_of(cluster, slot_of(keys.FLEET))
    one, other = (node for node in cluster.nodes if node is not fleet)
    return one, other


async def bump(store: Store, project: str) -> int | str:
    """The outcome of a call that writes: a count, or the code of the failure."""
    try:
        return int(await store.run(BUMP, project, "count"))
    except ToolFailure as failure:
        return failure.code


async def comes_to(store: Store, project: str, wanted: int | str) -> None:
    async def found() -> bool:
        outcome = await bump(store, project)
        assert outcome == wanted or not isinstance(outcome, int), "the emptied project was taken for the truth"
        return outcome == wanted

    await wait_until(found, what=f"{project} to answer {wanted}")


def accept(cluster: EmbeddedCluster, data_dir: Path) -> str:
    done = fleet_command("store", "accept", FLEET_REDIS_URL=cluster.url, FLEET_DATA_DIR=str(data_dir))
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_an_emptied_shard_is_refused_for_its_projects_until_it_is_accepted(
    store: Store, cluster: EmbeddedCluster, nodes: tuple[Node, Node], make_store: MakeStore, tmp_path: Path
) -> None:
    lost, kept, fresh = (project_on(cluster, nodes[n], name) for n, name in ((0, "lost"), (1, "kept"), (0, "fresh")))
    other = await opened(cluster, make_store)
    assert [await bump(one, project) for one in (store, other) for project in (lost, kept)] == [1, 1, 2, 2]
    with nodes[0].client() as client:
        client.flushall()
        for one in (store, other, await opened(cluster, make_store)):
            await comes_to(one, lost, "store_changed")
            with pytest.raises(
                ToolFailure, match=f"the project {lost} is not the one .* its shard was emptied"
            ) as raised:
                await one.run(ECHO, lost, "reads", 1)
            assert (raised.value.kind, raised.value.code) == ("transient", "store_changed")
            with pytest.raises(ToolFailure, match="its shard was emptied"):
                await one.command("EXISTS", keys.events.key(lost))
            assert isinstance(await bump(one, kept), int)
            assert not one.identity.refused
        assert client.dbsize() == 0
    assert await bump(store, fresh) == 1
    assert f"the project {lost} is accepted as it is now" in accept(cluster, tmp_path).splitlines()
    await comes_to(store, lost, 1)
    assert [await bump(other, lost), await bump(other, kept), await bump(store, fresh)] == [2, 6, 2]


async def test_calls_that_wait_for_a_restarted_shard_do_not_write_to_its_emptied_data(
    store: Store, cluster: EmbeddedCluster, nodes: tuple[Node, Node]
) -> None:
    project, node = project_on(cluster, nodes[0], "restarted"), nodes[0]
    assert await bump(store, project) == 1
    assert node.pid is not None
    os.kill(node.pid, signal.SIGKILL)
    await wait_until(lambda: node.poll() is not None, what="the node's end")
    for path in (node.data_dir / "redis").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    waiting = [asyncio.create_task(bump(store, project)) for _ in range(20)]
    await asyncio.to_thread(cluster.start)
    assert not [one for one in await asyncio.gather(*waiting) if isinstance(one, int)]
    await comes_to(store, project, "store_changed")
    with node.client() as client:
        assert client.dbsize() == 0


async def test_a_moved_slot_does_not_alarm_unless_its_keys_were_lost(
    store: Store, cluster: EmbeddedCluster, nodes: tuple[Node, Node]
) -> None:
    moved, torn, beside = (project_on(cluster, nodes[0], name) for name in ("moved", "torn", "beside"))
    for project in (moved, torn, beside):
        assert await bump(store, project) == 1
    await asyncio.to_thread(move_slot, *nodes, slot_of(moved))
    assert await bump(store, moved) == 2
    await asyncio.to_thread(move_slot, *nodes, slot_of(torn), with_keys=False)
    await comes_to(store, torn, "store_changed")
    assert [await bump(store, moved), await bump(store, beside)] == [3, 2]


async def test_keys_of_another_store_are_refused_and_what_it_replaced_is_not(
    store: Store, cluster: EmbeddedCluster, nodes: tuple[Node, Node], make_store: MakeStore
) -> None:
    project = project_on(cluster, nodes[0], "swapped")
    assert await bump(store, project) == 1
    marker = keys.marker.key(project)
    assert await store.command("GET", marker) == store.identity.known.encode()
    await store.command("SET", marker, "stranger")
    store.link(project).recycle("was disconnected by the test")
    await comes_to(store, project, "store_changed")
    auto = await opened(cluster, make_store, StoreIdentity(accept="auto"))
    assert await bump(auto, project) == 2
    await comes_to(store, project, 3)
    was = store.identity.known
    await store.command("HSET", keys.identity.key(keys.FLEET), "id", "next", "was", was)
    try:
        assert await bump(await opened(cluster, make_store), project) == 4
    finally:
        await store.command("HSET", keys.identity.key(keys.FLEET), "id", was, "was", "")


async def test_reading_a_project_that_nobody_has_written_to_leaves_nothing(
    store: Store, cluster: EmbeddedCluster, nodes: tuple[Node, Node]
) -> None:
    project = project_on(cluster, nodes[0], "misspelt")
    assert await store.run(ECHO, project, "x", 1) == ("x", 1, [])
    assert not await store.command("EXISTS", keys.marker.key(project))
    assert not await store.command("SISMEMBER", keys.marked_projects.key(keys.FLEET), project)


async def test_without_the_shard_of_the_fleet_known_projects_are_served_and_new_ones_wait(
    cluster: EmbeddedCluster, nodes: tuple[Node, Node], make_store: MakeStore
) -> None:
    known, new = (project_on(cluster, nodes[0], name) for name in ("known", "new"))
    store = make_store(cluster.start(), timeout_ms=500)
    await store.open()
    await key_space.settle(store)
    assert await bump(store, known) == 1
    fleet = primary_of(cluster, slot_of(keys.FLEET))
    assert fleet.pid is not None
    os.kill(fleet.pid, signal.SIGSTOP)
    try:
        store.link(known).recycle("was disconnected by the test")
        await comes_to(store, known, 2)
        with pytest.raises(ToolFailure, match="cannot tell whether this project is new") as raised:
            await store.run(BUMP, new, "count")
        assert raised.value.code == "store_unavailable"
    finally:
        os.kill(fleet.pid, signal.SIGCONT)
    await comes_to(store, new, 1)
