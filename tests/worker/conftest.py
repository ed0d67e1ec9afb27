"""Clients of the worker toolset for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from tests.worker.client import Agent, Tools


@pytest.fixture
def tools(store: Store, project: str) -> Tools:
    return Tools(store, project)


@pytest.fixture
def agent(tools: Tools) -> Agent:
    return tools.worker("agent-1")


@pytest.fixture
async def pair(redis_url: str, project: str) -> AsyncIterator[tuple[Tools, Tools]]:
    """Two front-ends with calls that wait of their own; afterwards nothing of these may remain."""
    stores = [Store(redis_url, timeout_ms=10_000) for _ in range(2)]
    for store in stores:
        await store.open()
    fronts = Tools(stores[0], project), Tools(stores[1], project)
    yield fronts
    for front in fronts:
        assert front.drain is not None
        await front.drain()
    report = await audit(stores[0], project)
    for family in (keys.waiting, keys.wanted, keys.queue, keys.waiter):
        pattern = keys.project_prefix(project) + family.suffix.encode() + b"*"
        assert [key async for key in stores[0].client.scan_iter(match=pattern)] == []
    for store in stores:
        await store.close()
    assert report.differences == []
