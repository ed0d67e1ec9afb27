"""Listeners and a webhook behind Sentinels: front-ends are killed, and the primary is replaced twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from coordinator.store import keys
from tests.feed.steadfast import Listener, Writer
from tests.support.fleets import Http, RunningFleet
from tests.support.sentinels import PASSWORD, Watched
from tests.support.wait import wait_until_sync
from tests.webhooks.receiver import SECRET, Receiver

pytestmark = [pytest.mark.timeout(240), pytest.mark.chaos]

STREAM = keys.events.key("default")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def fleet(tmp_path: Path, watched_servers: Watched, receiver: Receiver) -> Iterator[RunningFleet]:
    config = tmp_path / "fleet.yaml"
    hook = {"url": receiver.url, "secret": SECRET, "allow_private": True}
    config.write_text(json.dumps({"webhooks": {"hook": hook}}))
    with RunningFleet(
        tmp_path / "data",
        *("--config", str(config), "--port", "0", "--frontends", "3", "--workers", "0"),
        FLEET_REDIS_URL=watched_servers.url,
        FLEET_REDIS_TIMEOUT_MS="2000",
    ) as fleet:
        fleet.wait_ready()
        yield fleet


def primary(servers: Watched) -> redis.Redis:
    return redis.Redis(port=servers.primary(), password=PASSWORD, socket_timeout=5)


def events_after(servers: Watched, entry: str) -> list[str]:
    with primary(servers) as client:
        entries: Any = client.xrange(STREAM, min=f"({entry}")
    return [one.decode() for one, _ in entries]


def kill_front_end(fleet: RunningFleet, slot: str) -> None:
    pid = fleet.pid(slot)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until_sync(lambda: pid not in fleet.pids, what="its end")


def delivering(servers: Watched) -> str:
    """The slot of the front-end that delivers to the webhook."""

    def slot() -> str:
        with primary(servers) as client:
            held = client.get(keys.leader_lease.key(keys.FLEET, "deliver webhooks")) or b""
        return held.decode().rpartition("/")[2]  # type: ignore[union-attr, unused-ignore]

    return wait_until_sync(slot, what="a front-end that delivers")


def lose(servers: Watched, port: int, all_are_at: Callable[[str], bool]) -> list[str]:
    """Kills the primary after it has told listeners of events that the replica does not have; returns these."""
    (replica,) = (one for one in servers.servers if one != servers.primary())
    with Http(port) as client, redis.Redis(port=replica, password=PASSWORD, socket_timeout=5) as behind:

        def follows_to(entry: str) -> bool:
            info: Any = behind.xinfo_stream(STREAM)
            return bool(info["last-generated-id"].decode() == entry)

        while True:
            last = events_after(servers, "0")[-1]
            wait_until_sync(partial(follows_to, last), what="the replica")
            servers.cut_off_replica()
            client.call("manage_items", operation="create", items=[{"title": f"lost {n}"} for n in range(5)])
            lost = events_after(servers, last)
            wait_until_sync(partial(all_are_at, lost[-1]), what="listeners that have heard it")
            if follows_to(last):  # the Sentinels have not mended it yet
                servers.kill(servers.primary())
                return lost


def test_each_event_comes_once_and_in_order_and_what_a_failover_lost_is_said(
    fleet: RunningFleet, watched_servers: Watched, receiver: Receiver
) -> None:
    servers = watched_servers
    delivering(servers)
    wait_until_sync(lambda: primary(servers).hget(keys.webhook.key(keys.FLEET, "hook"), "c"), what="its position")
    with Http(fleet.port) as client:
        cursor = json.loads(client.get("/feed/default?waitMs=0")[1])["cursor"]
    begin = cursor.partition("-")[2]
    listeners = [Listener(fleet.port, cursor, polls=number % 3 == 0) for number in range(6)]
    writer = Writer(fleet.port)
    told: list[str] = []
    """The events and gaps that the webhook was told, each once."""

    def take() -> list[str]:
        names = dict.fromkeys(one.id for one in receiver.taken)
        told[:] = [name.removeprefix("hook:") for name in names]
        return told

    def all_are_at(entry: str) -> bool:
        behind = [one for one in listeners if one.cursor.partition("-")[2] != entry]
        return not behind and entry in take()  # perhaps followed by a gap, of what came after it and was lost

    def goes_on(what: str) -> None:
        before = writer.count
        wait_until_sync(lambda: writer.count >= before + 30, what=what)

    for thread in (*listeners, writer):
        thread.start()
    try:
        goes_on("some changes")
        kill_front_end(fleet, "fe-0")
        old = servers.primary()
        servers.switch()
        wait_until_sync(lambda: servers.primary() != old, what="another primary")
        goes_on("changes on the other primary")
        kill_front_end(fleet, delivering(servers))
        goes_on("some changes")
        writer.writing.clear()
        last = events_after(servers, begin)[-1]
        wait_until_sync(partial(all_are_at, last), 120, "all to be up to date")
        lost = lose(servers, fleet.port, all_are_at)
        writer.writing.set()
        goes_on("changes after a failover")
        writer.stop()
        expected = events_after(servers, begin)
        assert len(expected) > 100
        assert set(lost).isdisjoint(expected)
        wait_until_sync(partial(all_are_at, expected[-1]), 120, "all events")
    finally:
        writer.stop()
        for one in listeners:
            one.stop()
    kept = set(expected)
    for one in listeners:
        assert [event for event in one.ids if event in kept] == expected
        assert set(lost) <= set(one.ids)
        assert "failover" in one.gaps
    events = [name for name in told if not name.startswith("gap-")]
    assert [event for event in events if event in kept] == expected
    # It is told of the gap after what was lost and before what came then.
    (gap,) = [one for one in receiver.taken if one.body["type"] == "gap" and one.id in {f"hook:{n}" for n in told}][-1:]
    assert gap.body["data"] == {"project": "default", "reason": "failover"}
    place = told.index(gap.id.removeprefix("hook:"))
    assert told[place - len(lost) : place] == lost
