"""A fleet on a cluster of which one shard is stopped: its projects are refused, and no others notice."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import pytest

from coordinator.store import keys
from coordinator.store.embedded_cluster import EmbeddedCluster, Node
from coordinator.store.slot_map import slot_of
from tests.support.cluster import primary_of, project_on
from tests.support.fleets import MCP_HEADERS, Http, RunningCommand, call_body, fleet_command, once, scrape
from tests.support.wait import wait_until_sync

FLOW = {"start": {"name": "first", "tool": "get_next_item", "args": {}, "next": "last"},
        "last": {"name": "last", "tool": "get_next_item", "args": {}, "done": True}}  # fmt: skip
ACTOR = {"id": "agent-1", "kind": "subagent"}


class Client(Http):
    """Calls tools in one project."""

    def __init__(self, port: int, project: str) -> None:
        super().__init__(port)
        self.project = project

    def call(self, tool: str, **arguments: Any) -> Any:
        self.connection.request("POST", f"/p/{self.project}/mcp", call_body(tool, arguments), MCP_HEADERS)
        return msgspec.json.decode(self.connection.getresponse().read())["result"]["structuredContent"]

    def work(self) -> str:
        """Creates, claims and completes an item; the code of the first refusal, or its role at the end."""
        created = self.call("manage_items", operation="create", items=[{"title": "work"}])
        if "error" in created:
            return str(created["error"]["code"])
        item = created["items"][0]["id"]
        claims = {"actor": ACTOR, "requestId": str(uuid.uuid4()), "claims": [{"itemId": item}]}
        assert self.call("claim_item", **claims)["claimResults"][0]["outcome"] == "success"
        transition = {"itemId": item, "trigger": "complete", "actor": ACTOR}
        done = self.call("advance_item", transitions=[transition], requestId=str(uuid.uuid4()))
        return str(done["results"][0]["newRole"])

    def flow_done(self) -> bool:
        """Runs a flow to its end."""
        flow = self.call("workflow_create", name="flow", flow=FLOW)["id"]
        return bool(wait_until_sync(lambda: self.call("workflow_get", id=flow)["status"] == "completed", what="a flow"))


class Fleet(NamedTuple):
    cluster: EmbeddedCluster
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
        env = {
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
            yield Fleet(cluster, port, first, second, rest)
            assert worker.end() == 0
            assert serve.end() == 0


def away(fleet: Fleet) -> list[float]:
    """Of each shard, how many front-ends are not connected to it."""
    found = scrape(fleet.port)
    return [found[f"coordinator_store_shard_away{{shard={shard}}}"] for shard in range(3)]


@contextmanager
def stopped(node: Node) -> Iterator[None]:
    assert node.pid is not None
    os.kill(node.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.pid, signal.SIGCONT)


def test_a_stopped_shard_stops_its_projects_only(fleet: Fleet) -> None:
    names = [project_on(fleet.cluster, node, "work") for node in (fleet.rest, fleet.fleet, fleet.queue)]
    with Client(fleet.port, names[0]) as gone, Client(fleet.port, names[1]) as one, Client(fleet.port, names[2]) as two:
        assert [client.work() for client in (gone, one, two)] == ["terminal"] * 3
        with stopped(fleet.rest):
            codes = {gone.work() for _ in range(30)}
            assert codes == {"store_unavailable"}
            assert {client.work() for _ in range(30) for client in (one, two)} == {"terminal"}
            assert one.flow_done()
            assert once(fleet.port, "/readyz")[0] == 200
            assert wait_until_sync(lambda: away(fleet) == [0, 0, 1], what="the metric")
            shown = fleet_command("top", "--once", "--url", f"http://127.0.0.1:{fleet.port}")
            assert "shards away: 2" in shown.stdout, shown.stderr
        assert wait_until_sync(lambda: away(fleet) == [0, 0, 0], what="the metric")
        assert wait_until_sync(lambda: gone.work() == "terminal", what="the shard that goes on")


def test_without_the_shard_of_the_fleet_known_projects_work_and_so_do_their_flows(fleet: Fleet) -> None:
    names = [project_on(fleet.cluster, node, "known") for node in (fleet.rest, fleet.queue)]
    fresh = project_on(fleet.cluster, fleet.rest, "new")
    with Client(fleet.port, names[0]) as one, Client(fleet.port, names[1]) as two:
        assert [client.work() for client in (one, two)] == ["terminal"] * 2
        assert one.flow_done()
        with stopped(fleet.fleet):
            assert {client.work() for _ in range(10) for client in (one, two)} == {"terminal"}
            assert one.flow_done()
            assert once(fleet.port, "/readyz")[0] == 200
            with Client(fleet.port, fresh) as new:
                assert new.work() == "store_unavailable"
        with Client(fleet.port, fresh) as new:
            assert wait_until_sync(lambda: new.work() == "terminal", what="the shard of the fleet")
