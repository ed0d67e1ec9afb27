"""``fleet project list`` on the store of the tests: every project is counted as it is."""

from __future__ import annotations

import json

import pytest

from coordinator.store import Store, keys
from tests.items.client import Client
from tests.support.fleets import fleet_command

pytestmark = pytest.mark.anyio


async def test_a_project_is_counted(store: Store, project: str, redis_url: str) -> None:
    before = await store.time()
    await Client(store, project).add_many(3)
    after = await store.time()
    other = f"{project}-b"
    await Client(store, other).add()
    done = fleet_command("project", "list", "--json", "--redis-url", redis_url)
    assert done.returncode == 0, done.stderr
    rows = {row["project"]: row for row in json.loads(done.stdout)["projects"]}
    assert rows[project]["keys"] > rows[other]["keys"] > 0
    assert rows[project]["bytes"] > rows[other]["bytes"] > 0
    assert keys.FLEET not in rows
    ((last, _),) = await store.command("XREVRANGE", keys.events.key(project), "+", "-", "COUNT", 1)
    assert before <= int(last.partition(b"-")[0]) <= after
    shown = fleet_command("project", "list", "--redis-url", redis_url).stdout.splitlines()
    assert shown[0].split() == ["PROJECT", "KEYS", "SIZE", "SHARD", "CHANGED"]
    (line,) = (one.split() for one in shown if one.split()[0] == project)
    assert line[1] == str(rows[project]["keys"])
    assert rows[project]["changedAt"][:19] == f"{line[-2]}T{line[-1][:-1]}"
