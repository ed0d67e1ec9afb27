"""A project is moved from one cluster to another and back by the command, while agents work in the other projects."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.projects.transfer import Keys
from coordinator.store import Store
from coordinator.store.checks import key_space
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.fences.copies import Fencing
from coordinator.store.fences.known import Fenced
from coordinator.store.link.address import parse
from coordinator.toolsets.items.audit import audit
from tests.cluster.load import Load
from tests.items.client import Client
from tests.support.fleets import fleet_command

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    """Another cluster, with another number of shards."""
    with EmbeddedCluster(tmp_path / "elsewhere", 2, fsync="everysec") as cluster:
        yield cluster


async def move(source: EmbeddedCluster, target: EmbeddedCluster, project: str, data_dir: Path) -> str:
    """What the command prints that moves a project."""
    address = parse(target.url)
    words = ("project", "copy", project, "--to", address.without_password, "--delete-source")
    env: dict[str, Any] = {
        "FLEET_REDIS_URL": source.url,
        "FLEET_DATA_DIR": str(data_dir),
        "FLEET_TO_PASSWORD": address.password,
    }
    done = await asyncio.to_thread(fleet_command, *words, **env)
    assert done.returncode == 0, done.stderr
    assert address.password not in done.stdout + done.stderr
    return done.stdout


async def opened(cluster: EmbeddedCluster) -> Store:
    store = Store(cluster.url, timeout_ms=5000)
    await store.open()
    await key_space.settle(store)
    return store


async def test_a_project_goes_to_another_cluster_and_back(
    cluster: EmbeddedCluster, elsewhere: EmbeddedCluster, projects: list[str], tmp_path: Path
) -> None:
    moved, *others = projects
    here, there = await opened(cluster), await opened(elsewhere)
    try:
        tools, theirs = Client(here, moved), Client(there, moved)
        ids = await tools.add_many(50)
        claimed = await tools.claim("a", ids[0])
        async with Load(cluster.url, others) as load:
            said = await move(cluster, elsewhere, moved, tmp_path)
            assert "its audit agrees" in said
            assert await Keys(Fencing(here), moved, "").names() == set()
            with pytest.raises(Fenced, match="was moved to another store"):
                await tools.get(ids[0])
            assert (await theirs.claim("a", ids[0]))["fenceToken"] == claimed["fenceToken"]
            ids.append(await theirs.add())
            await move(elsewhere, cluster, moved, tmp_path)
            with pytest.raises(Fenced, match="was moved to another store"):
                await theirs.get(ids[0])
            report = await audit(here, moved)
            assert (report.items, report.differences) == (len(ids), [])
            assert (await tools.claim("a", ids[0]))["fenceToken"] == claimed["fenceToken"]
            await load.goes_on()
            assert not load.refused
            await load.check()
    finally:
        await here.close()
        await there.close()
