"""``fleet events``."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from coordinator.store import Store
from tests.items.client import Client
from tests.support.fleets import RunningCommand, fleet_command
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def test_kept_events_are_printed(store: Store, redis_url: str, project: str) -> None:
    tools = Client(store, project)
    chain = await tools.chain(1)
    await tools.advance(chain[1], "start")
    first = chain[0]
    command = ("events", "--project", project, "--redis-url", redis_url)
    done = fleet_command(*command)
    assert done.returncode == 0, done.stderr
    lines = [re.split(r" {2,}", line) for line in done.stdout.splitlines()]
    assert [line[1] for line in lines] == ["item.create", "item.create", "item.transition", "item.transition"]
    assert lines[1][2:] == [chain[1], "-> queue", f"parentId={chain[0]}", f"root={chain[0]}"]
    assert lines[2][2:] == [chain[1], "queue -> work", "trigger=start", f"root={chain[0]}"]
    cursor = done.stderr.strip().removeprefix("fleet: go on with --after ")
    await tools.add("later")
    later = fleet_command(*command, "--after", cursor, "--json")
    (event,) = [json.loads(line) for line in later.stdout.splitlines()]
    assert (event["name"], event["data"]["to"]) == ("item.create", "queue")
    assert len(fleet_command(*command, "--count", "2").stdout.splitlines()) == 2
    inherited: dict[str, Any] = {
        "FLEET_PROJECT": project,
        "FLEET_ITEM_ID": first,
        "FLEET_URL": "http://a",
        "FLEET_WORKSPACE": "/",
    }
    named = fleet_command("events", "--redis-url", redis_url, "--count", "2", **inherited)
    assert len(named.stdout.splitlines()) == 2, named.stderr
    tree = fleet_command(*command, "--root", chain[0], "--kinds", "item.transition", "--after", "oldest")
    assert len(tree.stdout.splitlines()) == 2


async def test_it_follows_what_happens(store: Store, redis_url: str, project: str, tmp_path: Path) -> None:
    tools = Client(store, project)
    first = await tools.add("before")
    command = ("events", "--project", project, "--redis-url", redis_url, "--follow", "--json", "--after", "oldest")
    with RunningCommand(tmp_path / "out", *command) as following:
        await wait_until(lambda: len(following.stdout.splitlines()) == 1)
        ids = [first, *await tools.add_many(3)]
        await wait_until(lambda: len(following.stdout.splitlines()) == 4)
        assert following.end(signal.SIGINT) == 130
        assert [json.loads(line)["data"]["id"] for line in following.stdout.splitlines()] == ids


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kinds", "item.moved"), "--kinds: there is no kind 'item.moved'"),
        (("--after", "yesterday"), "--after: must be a cursor"),
        (("--root", "17"), "--root: '17' is not the id of an item"),
        (("--count", "0"), "--count"),
        (("--count", "5", "--follow"), "--count: goes without --after and --follow"),
        (("--kinds", ""), "--kinds: there is no kind ''"),
        (("--id", ""), "--id: '' is not the id of"),
        (("--after", ""), "--after: must be a cursor"),
        (("--project", "A/b"), "--project: must be"),
    ],
)
def test_wrong_arguments_are_refused(redis_url: str, arguments: tuple[str, ...], words: str) -> None:
    done = fleet_command("events", "--redis-url", redis_url, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


async def test_an_unknown_id_is_refused(redis_url: str, project: str) -> None:
    done = fleet_command("events", "--redis-url", redis_url, "--project", project, "--id", "1764131594123")
    assert done.returncode == 1
    assert "--id: there is no '1764131594123'" in done.stderr
    assert f"there is no project {project}" in done.stderr
