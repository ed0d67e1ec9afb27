"""What a store checks when it is opened, and how it gives a new server its scripts."""

from __future__ import annotations

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from coordinator.store import Script, ServerError, StoreError, StoreTooOld, StoreUnreachable
from coordinator.store.opening import open_patiently
from tests.store.calls import ECHO
from tests.store.conftest import MakeStore, StartFake
from tests.support.fake_redis import Peer, bulk
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def tell(peer: Peer, info: str) -> None:
    """Answers the greeting and INFO."""
    await peer.introduce()
    assert await peer.command() == [b"INFO", b"server"]
    peer.send(bulk(info.encode()))


async def know_all(peer: Peer, *, older: str = "") -> None:
    """Answers that all libraries are there; a version ``older`` as well, which another process deletes first."""
    await peer.has_layout()
    words = await peer.command()
    assert words[:2] == [b"FUNCTION", b"LIST"]
    names = list({script.function_library.name.encode() for script in Script.registered()})
    names += [older.encode()] if older else []
    peer.send(b"*%d\r\n" % len(names))
    for name in names:
        peer.send(b"*2\r\n$12\r\nlibrary_name\r\n$%d\r\n%s\r\n" % (len(name), name))
    await peer.usual()
    words = await peer.command()
    if older:
        assert words[:2] == [b"FUNCTION", b"LOAD"]  # of one that is there already: the server is not full
        peer.send(bulk(b"fleet"))
        words = await peer.command()
        assert words == [b"FUNCTION", b"DELETE", older.encode()]
        peer.send(b"-ERR Library not found\r\n")
        words = await peer.command()
    assert words[0] == b"FCALL"
    assert words[1].startswith(b"fleet_store_tune_collector_")
    peer.send(b":200\r\n")


@pytest.mark.parametrize("version", ["5.0.14", "6.2.16", "nonsense", ""])
async def test_a_server_that_is_too_old_is_refused(version: str, start_fake: StartFake, make_store: MakeStore) -> None:
    async def talk(peer: Peer) -> None:
        await tell(peer, f"# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n")
        await peer.echo()

    fake = await start_fake(talk)
    store = make_store(fake.url)
    with pytest.raises(StoreTooOld, match=rf"is Redis {version}: Redis 7\.0 or newer"):
        await store.open()
    assert not store.connected


@pytest.mark.parametrize(
    ("info", "server"),
    [
        ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", ("Valkey", "8.0.1")),
        ("redis_version:7.0.15\r\n", ("Redis", "7.0.15")),
        ("redis_version:10.0.0\r\n", ("Redis", "10.0.0")),
    ],
)
async def test_the_kind_of_server_is_recognized(
    info: str, server: tuple[str, str], start_fake: StartFake, make_store: MakeStore
) -> None:
    async def talk(peer: Peer) -> None:
        await tell(peer, info)
        await know_all(peer)

    store = make_store((await start_fake(talk)).url)
    await store.open()
    assert store.server == server


async def test_a_server_that_rejects_required_commands_is_reported(
    start_fake: StartFake, make_store: MakeStore
) -> None:
    async def talk(peer: Peer) -> None:
        await peer.introduce(CLIENT=b"-NOPERM no permission to name itself\r\n")
        await peer.command()
        peer.send(b"-NOPERM this user has no permissions to run the 'info' command\r\n")
        await peer.echo()

    store = make_store((await start_fake(talk)).url)
    with pytest.raises(StoreError, match=r"cannot be used: NOPERM .* 'info'"):
        await store.open()
    assert not store.connected


async def test_a_server_that_stops_answering_does_not_block_the_start(
    start_fake: StartFake, make_store: MakeStore
) -> None:
    async def talk(peer: Peer) -> None:
        await peer.introduce()
        await asyncio.Event().wait()

    store = make_store((await start_fake(talk)).url, timeout_ms=1000)
    started = time.monotonic()
    with pytest.raises(StoreUnreachable, match="did not answer within 1000 ms"):
        await store.open()
    assert time.monotonic() - started < 30


async def test_a_server_that_is_slow_at_first_is_retried(start_fake: StartFake) -> None:
    async def talk(peer: Peer) -> None:
        if peer.number == 1:
            await peer.introduce()
            await asyncio.Event().wait()
        await tell(peer, "redis_version:7.0.15\r\n")
        await know_all(peer)
        await peer.echo()

    store = await open_patiently((await start_fake(talk)).url, timeout_ms=1000)
    assert store.scripts_loaded
    await store.close()


async def test_a_new_server_gets_the_scripts_even_if_that_fails_at_first(
    start_fake: StartFake, make_store: MakeStore
) -> None:
    leave = asyncio.Event()
    loads = 0

    async def talk(peer: Peer) -> None:
        nonlocal loads
        if peer.number == 1:
            await tell(peer, "redis_version:7.0.15\r\n")
            await know_all(peer)
            await leave.wait()
            return
        await peer.introduce()
        while True:
            words = await peer.command()
            if words[:2] == [b"FUNCTION", b"LIST"]:
                peer.send(b"*0\r\n")
            elif words[0] in (b"GET", b"HGET"):
                peer.send(b"$-1\r\n")
            elif words[:2] == [b"FUNCTION", b"LOAD"]:
                loads += 1
                peer.send(b"-ERR not now\r\n" if loads == 1 else bulk(b"0" * 40))
            else:
                peer.send(b"+PONG\r\n")

    store = make_store((await start_fake(talk)).url)
    await store.open()
    assert store.scripts_loaded
    with capture_logs() as logged:
        leave.set()
        await wait_until(lambda: "the store refuses a script" in [line["event"] for line in logged], what="the failure")
    assert store.connected
    assert not store.scripts_loaded
    assert await store.ping() < 30
    await wait_until(lambda: store.scripts_loaded, what="the scripts")


@pytest.mark.parametrize(
    ("refusal", "problem"),
    [
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", None),
        (b"-NOREPLICAS Not enough good replicas to write.\r\n", "has too few replicas to take writes"),
    ],
)
async def test_only_a_full_store_is_opened_without_the_scripts(
    refusal: bytes, problem: str | None, start_fake: StartFake, make_store: MakeStore
) -> None:
    async def talk(peer: Peer) -> None:
        await tell(peer, "redis_version:7.0.15\r\n")
        while True:
            words = await peer.command()
            peer.send(b"*0\r\n" if words[:2] == [b"FUNCTION", b"LIST"] else refusal)

    store = make_store((await start_fake(talk)).url)
    if problem is None:
        await store.open()
    else:
        with pytest.raises(StoreUnreachable, match=problem):
            await store.open()
    assert store.connected is (problem is None)
    assert not store.scripts_loaded


async def test_concurrent_starts_may_delete_the_same_old_version(start_fake: StartFake, make_store: MakeStore) -> None:
    async def talk(peer: Peer) -> None:
        await tell(peer, "redis_version:7.0.15\r\n")
        await know_all(peer, older=ECHO.function_library.name.rpartition("_")[0] + "_0123456789abcdef")
        await peer.echo()

    store = make_store((await start_fake(talk)).url)
    await store.open()
    assert store.scripts_loaded


async def test_a_reply_that_is_an_error_is_raised_by_the_link_too(start_fake: StartFake, make_store: MakeStore) -> None:
    async def talk(peer: Peer) -> None:
        await tell(peer, "redis_version:7.0.15\r\n")
        await know_all(peer)
        await peer.command()
        peer.send(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n")
        await peer.echo()

    store = make_store((await start_fake(talk)).url)
    await store.open()
    with pytest.raises(ServerError, match="OOM"):
        await store.link().execute("FCALL", "x", 0)
