from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from coordinator.feed import FeedReader
from coordinator.settings import Settings
from coordinator.settings.sections.webhooks import Webhook
from coordinator.store import Store
from coordinator.store.fleet import leader_task
from coordinator.webhooks import Webhooks, delivery
from tests.items.client import Client
from tests.webhooks.receiver import SECRET, Receiver

DELAYS = delivery.DELAYS
"""As they are without the fixture ``quick``."""
Serving = Callable[..., AbstractAsyncContextManager[Webhooks]]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds and retries come at once."""
    monkeypatch.setattr(leader_task, "ROUND_SECONDS", 0.05)
    monkeypatch.setattr(delivery, "DELAYS", (0.02,))
    monkeypatch.setattr(delivery, "AWAY_SECONDS", 0.05)


@pytest.fixture
async def tools(alone: Store) -> Client:
    return Client(alone, "default")


@pytest.fixture
def serving(alone: Store) -> Serving:
    """Runs deliveries to a webhook ``hook``, as a front-end does."""

    @contextlib.asynccontextmanager
    async def serve(
        url: str, process: str = "host/fe-0", others: Sequence[str] = (), **more: Any
    ) -> AsyncIterator[Webhooks]:
        store = alone
        webhooks = {"hook": Webhook(url=url, **{"secret": SECRET, "allow_private": True, **more})}
        webhooks |= {f"other-{n}": Webhook(url=one, secret=SECRET, allow_private=True) for n, one in enumerate(others)}
        reader = FeedReader(store)
        task = Webhooks(Settings(webhooks=webhooks), store, reader, process, {})
        running = asyncio.create_task(task.run())
        try:
            yield task
        finally:
            await task.stop()
            await running
            await reader.stop()

    return serve
