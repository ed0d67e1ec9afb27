"""Primaries of a cluster die, stall or hand over while agents work."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import Store, StoreUnreachable
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.link.slot_map import slot_of
from tests.cluster.load import Load
from tests.store.calls import BUMP
from tests.support.cluster import kill, leads, primary_of, replicas_of, replicate, stopped
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def promotion(node: Node) -> None:
    """Waits until a replica has become a primary."""
    await wait_until(lambda: leads(node), what="the replica to take over")


async def test_a_killed_primary_loses_at_most_its_last_writes(cluster: EmbeddedCluster, projects: list[str]) -> None:
    gone, *others = projects
    node = primary_of(cluster, slot_of(gone))
    (replica,) = replicas_of(cluster, node)
    async with Load(cluster.url, projects) as load:
        secured = monotonic()
        await asyncio.to_thread(replicate, node, gone)
        await load.goes_on()
        kill(node)
        await load.goes_on(others, 60)
        assert not await asyncio.to_thread(leads, replica), "the others have waited for it"
        await promotion(replica)
        until = monotonic()
        await load.goes_on()
        await load.check([gone], secured, until)
    await asyncio.to_thread(cluster.start)


async def test_a_primary_that_stalled_past_its_failover_acknowledges_nothing_more(
    cluster: EmbeddedCluster, projects: list[str]
) -> None:
    """Neither on busy connections nor on one that was idle meanwhile."""
    gone, *others = projects
    node = primary_of(cluster, slot_of(gone))
    (replica,) = replicas_of(cluster, node)
    idle = Store(cluster.url, timeout_ms=500)
    await idle.open()
    try:
        assert await idle.run(BUMP, gone, "count") == 1
        async with Load(cluster.url, projects) as load:
            secured = monotonic()
            await asyncio.to_thread(replicate, node, gone)
            with stopped(node):
                await load.goes_on(others, 60)
                await promotion(replica)
                until = monotonic()
            counts = await asyncio.gather(*(bumped(idle, gone) for _ in range(50)))
            await load.goes_on()
            counts.append(await wait_until(lambda: bumped(idle, gone), what="an answer"))
            acknowledged = [count for count in counts if count]
            assert len(acknowledged) == len(set(acknowledged))
            assert await idle.command("GET", f"fc:{{{gone}}}:q:count") == b"%d" % max(acknowledged)
            await load.check([gone], secured, until)
    finally:
        await idle.close()


async def test_a_planned_failover_loses_nothing(cluster: EmbeddedCluster, projects: list[str]) -> None:
    node = primary_of(cluster, slot_of(projects[0]))
    (replica,) = replicas_of(cluster, node)
    async with Load(cluster.url, projects) as load:
        with replica.client() as client:
            client.execute_command("CLUSTER", "FAILOVER")
        await promotion(replica)
        await load.goes_on(count=30)
        await load.check()


@pytest.mark.chaos
async def test_a_minority_refuses_and_a_restart_of_all_nodes_keeps_everything(
    cluster: EmbeddedCluster, projects: list[str]
) -> None:
    alone = projects[0]
    node = primary_of(cluster, slot_of(alone))
    async with Load(cluster.url, projects) as load:
        for other in cluster.nodes:
            if other is not node:
                kill(other)
        await load.is_refused(alone, "is a cluster that is down")
        acknowledged = len(load.done[alone])
        await load.is_refused(alone, "is a cluster that is down")
        assert len(load.done[alone]) == acknowledged
        kill(node)
        with pytest.raises(StoreUnreachable, match="answers with a map"):
            await Store(cluster.url, timeout_ms=500).open()
        await asyncio.to_thread(cluster.start)
        await load.goes_on()
        await load.check()


async def bumped(store: Store, project: str) -> int:
    """The result of a call that counts one up; 0: it was refused."""
    try:
        return int(await store.run(BUMP, project, "count"))
    except ToolFailure:
        return 0
