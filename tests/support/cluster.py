"""What tests of a cluster share: which node has a slot, and how slots and keys get elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.link.slot_map import slot_of
from tests.support.wait import wait_until_sync


def primary_of(cluster: EmbeddedCluster, slot: int) -> Node:
    """The node that has a slot, as the first one that answers says."""
    for node in cluster.nodes:
        if node.poll() is None:
            with node.client() as client:
                for first, last, place, *_ in client.execute_command("CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        return next(one for one in cluster.nodes if one.port == place[1])
    raise AssertionError(f"no node has slot {slot}")


def project_on(cluster: EmbeddedCluster, node: Node, name: str) -> str:
    """The name of a project whose keys are on a node."""
    return next(one for n in range(10_000) if primary_of(cluster, slot_of(one := f"{name}-{n}")) is node)


def serves(client: Any, nodes: int) -> bool:
    """Whether a node takes calls in a cluster of so many nodes. It refuses them for a while after it has heard of all
    slots."""
    facts = client.execute_command("CLUSTER", "INFO").decode().split()
    return {"cluster_state:ok", f"cluster_known_nodes:{nodes}"} <= set(facts)


def leads(node: Node) -> bool:
    """Whether a node is a primary."""
    with node.client() as client:
        return bool(client.execute_command("ROLE")[0] == b"master")


def kill(node: Node) -> None:
    """Kills a node and waits for its end."""
    assert node.pid is not None
    os.kill(node.pid, signal.SIGKILL)
    wait_until_sync(lambda: node.poll() is not None, what="the node's end")


@contextmanager
def stopped(node: Node) -> Iterator[None]:
    """The node stands still meanwhile."""
    assert node.pid is not None
    os.kill(node.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.pid, signal.SIGCONT)


def replicas_of(cluster: EmbeddedCluster, node: Node) -> list[Node]:
    """The replicas that a primary is connected to."""
    with node.client() as client:
        ports = {int(port) for _, port, _ in client.execute_command("ROLE")[2]}
    return [one for one in cluster.nodes if one.port in ports]


def replicate(node: Node, tag: str) -> None:
    """Waits until the replica of a primary has all writes so far. ``tag`` is that of keys on the node."""
    with node.client() as client:
        client.set(f"fc:{{{tag}}}:replicated", "1", px=1)  # WAIT is about the writes of its connection
        assert client.execute_command("WAIT", 1, 5000) == 1


def node_id(client: Any) -> str:
    """The id of a node in its cluster."""
    return str(client.execute_command("CLUSTER", "MYID").decode())


def move_keys(ours: Any, theirs: Any, port: int, slot: int, count: int) -> None:
    """Moves keys of a slot, as redis-cli does."""
    password = theirs.connection_pool.connection_kwargs["password"]
    found = ours.execute_command("CLUSTER", "GETKEYSINSLOT", slot, count)
    if found:
        ours.execute_command("MIGRATE", "127.0.0.1", port, "", 0, 5000, "AUTH", password, "KEYS", *found)


def move_slot(source: Node, target: Node, slot: int, *, with_keys: bool = True) -> None:
    """Moves a slot; without its keys, they are lost."""
    with source.client() as ours, target.client() as theirs:
        theirs.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(ours))
        ours.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(theirs))
        if with_keys:
            move_keys(ours, theirs, target.port, slot, 10_000)
        for client in (theirs, ours) if with_keys else (theirs,):
            client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(theirs))


def move_slot_at_once(source: Node, target: Node, slot: int) -> None:
    """Moves a slot as Valkey 9 can: the source serves it until the target has all of it."""
    with source.client() as ours, target.client() as theirs:
        to = node_id(theirs)
        ours.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", to)
        wait_until_sync(
            lambda: owner_port(ours, slot) == owner_port(theirs, slot) == target.port, what="the slot to move"
        )


def owner_port(client: Any, slot: int) -> int:
    """The port of a slot's owner, as a node says; 0: it knows none."""
    rows = client.execute_command("CLUSTER", "SLOTS")
    return next((int(place[1]) for first, last, place, *_ in rows if first <= slot <= last), 0)
