"""Both event loops, servers that misbehave, and links that are closed at the end of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.shared import Link
from tests.support.fake_redis import FakeRedis, Talk

MakeStore = Callable[..., Store]
OpenLink = Callable[..., Awaitable[Link]]
StartFake = Callable[..., Awaitable[FakeRedis]]


@pytest.fixture(scope="session", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def start_fake() -> AsyncIterator[StartFake]:
    """Starts servers that misbehave: ``await start_fake(talk)``."""
    fakes: list[FakeRedis] = []

    async def start(talk: Talk, port: int = 0) -> FakeRedis:
        fake = FakeRedis(talk)
        await fake.start(port)
        fakes.append(fake)
        return fake

    yield start
    for fake in fakes:
        await fake.end()


@pytest.fixture
async def open_link(start_fake: StartFake) -> AsyncIterator[OpenLink]:
    """Opens links: ``await open_link(url, timeout=0.2, ...)``; they are closed before the fakes end.

    The default timeout is long enough for a busy machine.
    """
    links: list[Link] = []

    async def open_one(url: str, **options: Any) -> Link:
        link = Link(parse(url), **{"timeout": 30.0, **options})
        links.append(link)
        await link.open()
        return link

    yield open_one
    for link in links:
        await link.close()


@pytest.fixture
async def make_store() -> AsyncIterator[MakeStore]:
    """Makes stores that are closed at the end of a test: ``make_store(url, timeout_ms=200)``; by default as above."""
    stores: list[Store] = []

    def make(url: str, **options: Any) -> Store:
        store = Store(url, **{"timeout_ms": 30_000, **options})
        stores.append(store)
        return store

    yield make
    for store in stores:
        await store.close()
