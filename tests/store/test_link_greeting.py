"""How a link connects: which servers it accepts, and how it reports others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import pytest

from coordinator.errors import ToolFailure
from coordinator.store.errors import AccessRefused, StoreTooOld, StoreUnreachable
from coordinator.store.link.address import parse
from coordinator.store.link.clients import Ask
from coordinator.store.link.shared import Link
from coordinator.store.scripts import pack
from tests.store.conftest import OpenLink, StartFake
from tests.support.fake_redis import Peer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"PING": b"-LOADING Redis is loading the dataset in memory\r\n"}, StoreUnreachable, "LOADING"),
        ({"HELLO": b"-WRONGPASS invalid username-password pair\r\n"}, AccessRefused, "wrong user or password"),
        (
            {"HELLO": b"-NOAUTH HELLO must be called with\r\n"},
            AccessRefused,
            "a password is needed, and the URL has none",
        ),
        ({"HELLO": b"%1\r\n+role\r\n+replica\r\n"}, StoreUnreachable, "is a replica"),
        ({"HELLO": b"*2\r\n+role\r\n+slave\r\n"}, StoreUnreachable, "is a replica"),
        ({"HELLO": b"-ERR unknown command `HELLO`\r\n"}, StoreTooOld, "7.0"),
        ({"PING": b"-ERR unknown command `PING`\r\n"}, StoreUnreachable, "PING"),
    ],
    ids=["loading", "password", "no-password", "replica", "replica-resp2", "too-old", "odd"],
)
async def test_a_server_that_cannot_serve_is_reported(
    changes: dict[str, bytes], error: type[Exception], words: str, start_fake: StartFake, open_link: OpenLink
) -> None:
    left = asyncio.Event()

    async def talk(peer: Peer) -> None:
        try:
            await peer.greet(**changes)
            await peer.echo()
        finally:
            left.set()

    fake = await start_fake(talk)
    with pytest.raises(error, match=words):
        await open_link(f"redis://:tops3cret@127.0.0.1:{fake.port}")
    async with asyncio.timeout(30):
        await left.wait()


async def test_a_silent_server_is_reported_within_the_timeout(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        await asyncio.Event().wait()

    fake = await start_fake(talk)
    started = time.monotonic()
    with pytest.raises(StoreUnreachable, match="no answer within 100 ms"):
        await open_link(fake.url, timeout=0.1)
    assert time.monotonic() - started < 30


async def test_a_server_that_disconnects_at_once_is_reported(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        peer.hang_up()

    fake = await start_fake(talk)
    message = r"no usable store at .*: the store [a-z]+ the connection; so does a server that wants TLS \(rediss://\)$"
    with pytest.raises(StoreUnreachable, match=message):
        await open_link(fake.url)


async def test_a_connection_that_breaks_right_after_the_greeting_is_not_used(start_fake: StartFake) -> None:
    async def until_lost(ask: Ask) -> None:
        with contextlib.suppress(ToolFailure):
            while True:
                await ask([("PING",)])

    fake = await start_fake(Peer.greet)
    with pytest.raises(StoreUnreachable, match="the connection broke"):
        await Link(parse(fake.url), timeout=60, protocol=2, check=until_lost).open()


@pytest.mark.parametrize(
    "changes",
    [
        {"CLIENT": b"-NOPERM this user has no permissions to run the 'client|setname' command\r\n"},
        {"HELLO": b"%1\r\n+proto\r\n:3\r\n"},
        {"HELLO": b"%1\r\n+role\r\n+primary\r\n"},
    ],
    ids=["no name", "no role", "primary"],
)
async def test_a_server_without_optional_commands_is_accepted(
    changes: dict[str, bytes], start_fake: StartFake, open_link: OpenLink
) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet(**changes)
        await peer.echo()

    fake = await start_fake(talk)
    link = await open_link(fake.url)
    assert await link.submit(pack(("ECHO", 1))) == b"1"


async def test_keepalive_detects_the_end_of_an_idle_connection(start_fake: StartFake, open_link: OpenLink) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        await peer.echo()

    link = await open_link((await start_fake(talk)).url)
    assert link.connection is not None
    assert link.connection.transport is not None
    sock = link.connection.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if hasattr(socket, "TCP_KEEPIDLE"):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 30
