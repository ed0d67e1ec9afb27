"""``fleet cluster status``, ``project list``, ``doctor`` and ``audit`` on a cluster: what was not seen is named."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.processes.drain import drain_scope
from coordinator.demo.run import new_project
from coordinator.settings import Settings
from coordinator.store import AccessRefused, AddressError, Store, keys
from coordinator.store.checks import key_space
from coordinator.store.cluster.facts import read_cluster
from coordinator.store.cluster.places import listed
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.fleet.drains import FLEET_SCOPE
from coordinator.store.link.address import parse
from coordinator.store.link.slot_map import SLOTS, slot_of
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.support.cluster import move_keys, move_slot, node_id, owner_port, primary_of, project_on
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
    url = f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in cluster.nodes)}"
    assert lines[0] == url
    assert lines[1] == "3 shards, 3 nodes; keys of the fleet on shard 0, queues of steps on shard 1"
    assert sum(line.startswith("shard ") and " slots, " in line for line in lines) == 3
    assert all(f"primary  127.0.0.1:{node.port}  Valkey" in done.stdout for node in cluster.nodes)
    assert "shard 0 has no replica that follows" in done.stdout, "a try-out has none"
    found = json.loads(run(cluster, tmp_path, "cluster", "status", "--format", "json").stdout)
    assert found["url"] == url
    assert [one["shard"] for one in found["shards"]] == [0, 1, 2]
    assert sum(one["slots"] for one in found["shards"]) == SLOTS
    assert found["shards"][2]["projects"] >= 1
    assert found["uncovered"] == []


async def test_projects_are_listed_with_their_shards(store: Store, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    names = [project_on(cluster, node, "listed") for node in cluster.nodes]
    for shard, project in enumerate(names):
        await Client(store, project).add_many(shard + 1)
    done = run(cluster, tmp_path, "project", "list", "--json")
    found = json.loads(done.stdout)
    rows = {row["project"]: row for row in found["projects"] if row["project"] in names}
    assert [rows[one]["shard"] for one in names] == [0, 1, 2]
    for shard, project in enumerate(names):
        with cluster.nodes[shard].client() as client:
            there = list(client.scan_iter(b"fc:{%s}:*" % project.encode(), count=1000))
        assert rows[project]["keys"] == len(there) > 0
    assert (done.returncode, found["unseen"]) == (0, [])


async def test_projects_that_cannot_be_counted_are_named(
    store: Store, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    away, half, whole, beside = (
        project_on(cluster, cluster.nodes[n], name) for n, name in ((2, "gone"), (0, "half"), (0, "all"), (1, "beside"))
    )
    for project in (away, half, whole, beside):
        await Client(store, project).add_many(2)
    slot = slot_of(half)
    with cluster.nodes[0].client() as ours, cluster.nodes[1].client() as theirs:
        theirs.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(ours))
        ours.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(theirs))
        move_keys(ours, theirs, cluster.nodes[1].port, slot, 5)
        await ended(cluster.nodes[2])
        try:
            done = await asyncio.to_thread(run, cluster, tmp_path, "project", "list", "--json")
            said = await asyncio.to_thread(run, cluster, tmp_path, "project", "list")
        finally:
            await asyncio.to_thread(cluster.start)
        move_keys(ours, theirs, cluster.nodes[1].port, slot, 10_000)
        for client in (theirs, ours):
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(theirs))
    rows = {row["project"]: row for row in json.loads(done.stdout)["projects"]}
    assert (done.returncode, said.returncode) == (6, 6), said.stderr
    assert [rows[one]["keys"] for one in (away, half)] == [None, None]
    assert all(rows[one]["keys"] > 0 for one in (whole, beside)), "others are counted, also where the slot is going to"
    assert all(f"not seen: {one}" in said.stderr for one in ("shard 2: ", f"project {away}: ", f"project {half}: "))
    await asyncio.to_thread(move_slot, cluster.nodes[1], cluster.nodes[0], slot)


async def test_one_server_is_no_cluster(redis_url: str, tmp_path: Path) -> None:
    if redis_url.startswith("redis+cluster"):
        pytest.skip("the tests run on a cluster")
    done = fleet_command("cluster", "status", "--redis-url", redis_url)
    assert done.returncode == 2
    assert "is no cluster" in done.stderr


class Alone(Node):
    """A server with a port that belongs to no cluster."""

    def config(self, settings: list[tuple[str, str]], password: str) -> str:
        return EmbeddedServer.config(self, settings, password)


async def test_the_url_of_a_cluster_is_refused_where_there_is_none(tmp_path: Path) -> None:
    server = Alone(tmp_path / "alone", "everysec")
    server.start()
    try:
        url = f"redis+cluster://:{(tmp_path / 'alone' / 'redis.password').read_text().strip()}@127.0.0.1:{server.port}"
        with pytest.raises(AddressError, match="it is no node of a cluster: its URL begins with redis://"):
            await Store(url).open()
        with pytest.raises(AddressError, match="it is no node of a cluster: its URL begins with redis://"):
            await read_cluster(parse(url), 2.0)
    finally:
        server.stop()


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
                    assert "not seen, because their keys cannot be read now" in done.stdout
                    assert "Connect call failed" in done.stdout, "the reason is that of the first attempt"
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
    project = project_on(cluster, cluster.nodes[2], "shown-still")
    await Client(store, project).add()
    await ended(fleet)
    try:
        done = await asyncio.to_thread(run, cluster, tmp_path, "cluster", "status")
        audited = await asyncio.to_thread(run, cluster, tmp_path, "audit", "--project", project)
        projects = await asyncio.to_thread(run, cluster, tmp_path, "project", "list")
    finally:
        await asyncio.to_thread(cluster.start)
    assert done.returncode == 1
    assert " slots, projects unknown" in done.stdout
    assert "projects: cannot be listed" in done.stdout
    assert f"with the keys of the fleet, is on 127.0.0.1:{fleet.port} (shard 0), which does not answer" in done.stdout
    assert (audited.returncode, audited.stdout[-18:]) == (0, "everything agrees\n"), audited.stderr
    assert projects.returncode == 6
    assert project in projects.stdout
    assert "not seen: the list of projects" in projects.stderr


async def test_a_drain_names_what_it_cannot_see(
    store: Store, cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    async def drained() -> str:
        assert await drain_scope(Settings(redis_timeout_ms=1000), cluster.url, FLEET_SCOPE, 0, end=False) == 1
        return capsys.readouterr().out

    project = project_on(cluster, cluster.nodes[2], "drained")
    assert await Client(store, project).add()
    stopped = cluster.nodes[1]
    assert stopped.pid is not None
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        assert f"what is on shard 1 (127.0.0.1:{stopped.port}) cannot be seen" in await drained()
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    slot = slot_of(project)
    await wait_until(lambda: forgotten(cluster, slot), what="nobody to have the slot")
    try:
        assert "what is on 1 slot that no node has cannot be seen" in await drained()
        facts = await read_cluster(parse(cluster.url), 2.0, count_strays=True)
        assert facts.uncovered == [str(slot)]
        kept = facts.nodes[2].stray_keys
        assert list(kept) == [str(slot)]
        assert kept[str(slot)] > 1, "the keys are still there"
    finally:
        with cluster.nodes[2].client() as client:
            client.execute_command("CLUSTER", "ADDSLOTS", slot)
        await wait_until(lambda: agreed(cluster, slot), what="the slot's owner, everywhere")
        assert await drain_scope(Settings(redis_timeout_ms=1000), cluster.url, FLEET_SCOPE, 0, end=True) == 0


async def forgotten(cluster: EmbeddedCluster, slot: int) -> bool:
    """Has nodes forget who has a slot, the owner first; False: one still knew it, as by a late message of the owner."""
    known = False
    for node in reversed(cluster.nodes):
        with node.client() as client:
            if owner_port(client, slot):
                known = True
                client.execute_command("CLUSTER", "DELSLOTS", slot)
    return not known


async def agreed(cluster: EmbeddedCluster, slot: int) -> bool:
    facts = await read_cluster(parse(cluster.url), 2.0)
    return facts.owners[slot] == 2 and all(node.state == "ok" and not node.differs for node in facts.nodes)


async def test_a_removed_demo_leaves_no_project_behind(store: Store, cluster: EmbeddedCluster) -> None:
    async with new_project(cluster.url, None) as (_, project):
        assert await Client(store, project).add()
        assert project in await listed(store.command_of)
    assert project not in await listed(store.command_of), "doctor would report it as emptied"


@pytest.mark.parametrize("password", ["", ":wrong@"])
async def test_a_refused_password_is_named(cluster: EmbeddedCluster, password: str) -> None:
    url = f"redis+cluster://{password}{cluster.url.partition('@')[2]}"
    why = "wrong user or password" if password else "a password is needed"
    with pytest.raises(AccessRefused, match=why):
        await read_cluster(parse(url), 2.0)
    with pytest.raises(AccessRefused, match=why):
        await Store(url).open()


def test_the_url_of_one_node_is_refused_at_once(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    url = f"redis://{cluster.url.partition('://')[2].partition(',')[0]}"
    for command in ("worker", "doctor"):
        done = fleet_command(command, FLEET_REDIS_URL=url, FLEET_DATA_DIR=str(tmp_path))
        assert done.returncode == 2
        assert "is a node of a cluster; its URL is redis+cluster://" in done.stderr


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
