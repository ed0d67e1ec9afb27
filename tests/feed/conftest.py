from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.store import Store
from coordinator.transport import streams
from tests.feed.guarded import Guarded, guarding
from tests.feed.rig import Front, serving
from tests.items.client import Client
from tests.transport.nodejs import Node, installed


@pytest.fixture
async def front(store: Store) -> AsyncIterator[Front]:
    async with serving(store) as front:
        yield front


@pytest.fixture
async def other(redis_url: str) -> AsyncIterator[Front]:
    """A second front-end, with a connection of its own."""
    store = Store(redis_url, timeout_ms=5000)
    await store.open()
    async with serving(store) as front:
        yield front
    await store.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return installed(tmp_path_factory.mktemp("home"))


@pytest.fixture
async def guarded(store: Store, tmp_path: Path) -> AsyncIterator[Guarded]:
    async with guarding(store, tmp_path / "tokens.yaml") as front:
        yield front


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return Client(store, project)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and checks of rights come at once."""
    monkeypatch.setattr(streams, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.1)
