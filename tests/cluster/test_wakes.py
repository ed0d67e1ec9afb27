"""A message to a call that waits may be lost between the nodes of a cluster: the call gets its item nevertheless. If a
node gets none any more, the process listens at another one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from coordinator.store import keys
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.link.slot_map import slot_of
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.items.parked import Front
from tests.support.cluster import primary_of, project_on
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

PUBLISHED, NONE = 4, -1
"""Kinds of messages between nodes that a node drops."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Two shards, whose nodes take DEBUG commands."""
    config = Node.config

    def debugging(node: Node, settings: list[tuple[str, str]], password: str) -> str:
        return config(node, [*settings, ("enable-debug-command", "yes")], password)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Node, "config", debugging)
        with EmbeddedCluster(tmp_path_factory.mktemp("pair"), 2, fsync="everysec") as cluster:
            yield cluster


def subscribers(node: Node) -> int:
    with node.client() as client:
        return int(client.execute_command("INFO", "clients")["pubsub_clients"])


async def test_a_call_whose_message_was_lost_asks_again(pair: EmbeddedCluster) -> None:
    hears = primary_of(pair, slot_of(keys.FLEET))
    (publishes,) = (node for node in pair.nodes if node is not hears)
    front = Front(pair.url, project_on(pair, publishes, "waits"))
    await front.store.open()
    try:
        with hears.client() as node:
            for lost, asks in ((False, 0), (True, 1), (False, 0), (True, 1), (True, 1), (True, 0)):
                if lost and not asks:
                    await wait_until(lambda: subscribers(publishes) == 1, what="the subscription to be elsewhere")
                call = await front.park("agent")
                before = front.runs["claim_next"]
                node.execute_command("DEBUG", "DROP-CLUSTER-PACKET-FILTER", PUBLISHED if lost else NONE)
                item = await Client(front.store, front.project).add()
                async with asyncio.timeout(20):  # its own end comes after a minute
                    assert await call.item() == item
                assert front.runs["claim_next"] == before + asks
                assert (await front.release("agent", item))["outcome"] == "success"
                await front.move(item, "complete")
        assert (await audit(front.store, front.project)).differences == []
    finally:
        await front.close()
