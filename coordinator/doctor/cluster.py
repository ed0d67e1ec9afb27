"""Checks every node of a cluster, and names those that could not be checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from coordinator.doctor import store
from coordinator.doctor.findings import Finding, page_of, some
from coordinator.store import keys
from coordinator.store.cluster.facts import ClusterFacts, NodeFacts
from coordinator.store.cluster.places import Marks
from coordinator.store.link.connection import FRESH
from coordinator.store.link.slot_map import slot_of
from coordinator.wording import counted

NODE_SECONDS = 2.0
"""How long a node may take to answer."""
_STRAY = (
    "they are left from a move that went wrong, and nothing is served from them; delete them there once `fleet audit` "
    "agrees with the projects of these slots"
)
_NAMES = (
    "nodes must announce names that resolve here and that their certificates cover (cluster-announce-hostname, "
    "cluster-preferred-endpoint-type hostname); address_map in the URL names other addresses, tls_name another name"
)


def check_cluster(facts: ClusterFacts, timeout: float, projects: Iterable[str] = ()) -> Iterator[Finding]:
    """What is found about a cluster.

    Args:
        timeout: seconds that a call of our processes may take.
    """
    for node in facts.away:
        said = f"the {node.role} {node.place} {_of(node)} does not answer, and was not checked: {node.away}"
        names = any(word in node.away for word in ("certificate", "Name or service", "nodename", "name resolution"))
        alert = "StoreShardDown" if node.role == "primary" else ""
        advice = _NAMES if names else ""
        yield Finding("fails", "cluster.nodes", said, advice, alert, page_of(alert) if alert else "")
    for place in facts.strangers:
        said = f"the URL names {place}, which is no node of this cluster any more"
        yield Finding("warns", "cluster.nodes", said, "take it out of the URL")
    if not facts.away and not facts.strangers:
        yield Finding("ok", "cluster.nodes", f"all {len(facts.nodes)} answer")
    for what, tag in (("the fleet", keys.FLEET), ("the queues of steps", keys.QUEUE)):
        primary = facts.primary_of(tag)
        where = f"{primary.place} {_of(primary)}" if primary else "no node"
        silent = ", which does not answer" if primary and primary.away else ""
        said = f"slot {slot_of(tag)}, with the keys of {what}, is on {where}{silent}"
        yield Finding("ok" if primary and not primary.away else "fails", "cluster.slots", said)
    yield from _slots(facts, projects)
    yield from _replicas(facts)
    for node in facts.nodes:
        if not node.away:
            yield from _node(node, timeout)


def check_marks(marks: Marks) -> Iterator[Finding]:
    """Whether the projects of a cluster are those that the fleet had."""
    what = "cluster.projects"
    if marks.lost:
        said = f"emptied, or of another store: {some(marks.lost)}"
        yield Finding("fails", what, said, "bring their shards back, or accept them as they are: fleet store accept")
    if marks.unseen:
        yield Finding("fails", what, f"not seen, because their keys cannot be read now: {some(marks.unseen)}")
    if not marks.lost and not marks.unseen:
        yield Finding("ok", what, f"{counted(marks.kept, 'project')}, all as the fleet had them")


def check_guard(projects: list[str]) -> Iterator[Finding]:
    """What keeps scripts off a project while its slot is moved; ``projects`` have a key that must not exist."""
    if projects:
        said = f"a key with nothing behind its prefix exists, which no release writes: {some(projects)}"
        advice = "delete it (DEL fc:{PROJECT}:): while it exists, scripts run on a part of a project that is moved"
        yield Finding("fails", "cluster.projects", said, advice)


def _slots(facts: ClusterFacts, projects: Iterable[str]) -> Iterator[Finding]:
    what, by_slot = "cluster.slots", defaultdict[int, list[str]](list)
    for project in projects:
        by_slot[slot_of(project)].append(project)
    lost = sorted(name for slot, names in by_slot.items() if facts.owners[slot] < 0 for name in names)
    if facts.uncovered:
        named = f"; known: {some(lost)}" if lost else ""
        said = f"no node has the slots {some(facts.uncovered)}: calls for projects there fail{named}"
        yield Finding("fails", what, said, "", "StoreSlotsUncovered", page_of("StoreSlotsUncovered"))
    for node in facts.nodes:
        for slot, way in node.moving.items():
            inside = f" ({some(sorted(by_slot[int(slot)]))})" if int(slot) in by_slot else ""
            said = f"slot {slot} of {node.place} moves {way}: its projects{inside} are not served until it is there"
            yield Finding("warns", what, said, "finish the move; see the runbook StoreRedirects")
        if node.differs:
            said = f"{node.place} says of {counted(node.differs, 'slot')} that another node has it, or none"
            advice = "wait for a failover or a move to end; else compare CLUSTER NODES of both"
            yield Finding("warns", what, said, advice)
        if "" in node.stray_keys:
            yield Finding("fails", what, f"{node.place} did not count its keys in slots of others")
            continue
        stray, only = list[str](), list[str]()
        for slot, number in node.stray_keys.items():
            (stray if facts.owners[int(slot)] >= 0 else only).append(f"{number} in slot {slot}")
        if stray:
            yield Finding("warns", what, f"{node.place} has keys in slots of others: {some(stray)}", _STRAY)
        if only:
            said = f"{node.place} has keys in slots that no node has: {some(only)}"
            yield Finding("fails", what, said, "give it these slots back: CLUSTER ADDSLOTS on it")
    if not facts.uncovered and not any(node.moving or node.differs or node.stray_keys for node in facts.nodes):
        yield Finding("ok", what, "all are there, none is on its way, and no keys are in slots of others")


def _replicas(facts: ClusterFacts) -> Iterator[Finding]:
    for primary in facts.primaries:
        replicas = [node for node in facts.nodes if node.role == "replica" and node.shard == primary.shard]
        yield from _needed_replicas(primary, len(replicas))
        if not any(not node.away and node.linked for node in replicas):
            said = (
                f"shard {primary.shard} has no replica that follows {primary.place}: if that is lost, so are its data"
            )
            yield Finding("warns", "cluster.replicas", said, "give each primary a replica on another host")
        elif all(node.place.rpartition(":")[0] == primary.place.rpartition(":")[0] for node in replicas):
            said = f"all replicas of shard {primary.shard} are on the host of its primary"
            yield Finding("note", "cluster.replicas", said, "put one on another host")


def _needed_replicas(primary: NodeFacts, replicas: int) -> Iterator[Finding]:
    """Whether a primary waits for replicas where it should, and where that does not stop it after a failover."""
    needed = primary.config.get("min-replicas-to-write", "")
    if replicas > 1 and needed == "0":
        said = f"shard {primary.shard} takes writes that none of its {replicas} replicas has: a failover loses these"
        advice = "set min-replicas-to-write 1, with min-replicas-max-lag as low as the network allows"
        yield Finding("warns", "cluster.replicas", said, advice)
    elif replicas <= 1 and needed not in ("", "0"):
        said = f"shard {primary.shard} takes no writes after a failover until the node that was lost is back"
        advice = "set min-replicas-to-write 0, or give it a second replica"
        yield Finding("warns", "cluster.replicas", said, advice)


def _node(node: NodeFacts, timeout: float) -> Iterator[Finding]:
    at = f"{node.place} {_of(node)}"
    if node.state != "ok":
        yield Finding("fails", "cluster.state", f"{at} says that the cluster is {node.state}")
    if node.no_functions:
        said = f"{at} does not list its functions: {node.no_functions}"
        advice = "allow FUNCTION and FCALL; services that refuse them (OCI Cache, sharded) cannot be the store"
        yield Finding("fails", "cluster.functions", said, advice)
    elif node.lacking:
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
