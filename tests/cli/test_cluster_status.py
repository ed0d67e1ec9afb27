"""``fleet cluster status``, ``fleet doctor`` and ``fleet audit`` on a cluster: what was not seen is named."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.store import Store, key_space, keys
from coordinator.store.embedded_cluster import EmbeddedCluster, Node
from coordinator.store.slot_map import SLOTS, slot_of
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.support.cluster import move_slot, node_id, primary_of, project_on
from tests.support.fleets import fleet_command
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("cluster"), 3, fsync="everysec") as cluster:
        yield cluster


@pytest.fixture
async def store(cluster: EmbeddedCluster) -> AsyncIterator[Store]:
    store = Store(cluster.url, timeout_ms=5000)
    await store.open()
    await key_space.settle(store)
    yield store
    await store.close()


def run(cluster: EmbeddedCluster, directory: Path, *words: str) -> Any:
    return fleet_command(
        *words, FLEET_REDIS_URL=cluster.url, FLEET_DATA_DIR=str(directory), FLEET_REDIS_TIMEOUT_MS="1000"
    )


async def ended(node: Node) -> None:
    assert node.pid is not None
    os.kill(node.pid, signal.SIGKILL)
    await wait_until(lambda: node.poll() is not None, what="the node's end")


async def test_status_shows_shards_nodes_and_projects(store: Store, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    project = project_on(cluster, cluster.nodes[2], "shown")
    await Client(store, project).add()
    done = run(cluster, tmp_path, "cluster", "status")
    lines = done.stdout.splitlines()
    assert lines[0] == "3 shards, 3 nodes; keys of the fleet on shard 0, queues of steps on shard 1"
    assert sum(line.startswith("shard ") and " slots, " in line for line in lines) == 3
    assert all(f"primary  127.0.0.1:{node.port}  Valkey" in done.stdout for node in cluster.nodes)
    assert "shard 0 has no replica that follows" in done.stdout, "a try-out has none"
    found = json.loads(run(cluster, tmp_path, "cluster", "status", "--format", "json").stdout)
    assert [one["shard"] for one in found["shards"]] == [0, 1, 2]
    assert sum(one["slots"] for one in found["shards"]) == SLOTS
    assert found["shards"][2]["projects"] >= 1
    assert found["uncovered"] == []


async def test_one_server_is_no_cluster(redis_url: str, tmp_path: Path) -> None:
    if redis_url.startswith("redis+cluster"):
        pytest.skip("the tests run on a cluster")
    done = fleet_command("cluster", "status", "--redis-url", redis_url)
    assert done.returncode == 2
    assert "is no cluster" in done.stderr


async def test_what_is_away_on_its_way_or_emptied_is_named(
    store: Store, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    lost, there = (project_on(cluster, cluster.nodes[n], name) for n, name in ((1, "lost"), (2, "there")))
    for project in (lost, there):
        await Client(store, project).add()
    marker = keys.marker.key(lost)
    was = await store.command("GET", marker)
    await store.command("DEL", marker)
    slot = slot_of("moving")
    source = primary_of(cluster, slot)
    target = next(node for node in cluster.nodes if node is not source)
    away = cluster.nodes[2]
    with source.client() as ours, target.client() as theirs:
        ours.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(theirs))
        await ended(away)
        try:
            for command in ("doctor", "cluster status"):
                done = await asyncio.to_thread(run, cluster, tmp_path, *command.split())
                assert done.returncode == 1, done.stderr
                assert f"127.0.0.1:{away.port} (shard 2) does not answer, and was not checked" in done.stdout
                if source is not away:
                    assert f"slot {slot}" in done.stdout
                if command == "doctor":
                    assert f"emptied, or of another store: {lost}" in done.stdout
                    assert "not seen, because their shards do not answer" in done.stdout
            done = await asyncio.to_thread(run, cluster, tmp_path, "audit", "--project", there)
            assert done.returncode == 6
            assert "agrees" not in done.stdout
        finally:
            await asyncio.to_thread(cluster.start)
            ours.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
    await store.command("SET", marker, was)


async def test_without_the_shard_of_the_fleet_the_others_are_shown(
    store: Store, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    fleet = primary_of(cluster, slot_of(keys.FLEET))
    await ended(fleet)
    try:
        done = await asyncio.to_thread(run, cluster, tmp_path, "cluster", "status")
    finally:
        await asyncio.to_thread(cluster.start)
    assert done.returncode == 1
    assert " slots, projects unknown" in done.stdout
    assert "projects: cannot be listed" in done.stdout


async def test_an_audit_starts_again_when_the_slot_moves(store: Store, cluster: EmbeddedCluster) -> None:
    project = project_on(cluster, cluster.nodes[1], "audited")
    tools = Client(store, project)
    await tools.add_many(300)
    moved = False
    ask = store.link(project).ask

    async def once(commands: Any) -> Any:
        nonlocal moved
        answers = await ask(commands)
        if not moved and commands[0][0] == "SCAN":
            moved = True
            await asyncio.to_thread(move_slot, cluster.nodes[1], cluster.nodes[2], slot_of(project))
        return answers

    store.link(project).ask = once  # type: ignore[method-assign]
    report = await audit(store, project)
    await asyncio.to_thread(move_slot, cluster.nodes[2], cluster.nodes[1], slot_of(project))
    assert (report.items, report.differences) == (300, [])
    assert moved
