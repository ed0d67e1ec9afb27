"""Deliveries of a real fleet: killed front-ends, a store that restarts, reloads, and ``fleet webhooks``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from coordinator.store import keys
from coordinator.store.embedded.server import find_running
from tests.support.fleets import Http, RunningFleet, fleet_command, scrape
from tests.support.wait import wait_until_sync
from tests.webhooks.receiver import SECRET, Receiver

NOWHERE = "00000000-0000-4000-8000-000000000000"
ENV: dict[str, Any] = {"HOOK_SECRET": SECRET}


def written(path: Path, receiver: Receiver, **more: Any) -> Path:
    """A config file with the webhook ``hook``."""
    hook = {"url": receiver.url, "secret_env": "HOOK_SECRET", "allow_private": True, **more}
    path.write_text(json.dumps({"webhooks": {"hook": hook}}))
    return path


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def config(tmp_path: Path, receiver: Receiver) -> Path:
    return written(tmp_path / "fleet.yaml", receiver)


@pytest.fixture
def fleet(tmp_path: Path, config: Path) -> Iterator[RunningFleet]:
    with RunningFleet(
        tmp_path / "data",
        *("--config", str(config), "--port", "0", "--frontends", "2", "--workers", "0"),
        FLEET_LOG_FORMAT="json",
        **ENV,
    ) as fleet:
        fleet.wait_ready()
        wait_until_sync(lambda: field(fleet, "c"), what="a position of the webhook")
        yield fleet


def store(fleet: RunningFleet) -> redis.Redis:
    url = find_running(str(fleet.data_dir))
    assert url is not None
    return redis.Redis.from_url(url)


def field(fleet: RunningFleet, name: str) -> str:
    with store(fleet) as client:
        found = client.hget(keys.webhook.key(keys.FLEET, "hook"), name)
    return found.decode() if isinstance(found, bytes) else ""


def owner(fleet: RunningFleet) -> str:
    """The slot of the front-end that delivers."""
    with store(fleet) as client:
        held = client.get(keys.leader_lease.key(keys.FLEET, "deliver webhooks"))
    assert isinstance(held, bytes)
    return held.decode().rpartition("/")[2]


def create(client: Http, count: int) -> list[str]:
    found = []
    for n in range(count):
        answer = client.call("manage_items", operation="create", items=[{"title": f"item {n}"}])
        found.append(answer["items"][0]["id"])
    return found


def command(fleet: RunningFleet, config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    data = ("--data-dir", str(fleet.data_dir), "--config", str(config))
    return fleet_command("webhooks", *words, *data, **ENV)


def unique(receiver: Receiver) -> list[str]:
    """The items that were told of, in the order in which they first were."""
    return list(dict.fromkeys(one.body["data"]["id"] for one in receiver.taken if "id" in one.body["data"]))


def test_nothing_is_lost_with_a_killed_front_end_or_a_store_that_restarts(
    fleet: RunningFleet, receiver: Receiver
) -> None:
    with Http(fleet.port) as client:
        ids = create(client, 20)
    wait_until_sync(lambda: len(receiver.taken) >= 5, what="5 messages")
    killed = fleet.pid(owner(fleet))
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_until_sync(lambda: killed not in fleet.pids and len(fleet.pids) == 3, what="another front-end")
    with Http(fleet.port) as client:
        ids += create(client, 20)
    wait_until_sync(lambda: len(unique(receiver)) == 40, 120, "40 items told")

    stopped = fleet.state.store_pid
    assert stopped is not None
    os.kill(stopped, signal.SIGKILL)
    wait_until_sync(lambda: fleet.state.store_pid not in (None, stopped), what="the store")

    def more() -> list[str] | None:
        try:
            with Http(fleet.port) as client:
                return create(client, 5)
        except AssertionError:
            return None

    again = wait_until_sync(more, what="items after the restart")
    assert again is not None
    wait_until_sync(lambda: unique(receiver)[-5:] == again, 120, "the items after the restart")
    assert [one for one in unique(receiver) if one in set(ids)] == ids
    duplicates = [one for one in receiver.taken if receiver.ids.count(one.id) > 1]
    assert len(duplicates) <= 4
    assert {one.body["type"] for one in receiver.taken} == {"item.create"}


@pytest.mark.chaos
def test_commands_and_a_reload(fleet: RunningFleet, receiver: Receiver, config: Path) -> None:
    listed = command(fleet, config, "list")
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.split()[:3] == ["hook", "active", "default"]

    tested = command(fleet, config, "test", "hook")
    assert tested.returncode == 0, tested.stderr
    assert "status 204" in tested.stdout
    assert receiver.got[-1].body["type"] == "webhook.test"

    with Http(fleet.port) as client:
        paused = command(fleet, config, "pause", "hook")
        assert paused.stdout == "hook is paused\n"
        assert "paused" in command(fleet, config, "list").stdout
        resumed = command(fleet, config, "resume", "hook")
        assert resumed.stdout == "hook was paused and goes on\n"
        (item,) = create(client, 1)
        wait_until_sync(lambda: unique(receiver)[-1:] == [item])

        rotated = command(fleet, config, "rotate", "hook")
        assert rotated.returncode == 0, rotated.stderr
        (fresh,) = rotated.stdout.split()
        assert fresh.startswith("whsec_")
        # Both signatures are there, and the library accepts either.
        wait_until_sync(lambda: field(fleet, "k"))
        told = len(receiver.taken)

        def both() -> bool:
            create(client, 1)
            return len(receiver.taken) > told and " " in receiver.taken[-1].headers["webhook-signature"]

        wait_until_sync(both, what="two signatures")
        receiver.secrets = [SECRET, fresh]
        create(client, 1)
        wait_until_sync(lambda: len(receiver.taken) > told + 1)

        # A root that is none is shown, and a misspelt project.
        written(config, receiver, root=[item, NOWHERE])
        shown = command(fleet, config, "list").stdout
        assert f"but no item without a parent has the id {NOWHERE}\n" in shown
        written(config, receiver, project="defualt")
        shown = command(fleet, config, "list").stdout
        assert "but there is no project defualt: nobody has written to it; did you mean" in shown
        written(config, receiver)

        # A receiver that fails is shown, and tried again at once on request.
        receiver.answer = lambda request: 500
        (item,) = create(client, 1)
        wait_until_sync(lambda: field(fleet, "n") == "2", what="two failures")
        shown = json.loads(command(fleet, config, "list", "--format", "json").stdout)[0]
        assert (shown["state"], shown["error"]) == ("failing", "the receiver answered with status 500")
        assert shown["nextAttempt"] > shown["failingSince"]
        failed = command(fleet, config, "test", "hook")
        assert (failed.returncode, failed.stderr) == (1, "fleet: hook: the receiver answered with status 500\n")
        measured = wait_until_sync(
            lambda: {name: value for name, value in scrape(fleet.port).items() if "webhook" in name and value},
            what="metrics",
        )
        assert measured["coordinator_webhook_attempts_total{outcome=status,webhook=hook}"] == 2
        receiver.answer = lambda request: 200
        assert "was failing" in command(fleet, config, "resume", "hook").stdout
        wait_until_sync(lambda: unique(receiver)[-1:] == [item], what="the item that waited")

        # Another receiver by a reload: the place in the feed stays.
        with Receiver() as other:
            written(config, other, kinds=["item.create"])
            fleet.process.send_signal(signal.SIGHUP)
            fleet.wait_logged("settings reloaded")

            def moved() -> bool:
                create(client, 1)
                return bool(other.taken)

            wait_until_sync(moved, what="the other receiver")

    everything = fleet.stderr + fleet.stdout + str(scrape(fleet.port))
    for secret in (SECRET, fresh, "hush"):
        assert secret not in everything


def test_mistakes_are_explained(tmp_path: Path, config: Path) -> None:
    absent = fleet_command("webhooks", "test", "hok", "--config", str(config), **ENV)
    assert absent.returncode == 2
    assert "there is no webhook 'hok'; did you mean 'hook'?" in absent.stderr
    none = fleet_command("webhooks", "rotate", "hook")
    assert none.returncode == 2
    assert "is --config that of the fleet?" in none.stderr
    unset = fleet_command("webhooks", "rotate", "hook", "--config", str(config))
    assert unset.returncode == 2
    assert "webhooks.hook.secret_env: the environment variable HOOK_SECRET is not set" in unset.stderr
    start = fleet_command("up", "--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert start.returncode == 2
    assert "HOOK_SECRET is not set" in start.stderr
