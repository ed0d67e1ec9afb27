"""Subscriptions while their server is down, or hangs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import redis.exceptions
from redis.asyncio.client import PubSub
from structlog.testing import capture_logs

import coordinator.store.subscription
from coordinator.errors import ToolFailure
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.store.subscription import Subscription
from tests.store.conftest import MakeStore
from tests.support.servers import kill
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path) as server:
        yield server


@pytest.fixture
async def store(server: EmbeddedServer, make_store: MakeStore) -> Store:
    store: Store = make_store(server.url, timeout_ms=500)
    await store.open()
    return store


class Heard:
    """A subscription, and its messages."""

    def __init__(self, store: Store) -> None:
        self.messages: list[bytes] = []
        self.begun = 0
        self.subscription = Subscription(
            store, ("fc:test",), "test", lambda _, data: self.messages.append(data), self._begin
        )

    def _begin(self) -> None:
        self.begun += 1


@pytest.fixture
async def heard(store: Store) -> AsyncIterator[Heard]:
    heard = Heard(store)
    await heard.subscription.ready()
    yield heard
    await heard.subscription.close()


async def test_a_hung_server_is_disconnected(
    heard: Heard, store: Store, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator.store.subscription, "SILENCE_SECONDS", 0.1)
    await store.command("PUBLISH", "fc:test", "first")
    await wait_until(lambda: heard.messages == [b"first"])
    kill(server, signal.SIGSTOP)
    try:
        with capture_logs() as logged:
            await wait_until(lambda: any("silent" in line.get("reason", "") for line in logged), what="the loss")
    finally:
        kill(server, signal.SIGCONT)
    await wait_until(lambda: heard.begun == 2, what="another subscription")
    await wait_until(lambda: store.connected)
    await store.command("PUBLISH", "fc:test", "second")
    await wait_until(lambda: heard.messages == [b"first", b"second"])


async def test_a_server_that_accepts_connections_and_never_answers_is_disconnected(
    store: Store, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise this process would wait for it forever, while another server has taken over its address."""
    for limit in ("SILENCE_SECONDS", "LISTEN_SECONDS"):
        monkeypatch.setattr(coordinator.store.subscription, limit, 0.1)
    heard = Heard(store)
    kill(server, signal.SIGSTOP)
    try:
        with capture_logs() as logged:
            with pytest.raises(ToolFailure, match="does not take the subscription"):
                await heard.subscription.ready()
            await wait_until(lambda: any("Timeout" in line.get("reason", "") for line in logged), what="the loss")
    finally:
        kill(server, signal.SIGCONT)
    await wait_until(lambda: heard.begun >= 1, what="a subscription")
    await heard.subscription.close()


async def test_cancellation_while_a_subscription_closes_is_not_swallowed(heard: Heard) -> None:
    closing = asyncio.create_task(heard.subscription.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_an_idle_subscription_is_kept(heard: Heard, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    get, ping, due, pings = PubSub.get_message, PubSub.ping, False, 0

    async def get_message(messages: PubSub, timeout: float) -> Any:
        """It is idle at once, but a PING may take its time on a busy machine."""
        nonlocal due
        message = await get(messages, timeout=60.0 if due else 0.01)
        due = due and message is None
        return message

    async def asking(messages: PubSub) -> None:
        nonlocal due, pings
        due, pings = True, pings + 1
        await ping(messages)

    monkeypatch.setattr(PubSub, "get_message", get_message)
    monkeypatch.setattr(PubSub, "ping", asking)
    await store.command("PUBLISH", "fc:test", "first")
    await wait_until(lambda: pings > 5, what="PINGs")
    assert heard.begun == 1


async def test_it_does_not_run_in_the_context_of_the_call_that_started_it(store: Store) -> None:
    call, seen = ContextVar("call", default=""), list[str]()
    call.set("r-1")
    subscription = Subscription(store, ("fc:test",), "test", lambda *_: None, lambda: seen.append(call.get()))
    await subscription.ready()
    await subscription.close()
    assert seen == [""]


async def test_an_outage_is_logged_once(
    heard: Heard, store: Store, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator.store.subscription, "PAUSE_SECONDS", 0.001)
    tried = 0
    pubsub = store.client.pubsub

    def counting() -> object:
        nonlocal tried
        tried += 1
        return pubsub()

    monkeypatch.setattr(store.client, "pubsub", counting)
    with capture_logs() as logged:
        kill(server)
        await wait_until(lambda: tried >= 10, what="attempts to subscribe again")
    assert [line["event"] for line in logged].count("a subscription was lost") == 1


async def test_a_blocking_pop_gives_up_on_a_hung_server(store: Store, server: EmbeddedServer) -> None:
    await store.command("RPUSH", "fc:{!fleet}:ob", "a")
    assert await store.pop_first(["fc:none", "fc:{!fleet}:ob"], 1) == (b"fc:{!fleet}:ob", b"a")
    assert await store.pop_first(["fc:none"], 0.01) is None
    kill(server, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            await store.pop_first(["fc:none"], 0.01)
    finally:
        kill(server, signal.SIGCONT)


async def test_nothing_connects_anew_to_a_store_that_is_closed(server: EmbeddedServer, make_store: MakeStore) -> None:
    store: Store = make_store(server.url, timeout_ms=500)
    await store.open()
    listening = Subscription(store, ("fc:test",), "test", lambda *_: None, lambda: None)
    with capture_logs() as logs:
        await listening.ready()
        await store.close()
        await wait_until(lambda: len(logs) == 1, what="the loss of the connection to be noticed")
        with pytest.raises(redis.exceptions.ConnectionError, match="is closed"):
            _ = store.client
        await listening.close()
