"""What ``fleet doctor`` says of the facts of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.doctor.cluster import check_cluster, check_guard
from coordinator.doctor.findings import Finding, some
from coordinator.store import keys
from coordinator.store.cluster.facts import ClusterFacts, NodeFacts
from coordinator.store.link.slot_map import SLOTS, slot_of
from tests.doctor.servers import GOOD_CONFIG, GOOD_INFO

GOOD = GOOD_CONFIG | {"cluster-node-timeout": "5000", "min-replicas-to-write": "0"}
AWAY: dict[str, Any] = {"info": {}, "config": {}, "state": ""}


def node(shard: int, role: str = "primary", host: str = "", **fields: Any) -> NodeFacts:
    host = host or f"10.0.{0 if role == 'primary' else 1}.{shard}"
    stated = {"info": GOOD_INFO, "config": GOOD, "state": "ok"} | fields
    return NodeFacts(id=f"{role}{shard}", place=f"{host}:6379", role=role, shard=shard, slots=1, **stated)


def cluster(*changed: NodeFacts, owners: dict[int, int] | None = None, **facts: Any) -> ClusterFacts:
    """Two shards with a replica each on another host, all well, but for what is stated."""
    nodes = {one.id: one for shard in range(2) for one in (node(shard), node(shard, "replica"))}
    nodes |= {one.id: one for one in changed}
    owned = [slot * 2 // SLOTS for slot in range(SLOTS)]
    for slot, owner in (owners or {}).items():
        owned[slot] = owner
    return ClusterFacts(nodes=list(nodes.values()), owners=owned, **facts)


def wrong(facts: ClusterFacts, *projects: str) -> list[Finding]:
    return [one for one in check_cluster(facts, 1.5, projects) if one.verdict != "ok"]


def test_a_cluster_in_which_all_is_well_is_silent_and_names_special_slots() -> None:
    assert wrong(cluster()) == []
    said = [one.said for one in check_cluster(cluster(), 1.5)]
    for tag in (keys.FLEET, keys.QUEUE):
        slot = slot_of(tag)
        place = f"10.0.0.{slot * 2 // SLOTS}:6379"
        assert any(f"slot {slot}, with the keys of " in one and place in one for one in said)


LOST = slot_of("lost")
CASES: list[tuple[ClusterFacts, str, str]] = [
    (cluster(node(0, away="no answer within 2 s", **AWAY)), "fails", "10.0.0.0:6379 (shard 0) does not answer"),
    (cluster(node(0, away="x", **AWAY)), "fails", "with the keys of the fleet, is on 10.0.0.0:6379 (shard 0), which"),
    (cluster(strangers=["10.9.9.9:6379"]), "warns", "the URL names 10.9.9.9:6379, which is no node of this cluster"),
    (cluster(uncovered=[str(LOST)], owners={LOST: -1}), "fails", "calls for projects there fail; known: lost"),
    (cluster(node(1, moving={str(LOST): "to 10.0.0.0:6379"})), "warns", "to 10.0.0.0:6379: its projects (lost) are"),
    (cluster(node(1, differs=3)), "warns", "10.0.0.1:6379 says of 3 slots that another node has it, or none"),
    (cluster(node(1, stray_keys={"7": 2})), "warns", "has keys in slots of others: 2 in slot 7"),
    (cluster(node(1, stray_keys={"7": 2}), uncovered=["7"], owners={7: -1}), "fails", "that no node has: 2 in slot 7"),
    (cluster(node(1, stray_keys={"": -1})), "fails", "10.0.0.1:6379 did not count its keys in slots of others"),
    (cluster(node(1, "replica", host="10.0.0.1")), "note", "all replicas of shard 1 are on the host of its primary"),
    (cluster(node(1, "replica", away="x", **AWAY)), "warns", "shard 1 has no replica that follows 10.0.0.1:6379"),
    (cluster(node(1, "replica", linked=False)), "fails", "(shard 1) is not connected to its primary"),
    (cluster(node(1, state="fail")), "fails", "says that the cluster is fail"),
    (cluster(node(1, lacking=2)), "note", "lacks 2 function libraries of this release"),
    (cluster(node(1, no_functions="unknown command")), "fails", "does not list its functions: unknown command"),
    (cluster(node(1, "replica", config=GOOD | {"cluster-node-timeout": "2000"})), "warns", "node-timeout is 2 s"),
    (cluster(node(1, config=GOOD | {"cluster-require-full-coverage": "yes"})), "warns", "one lost shard stops all"),
    (cluster(node(1, "replica", info={**GOOD_INFO, "aof_enabled": 0})), "fails", "10.0.1.1:6379 (shard 1): the append"),
    (cluster(node(1, info={**GOOD_INFO, "redis_version": "6.2.1"})), "fails", "10.0.0.1:6379 (shard 1): Redis 6.2.1"),
    (cluster(node(1, config={**GOOD, "maxmemory-policy": "allkeys-lru"})), "fails", "maxmemory-policy is allkeys-lru"),
    (cluster(node(1, "replica", clock_seconds=9.0)), "warns", "the server's clock is +9.0 s off"),
    (cluster(node(1, latency_ms=30.0)), "warns", "a PING takes 30.0 ms"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "verdict", "said"), CASES, ids=[one[2][:40] for one in CASES])
def test_what_is_wrong_is_named(facts: ClusterFacts, verdict: str, said: str) -> None:
    found = wrong(facts, "lost", "other")
    assert [one.verdict for one in found if said in one.said] == [verdict], found


def test_a_primary_waits_for_replicas_only_where_that_does_not_stop_it() -> None:
    waits = node(1, config=GOOD | {"min-replicas-to-write": "1"})
    (found,) = wrong(cluster(waits))
    assert (found.verdict, "no writes after a failover" in found.said) == ("warns", True)
    second = NodeFacts(
        id="second", place="10.0.2.1:6379", role="replica", shard=1, info=GOOD_INFO, config=GOOD, state="ok"
    )
    assert wrong(cluster(waits, second)) == []
    (found,) = wrong(cluster(second))
    assert (found.verdict, "none of its 2 replicas has" in found.said) == ("warns", True)


def test_a_node_whose_name_is_not_known_here_needs_another_name() -> None:
    (found,) = (
        one
        for one in wrong(cluster(node(0, away="Error -2 connecting to x:6379. Name or service not known.", **AWAY)))
        if one.what == "cluster.nodes"
    )
    assert "cluster-announce-hostname" in found.advice
    assert "address_map" in found.advice


def test_a_key_by_the_bare_prefix_is_reported() -> None:
    assert list(check_guard([])) == []
    (found,) = check_guard(["default"])
    assert (found.verdict, found.said[-7:]) == ("fails", "default")


def test_of_many_names_the_first_are_shown() -> None:
    assert some([str(n) for n in range(25)]).endswith("19 and 5 more")
