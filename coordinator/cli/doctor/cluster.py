"""Checks every node of a cluster, and names those that could not be checked."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from coordinator.cli.doctor import store
from coordinator.cli.doctor.findings import Finding
from coordinator.cli.terminal import counted
from coordinator.store.cluster_facts import ClusterFacts, NodeFacts
from coordinator.store.connection import FRESH
from coordinator.store.places import Marks

_SHOWN = 20


def check_cluster(facts: ClusterFacts, timeout: float) -> Iterator[Finding]:
    """What is found about a cluster.

    Args:
        timeout: seconds that a call of our processes may take.
    """
    for node in facts.away:
        said = f"the {node.role} {node.place} {_of(node)} does not answer, and was not checked: {node.away}"
        yield Finding("fails", "cluster.nodes", said, "see the runbook StoreShardDown")
    if not facts.away:
        yield Finding("ok", "cluster.nodes", f"all {len(facts.nodes)} answer")
    yield from _slots(facts)
    yield from _replicas(facts)
    for node in facts.nodes:
        if not node.away:
            yield from _node(node, timeout)


def check_marks(marks: Marks) -> Iterator[Finding]:
    """Whether the projects of a cluster are those that the fleet had."""
    what = "cluster.projects"
    if marks.lost:
        said = f"emptied, or of another store: {_some(marks.lost)}"
        yield Finding("fails", what, said, "bring their shards back, or accept them as they are: fleet store accept")
    if marks.unseen:
        yield Finding("fails", what, f"not seen, because their shards do not answer: {_some(marks.unseen)}")
    if not marks.lost and not marks.unseen:
        yield Finding("ok", what, f"{counted(marks.kept, 'project')}, all as the fleet had them")


def _slots(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.uncovered:
        yield Finding(
            "fails",
            "cluster.slots",
            f"no node has the slots {_some(facts.uncovered)}: calls for projects there fail",
            "see the runbook StoreSlotsUncovered",
        )
    for node in facts.nodes:
        for slot, way in node.moving.items():
            yield Finding(
                "warns",
                "cluster.slots",
                f"slot {slot} of {node.place} is on its way {way}: its projects are away until it is there",
                "finish the move, or end it on both nodes: CLUSTER SETSLOT ... STABLE",
            )
    if not facts.uncovered and not any(node.moving for node in facts.nodes):
        yield Finding("ok", "cluster.slots", "all are there, and none is on its way")


def _replicas(facts: ClusterFacts) -> Iterator[Finding]:
    for primary in facts.primaries:
        replicas = [one for one in facts.nodes if one.role == "replica" and one.shard == primary.shard]
        if not any(not one.away and one.linked for one in replicas):
            said = (
                f"shard {primary.shard} has no replica that follows {primary.place}: if that is lost, so are its data"
            )
            yield Finding("warns", "cluster.replicas", said, "give each primary a replica on another host")
        elif any(one.place.rpartition(":")[0] == primary.place.rpartition(":")[0] for one in replicas):
            said = f"a replica of shard {primary.shard} is on the host of its primary"
            yield Finding("note", "cluster.replicas", said)


def _node(node: NodeFacts, timeout: float) -> Iterator[Finding]:
    at = f"{node.place} {_of(node)}"
    if node.state != "ok":
        yield Finding("fails", "cluster.state", f"{at} says that the cluster is {node.state}")
    if node.lacking:
        said = f"{at} lacks {counted(node.lacking, 'function library', 'function libraries')} of this release"
        yield Finding("note", "cluster.functions", f"{said}; the first call loads them")
    if node.role == "replica" and not node.linked:
        yield Finding("fails", "cluster.replicas", f"the replica {at} is not connected to its primary")
    limit = int(node.config.get("cluster-node-timeout") or 0) / 1000
    if limit and FRESH * timeout >= limit:
        yield Finding(
            "warns",
            "cluster.timeout",
            f"{at}: cluster-node-timeout is {limit:g} s, and redis_timeout_ms {timeout * 1000:.0f}: writes to a "
            "primary that froze can be acknowledged and lost",
            f"set cluster-node-timeout to over {FRESH} times redis_timeout_ms",
        )
    for name, wanted, why in (
        ("cluster-require-full-coverage", "no", "one lost shard stops all others"),
        ("cluster-allow-reads-when-down", "no", "a node that was cut off answers with what is out of date"),
    ):
        if node.config.get(name, wanted) != wanted:
            yield Finding("warns", "cluster.settings", f"{at}: {name} is not {wanted}: {why}", f"set it to {wanted}")
    for finding in store.check_node(node.info, node.config, node.latency_ms, node.clock_seconds):
        what = finding.what.replace("store.", "cluster.")
        yield msgspec.structs.replace(finding, what=what, said=f"{at}: {finding.said}")


def _of(node: NodeFacts) -> str:
    return f"(shard {node.shard})" if node.shard >= 0 else "(without slots)"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
