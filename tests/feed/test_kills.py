"""Listeners and waiting reads over three front-ends, while these and the store are killed or stopped: each event once,
in order, and no gap; a wait goes on."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from coordinator.store import keys
from coordinator.store.embedded.server import known_url
from coordinator.store.link.address import parse
from tests.feed.orchestration import work_off
from tests.feed.steadfast import Listener, Writer
from tests.support.fleets import Http, RunningFleet, once, scrape
from tests.support.wait import wait_until_sync
from tests.transport.rig import modern

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SLOTS = ("fe-0", "fe-1", "fe-2")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("feed") / "data"
    # Streams end within a third of the drain.
    numbers = ("--port", "0", "--frontends", str(len(SLOTS)), "--workers", "0", "--drain-seconds", "6")
    with RunningFleet(folder, *numbers) as fleet:
        fleet.wait_ready()
        yield fleet


def test_each_event_comes_once_and_in_order_whatever_dies(fleet: RunningFleet) -> None:
    with Http(fleet.port) as client:
        cursor = json.loads(client.get("/feed/default?waitMs=0")[1])["cursor"]
    listeners = [Listener(fleet.port, cursor, polls=number % 3 == 0) for number in range(9)]
    writer = Writer(fleet.port)
    for thread in (*listeners, writer):
        thread.start()
    try:
        for victim in ("fe-0", "store", "fe-1", "fe-2", "store", "fe-0"):
            before = writer.count
            wait_until_sync(lambda: writer.count >= before + 30, what="some changes")  # noqa: B023
            pid = fleet.state.store_pid if victim == "store" else fleet.pid(victim)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            wait_until_sync(lambda: pid not in fleet.pids, what="its end")  # noqa: B023
        before = writer.count
        wait_until_sync(lambda: writer.count >= before + 30, what="some changes")
        writer.stop()
        url = known_url(fleet.data_dir)
        assert url is not None
        with redis.Redis(**parse(url).client_options()) as client:
            entries: Any = client.xrange(keys.events.key("default"), min=f"({cursor.partition('-')[2]}")
        expected = [entry.decode() for entry, _ in entries]
        assert len(expected) > 200
        for one in listeners:
            wait_until_sync(lambda: len(one.ids) >= len(expected), what=f"all events, at {one.cursor}")  # noqa: B023
    finally:
        writer.stop()
        for one in listeners:
            one.stop()
    for one in listeners:
        assert one.ids == expected
        assert one.gaps == []
    assert max(one.connects for one in listeners) > 1


def test_metrics_tell_of_listeners(fleet: RunningFleet) -> None:
    with Http(fleet.port) as client:
        client.connection.request("GET", "/feed/default", headers={"accept": "text/event-stream"})
        response = client.connection.getresponse()
        assert b"retry: " in response.readline()

        def listeners() -> float:
            found = scrape(fleet.port)
            return sum(value for name, value in found.items() if name.startswith("coordinator_feed_listeners"))

        wait_until_sync(lambda: listeners() == 1, what="one listener")
        with Http(fleet.port) as other:
            other.call("manage_items", operation="create", items=[{"title": "item"}])
        while b"item.create" not in response.readline():
            pass
    wait_until_sync(lambda: listeners() == 0, what="no listener")
    found = scrape(fleet.port)
    assert sum(value for name, value in found.items() if name.startswith("coordinator_feed_deliveries_total")) > 0


@pytest.mark.anyio
@pytest.mark.parametrize("dying", [(), pytest.param(("fe-0", "store", "fe-1", "fe-2"), marks=pytest.mark.chaos)])
async def test_one_call_waits_for_the_end_of_a_tree(fleet: RunningFleet, dying: tuple[str, ...]) -> None:
    await work_off(fleet, *dying)


def test_processes_that_stop_end_their_streams(fleet: RunningFleet) -> None:
    streams = []
    for _ in range(6):
        connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=60)
        connection.request("GET", "/feed/default", headers={"accept": "text/event-stream"})
        response = connection.getresponse()
        assert b"retry: " in response.readline()
        streams.append((connection, response))
    head, body = modern("subscriptions/listen", {"notifications": {}}, "s")
    subscriptions = []
    for _ in range(4):
        connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=60)
        connection.request("POST", "/mcp/items", body, dict(head))
        subscriptions.append((connection, connection.getresponse()))
    pids = [pid for slot in SLOTS if (pid := fleet.pid(slot))]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    for connection, response in subscriptions:
        frames = [json.loads(line[6:]) for line in response.read().splitlines() if line.startswith(b"data: ")]
        assert [frame.get("method", "result") for frame in frames] == [_ACKNOWLEDGED, "result"]
        assert frames[-1]["result"]["resultType"] == "complete"
        connection.close()
    for connection, response in streams:
        last = response.read().decode()  # raises if the end is missing
        assert ": this process takes no new work; connect again\nretry: " in last
        connection.close()
    wait_until_sync(lambda: not set(pids) & set(fleet.pids), what="their ends")
    wait_until_sync(lambda: _serves(fleet.port), 60, "their successors")


def _serves(port: int) -> bool:
    try:
        return once(port, "/readyz")[0] == 200
    except OSError:
        return False
