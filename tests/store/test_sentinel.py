"""Stores behind Sentinels: which server is used, and what happens when another one becomes the primary."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from dataclasses import replace
from typing import Any

import pytest
import redis

from coordinator.errors import ToolFailure
from coordinator.store import Store, StoreUnreachable, keys
from coordinator.store.link import clients
from coordinator.store.link.address import parse
from coordinator.store.opening import open_patiently
from coordinator.store.subscription import Subscription
from tests.store.calls import BUMP
from tests.store.conftest import MakeStore
from tests.support.sentinels import Watched
from tests.support.wait import wait_until, wait_until_sync

pytestmark = pytest.mark.anyio

COUNT = keys.request.key("default", "count")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of the product only: a failover takes seconds."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def store(watched_servers: Watched, make_store: MakeStore) -> Store:
    store: Store = make_store(watched_servers.url, timeout_ms=3000)
    await store.open()
    return store


async def bumped(store: Store) -> int:
    """The result of a call that counts one up; 0 while the store does not serve."""
    try:
        return int(await store.run(BUMP, "default", "count"))
    except ToolFailure:
        return 0


@pytest.mark.parametrize(
    "how", ["killed", *(pytest.param(how, marks=pytest.mark.chaos) for how in ("stopped", "switched"))]
)
async def test_calls_go_to_the_new_primary(watched_servers: Watched, store: Store, how: str) -> None:
    old = watched_servers.primary()
    new = next(port for port in watched_servers.servers if port != old)
    thread_client = clients.client(parse(watched_servers.url), socket_timeout=3.0)
    with contextlib.closing(thread_client):
        for expected in (1, 2):
            assert await bumped(store) == expected
        assert thread_client.get(COUNT) == b"2"
        assert await store.client.get(COUNT) == b"2"
        await wait_until(watched_servers.replicated, what="the replica")
        if how == "killed":
            watched_servers.kill(old)
        elif how == "stopped":
            os.kill(watched_servers.pid(old), signal.SIGSTOP)
        else:
            watched_servers.switch()
        await wait_until(lambda: watched_servers.primary() == new, what="another primary")
        await wait_until(lambda: bumped(store), what="an answer from it")
        if how == "stopped":
            os.kill(watched_servers.pid(old), signal.SIGCONT)
        if how != "killed":
            await wait_until(lambda: watched_servers.role(old) == "slave", what="the old one as a replica")
        before = await wait_until(lambda: bumped(store), what="an answer")
        assert await bumped(store) == before + 1
        assert await asyncio.to_thread(_read, thread_client) == b"%d" % (before + 1)
        assert await store.client.get(COUNT) == b"%d" % (before + 1)


async def _acknowledged(store: Store) -> list[int]:
    """The results of concurrent calls, and of one after the failover."""
    results = await asyncio.gather(*(bumped(store) for _ in range(50)))
    results.append(await wait_until(lambda: bumped(store), what="an answer"))
    return [one for one in results if one]


@pytest.mark.parametrize(
    "how", [*(pytest.param(how, marks=pytest.mark.chaos) for how in ("idle", "paused")), "paused with calls under way"]
)
async def test_a_paused_primary_is_not_used_after_a_failover(watched_servers: Watched, how: str) -> None:
    """When it resumes, it acknowledges writes until the Sentinels tell it of the failover."""
    store = await open_patiently(watched_servers.url, 500, timeout=60)
    try:
        await _stand_still(watched_servers, store, how)
    finally:
        await store.close()


async def _stand_still(watched_servers: Watched, store: Store, how: str) -> None:
    assert await store.failover_problem() == ""
    first = await wait_until(lambda: bumped(store), what="an answer")
    await wait_until(watched_servers.replicated, what="the replica")
    old = watched_servers.primary()
    new = next(port for port in watched_servers.servers if port != old)
    pid = watched_servers.pid(old)
    os.kill(pid, signal.SIGSTOP)
    under_way = []
    if how == "idle":
        await wait_until(lambda: watched_servers.primary() == new, what="another primary")
        os.kill(pid, signal.SIGCONT)
    else:
        if how != "paused":
            under_way = [asyncio.create_task(bumped(store)) for _ in range(50)]
            await asyncio.sleep(0)  # they are written
            await asyncio.sleep(0)
        # The event loop is blocked, as if this process were paused.
        wait_until_sync(lambda: watched_servers.primary() == new, what="another primary")
        os.kill(pid, signal.SIGCONT)
        if under_way:
            wait_until_sync(lambda: watched_servers.count(old, COUNT) == first + 50, what="the old primary's answers")
    acknowledged = [one for one in await asyncio.gather(*under_way) if one]
    assert acknowledged == []
    acknowledged = [first, *await _acknowledged(store)]
    assert len(acknowledged) == len(set(acknowledged)), f"acknowledged writes are lost: {acknowledged}"
    assert watched_servers.count(new, COUNT) >= len(acknowledged)


@pytest.mark.parametrize("expected", [True, False])
async def test_a_silent_sentinel_is_not_waited_for(watched_servers: Watched, expected: bool) -> None:
    """If the answers of the others suffice, either way."""
    port = watched_servers.primary() if expected else 1
    with socket.create_server(("127.0.0.1", 0)) as silent:
        known = parse(watched_servers.url)
        address = replace(known, sentinels=(silent.getsockname(), *known.sentinels))
        primary = replace(known, host="127.0.0.1", port=port, sentinels=(), service="")
        async with asyncio.timeout(60):
            assert await clients.confirmed(address, primary, 600.0) is expected


async def test_the_majority_of_the_sentinels_that_answer_in_time_decides(watched_servers: Watched) -> None:
    known = parse(watched_servers.url)
    primary = replace(known, host="127.0.0.1", port=watched_servers.primary(), sentinels=(), service="")
    with contextlib.ExitStack() as open_sockets:
        silent = [open_sockets.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname() for _ in range(3)]
        assert await clients.confirmed(replace(known, sentinels=(*silent, *known.sentinels)), primary, 2.0)
        assert await clients.confirmed(replace(known, sentinels=tuple(silent)), primary, 0.1) is None


async def test_a_timeout_that_does_not_fit_the_sentinels_is_reported(
    watched_servers: Watched, make_store: MakeStore
) -> None:
    store = make_store(watched_servers.url, timeout_ms=3000)
    await store.open()
    assert "redis_timeout_ms is 3000, and the Sentinels' down-after-milliseconds 1000" in await store.failover_problem()


def _read(client: redis.Redis) -> Any:
    """The count. A connection to the old primary is replaced first."""
    with contextlib.suppress(redis.exceptions.ConnectionError):
        client.ping()
    return client.get(COUNT)


async def test_a_subscription_follows_a_failover(watched_servers: Watched, store: Store) -> None:
    heard: list[bytes] = []
    subscription = Subscription(store, ("fc:test",), "test", lambda _, data: heard.append(data), lambda: None)
    try:
        await subscription.ready()
        watched_servers.kill(watched_servers.primary())
        await wait_until(lambda: bumped(store), what="the new primary")

        async def arrived() -> bool:
            await store.command("PUBLISH", "fc:test", "news")
            return bool(heard)

        await wait_until(arrived, what="a message")
    finally:
        await subscription.close()


async def test_sentinels_that_know_nothing_are_named_without_passwords(make_store: MakeStore) -> None:
    store = make_store("redis+sentinel://:tops3cret@127.0.0.1:1,127.0.0.1:2/fleet?sentinel_password=hidd3n")
    with pytest.raises(StoreUnreachable, match=r"127\.0\.0\.1:1,127\.0\.0\.1:2/fleet/0 knows a primary") as raised:
        await store.open()
    assert "tops3cret" not in str(raised.value)
    assert "hidd3n" not in str(raised.value)


async def test_an_unknown_service_is_reported(watched_servers: Watched, make_store: MakeStore) -> None:
    with pytest.raises(StoreUnreachable, match="/other/0 knows a primary"):
        await make_store(watched_servers.url.replace("/fleet/", "/other/")).open()


@pytest.mark.parametrize("query", ["", "?sentinel_password=hidd3n"])
async def test_a_password_that_sentinels_reject_is_reported(
    watched_servers: Watched, make_store: MakeStore, query: str
) -> None:
    with pytest.raises(StoreUnreachable, match=r"; sentinel_username or sentinel_password is wrong") as raised:
        await make_store(watched_servers.url.partition("?")[0] + query).open()
    assert "hidd3n" not in str(raised.value)
