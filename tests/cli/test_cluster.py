"""A fleet on a cluster of which one shard is stopped: its projects are refused, and no others notice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from coordinator.store import keys
from coordinator.store.embedded.cluster import EmbeddedCluster, Node
from coordinator.store.link.slot_map import slot_of
from tests.support.cluster import primary_of, project_on, stopped
from tests.support.fleets import RunningCommand, fleet_command, once, scrape
from tests.support.project_client import InProject
from tests.support.wait import wait_until_sync


class Fleet(NamedTuple):
    cluster: EmbeddedCluster
    env: dict[str, Any]
    port: int
    fleet: Node
    """Has the keys of the fleet."""
    queue: Node
    """Has RQ's queues."""
    rest: Node
    """Has neither."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory = tmp_path_factory.mktemp("fleet")
    with EmbeddedCluster(directory / "shards", 3, fsync="everysec") as cluster:
        env: dict[str, Any] = {
            "FLEET_REDIS_URL": cluster.url,
            "FLEET_DATA_DIR": str(directory / "data"),
            "FLEET_REDIS_TIMEOUT_MS": "500",
        }
        first, second = (primary_of(cluster, slot_of(tag)) for tag in (keys.FLEET, keys.QUEUE))
        (rest,) = (node for node in cluster.nodes if node not in (first, second))
        with (
            RunningCommand(directory / "serve", "serve", "--port", "0", "--frontends", "1", **env) as serve,
            RunningCommand(directory / "worker", "worker", **env) as worker,
        ):
            worker.wait_ready()
            port = int(serve.wait_ready().split("ready at ")[1].split()[0].rsplit(":", 1)[1])
            yield Fleet(cluster, env, port, first, second, rest)
            assert worker.end() == 0
            assert serve.end() == 0


def away(fleet: Fleet) -> list[float]:
    """Of each shard, how many front-ends are not connected to it."""
    found = scrape(fleet.port)
    return [found[f"coordinator_store_shard_away{{shard={shard}}}"] for shard in range(3)]


def test_a_stopped_shard_stops_its_projects_only(fleet: Fleet) -> None:
    names = [project_on(fleet.cluster, node, "work") for node in (fleet.rest, fleet.fleet, fleet.queue)]
    with (
        InProject(fleet.port, names[0]) as gone,
        InProject(fleet.port, names[1]) as one,
        InProject(fleet.port, names[2]) as two,
    ):
        assert [client.work() for client in (gone, one, two)] == ["terminal"] * 3
        with stopped(fleet.rest):
            codes = {gone.work() for _ in range(30)}
            assert codes == {"store_unavailable"}
            assert {client.work() for _ in range(30) for client in (one, two)} == {"terminal"}
            assert one.flow_done()
            assert once(fleet.port, "/readyz")[0] == 200
            assert wait_until_sync(lambda: away(fleet) == [0, 0, 1], what="the metric")
            found = scrape(fleet.port)
            assert found["coordinator_store_slots_uncovered"] == 0, "a node that is stopped has its slots"
            assert found["coordinator_store_torn_scripts_total"] == 0
            shown = fleet_command("top", "--once", "--url", f"http://127.0.0.1:{fleet.port}")
            assert "shards unreachable: 2" in shown.stdout, shown.stderr
            unmeasured = "not known while shards are unreachable: 2"
            assert ", without shard 2" in shown.stdout or unmeasured in shown.stdout
        assert wait_until_sync(lambda: away(fleet) == [0, 0, 0], what="the metric")
        assert wait_until_sync(lambda: gone.work() == "terminal", what="the shard that goes on")


def test_without_the_shard_of_the_fleet_known_projects_work_and_so_do_their_flows(fleet: Fleet) -> None:
    names = [project_on(fleet.cluster, node, "known") for node in (fleet.rest, fleet.queue)]
    fresh = project_on(fleet.cluster, fleet.rest, "new")
    with InProject(fleet.port, names[0]) as one, InProject(fleet.port, names[1]) as two:
        assert [client.work() for client in (one, two)] == ["terminal"] * 2
        assert one.flow_done()
        with stopped(fleet.fleet):
            assert {client.work() for _ in range(10) for client in (one, two)} == {"terminal"}
            assert one.flow_done()
            assert once(fleet.port, "/readyz")[0] == 200
            with InProject(fleet.port, fresh) as new:
                assert new.work() == "store_unavailable"
            for command in (("usage",), ("events", "--count", "5"), ("flows", "list")):
                read = fleet_command(*command, "--project", names[0], **fleet.env)
                assert read.returncode == 0, (command, read.stderr)
        with InProject(fleet.port, fresh) as new:
            assert wait_until_sync(lambda: new.work() == "terminal", what="the shard of the fleet")
