"""A fleet of real processes on a cluster whose primaries are killed: flows end with each step once, others go on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.store import Store, keys
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.link.slot_map import slot_of
from coordinator.toolsets.flows.rules import spec
from coordinator.toolsets.items.audit import audit
from tests.support.cluster import kill, leads, move_slot_at_once, primary_of, project_on, replicas_of
from tests.support.fleets import RunningCommand, once
from tests.support.project_client import InProject
from tests.support.wait import wait_until_sync
from tests.workers.fleet import Flows, assert_recorded_once, chain, sleep

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

FLOW: spec.Flow = chain(*[sleep(200)] * 5)
FLOWS = 30


@pytest.fixture
def port(cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[int]:
    """Of two front-ends; beside them are two workers."""
    env = {
        "FLEET_REDIS_URL": cluster.url,
        "FLEET_DATA_DIR": str(tmp_path / "data"),
        "FLEET_REDIS_TIMEOUT_MS": "500",
        "FLEET_FLOWS_DEMO_TOOLS": "true",
    }
    with (
        RunningCommand(tmp_path / "serve", "serve", "--port", "0", "--frontends", "2", **env) as serve,
        RunningCommand(tmp_path / "first", "worker", **env) as first,
        RunningCommand(tmp_path / "second", "worker", **env) as second,
    ):
        for worker in (first, second):
            worker.wait_ready()
        yield int(serve.wait_ready().split("ready at ")[1].split()[0].rsplit(":", 1)[1])
        assert [one.end() for one in (first, second, serve)] == [0, 0, 0]


async def test_flows_end_once_although_the_queues_move_and_their_shard_dies(
    cluster: EmbeddedCluster, port: int
) -> None:
    queues = slot_of(keys.QUEUE)
    source = primary_of(cluster, queues)
    target, third = (node for node in cluster.nodes if node is not source and leads(node))
    projects = [project_on(cluster, node, "flows") for node in (source, third)]
    store = Store(cluster.url, timeout_ms=500)
    await store.open()
    try:
        begun: dict[str, list[int]] = {project: [] for project in projects}
        for project in projects * 2:
            begun[project] += [await Flows(store, project).create(FLOW) for _ in range(FLOWS // 2)]
            if project == projects[0] and len(begun[project]) > FLOWS // 2:
                await asyncio.to_thread(move_slot_at_once, source, target, queues)
        kill(target)
        assert "running" in {(await Flows(store, one).get(begun[one][-1])).row.status for one in projects}
        for project, flows in begun.items():
            watched = Flows(store, project)
            for record in await watched.ended(flows):
                assert_recorded_once(record, list(FLOW))
            done = Counter(event["s"] for event in await watched.events("step_done"))
            assert set(done.values()) == {1}
            assert await watched.events("step_lost") == [], "the failover was taken for a crash"
            assert (await audit(store, project)).differences == []
    finally:
        await store.close()


async def test_claims_go_on_while_the_shard_of_the_fleet_fails_over(cluster: EmbeddedCluster, port: int) -> None:
    node = primary_of(cluster, slot_of(keys.FLEET))
    (replica,) = replicas_of(cluster, node)
    others = [one for one in cluster.nodes if one is not node and leads(one)]
    projects = [project_on(cluster, one, "beside") for one in others]
    with InProject(port, projects[0]) as one, InProject(port, projects[1]) as two:
        assert [client.work() for client in (one, two)] == ["terminal"] * 2
        kill(node)
        rounds = 0
        while not leads(replica):
            assert [client.work() for client in (one, two)] == ["terminal"] * 2
            assert once(port, "/readyz")[0] == 200
            rounds += 1
        assert rounds > 3
        with InProject(port, project_on(cluster, replica, "new")) as new:
            wait_until_sync(lambda: new.work() == "terminal", what="the shard of the fleet")
        assert one.flow_done()
    async with asyncio.timeout(60):
        store = Store(cluster.url, timeout_ms=5000)
        await store.open()
        for project in projects:
            assert (await audit(store, project)).differences == []
        await store.close()
