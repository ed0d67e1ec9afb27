"""Projects that a failover has lost from the lists are found by their keys, on each shard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from coordinator.store import Store, keys
from coordinator.store.embedded.cluster import EmbeddedCluster
from coordinator.store.projects.healing import ProjectHealing, heal
from coordinator.store.projects.lists import List, ProjectList
from tests.items.client import Client
from tests.support.cluster import project_on
from tests.support.servers import emptied as opened
from tests.workers.fleet import Flows, chain, echo

pytestmark = pytest.mark.anyio

LISTS = [family.key(keys.FLEET) for family in (keys.item_projects, keys.step_projects, keys.known_projects)]


@pytest.fixture
async def sharded(tmp_path: Path) -> AsyncIterator[tuple[Store, list[str]]]:
    """A cluster of two shards with a project of items on each, and one of flows on the second."""
    with EmbeddedCluster(tmp_path, 2, fsync="everysec") as cluster:
        items = [project_on(cluster, node, "items") for node in cluster.nodes]
        flows = project_on(cluster, cluster.nodes[1], "flows")
        async with opened(cluster.url) as store:
            for project in items:
                await Client(store, project).add()
            await Flows(store, flows).create(chain(echo()))
            yield store, [*items, flows]


async def lists(store: Store) -> dict[List, set[str]]:
    return {what: set(await ProjectList(store, what).ages()) for what in get_args(List)}


async def always() -> bool:
    return True


async def test_lost_projects_are_listed_again(sharded: tuple[Store, list[str]]) -> None:
    store, projects = sharded
    *items, flows = projects
    expected = {"items": set(projects), "known": set(projects), "steps": {flows}}
    await store.command("DEL", *LISTS)
    await asyncio.gather(heal(store, always), heal(store, always))  # two may do it at once
    assert await lists(store) == expected
    await store.command("ZREM", LISTS[0], items[0])
    task = ProjectHealing(store, "process")
    assert await task.round()
    assert (await lists(store))["items"] == set(projects)
    await store.command("ZREM", LISTS[0], items[0])
    assert await task.round()
    assert (await lists(store))["items"] == {items[1], flows}, "the servers were walked again at once"
    # A note would count as activity, and have an idle project swept in every round.
    await store.command("ZINCRBY", LISTS[0], -1000, items[1])
    await heal(store, always)
    assert (await ProjectList(store, "items").ages())[items[1]] >= 1000
