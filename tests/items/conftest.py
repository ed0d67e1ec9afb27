"""A client of the items toolset for each test, and one of another project on the same connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.items.dying import Dies, LosesAnswers, LosingClient, owed
from tests.items.parked import Fronts
from tests.support import leaks


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return Client(store, project)


@pytest.fixture
async def clients(redis_url: str, project: str) -> AsyncIterator[list[Client]]:
    """Three clients of one project, each with its own connection; the project is audited at the end."""
    stores = [Store(redis_url, timeout_ms=10_000) for _ in range(3)]
    for store in stores:
        await store.open()
    yield [Client(store, project) for store in stores]
    report = await audit(stores[0], project)
    for store in stores:
        await store.close()
    assert report.differences == []


@pytest.fixture
async def fronts(redis_url: str, project: str) -> AsyncIterator[Fronts]:
    """Makes front-ends with their own parked calls; afterwards nothing of them may remain."""
    fronts = Fronts(redis_url, project)
    yield fronts
    await fronts.close()


@pytest.fixture
def elsewhere(store: Store, project: str, redis_url: str) -> Iterator[Client]:
    """A client of another project of the test's own."""
    other = Client(store, f"{project}-2")
    yield other
    with redis_client(parse(redis_url), other.project) as client:
        leaks.delete_keys(client, other.project)


@pytest.fixture
async def dying(redis_url: str, project: str, tools: Client) -> AsyncIterator[Client]:
    """A client whose process dies after each script; the rest must be consistent for all others."""
    store = Dies(redis_url, timeout_ms=5000)
    await store.open()
    yield Client(store, project)
    await store.close()
    assert (await audit(tools.store, project)).differences == []
    assert await owed(tools) == 0


@pytest.fixture
async def losing(redis_url: str, project: str) -> AsyncIterator[LosingClient]:
    """Makes a client that loses the answer of the n-th script."""
    stores: list[Store] = []

    async def make(lose: int) -> Client:
        stores.append(LosesAnswers(redis_url, lose))
        await stores[-1].open()
        return Client(stores[-1], project)

    yield make
    for store in stores:
        await store.close()
