"""What all answers that last have in common: signs of life, rights, clients that take nothing, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.feed.metrics import CUT, LISTENERS
from coordinator.transport import streams
from coordinator.transport.streams import Stream, Streams
from tests.support.counts import all_counted, counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


class Client:
    """The connection of a client."""

    def __init__(self) -> None:
        self.on_lost: Any = None
        self.takes = asyncio.Event()
        self.aborted = asyncio.Event()

    def write_chunk(self, chunk: bytes) -> bool:
        return self.takes.is_set()

    def abort(self) -> None:
        self.aborted.set()
        self.takes.set()


class Plain(Stream):
    """Counts what it is told."""

    def __init__(self, caller: str = "") -> None:
        self.client = Client()
        super().__init__(caller, self.client)
        self.beats = self.checks = 0
        self.allowed: bool | ToolFailure = True
        self.over = asyncio.Event()
        self.sending: asyncio.Task[None] | None = None

    def send(self) -> None:
        """Sends what its client does not take."""
        self.sending = asyncio.create_task(self.taken(self.client.takes.wait()))

    async def serve(self) -> None:
        """Lasts until it ends, and all is sent."""
        await self.over.wait()
        if self.sending is not None:
            await self.sending

    def wake(self) -> None:
        if self.ended is not None:
            self.over.set()

    def beat(self) -> None:
        self.beats += 1

    async def permitted(self) -> bool:
        self.checks += 1
        if isinstance(self.allowed, ToolFailure):
            raise self.allowed
        return self.allowed

    def close(self) -> None:
        self.over.set()


class Room:
    """Streams of one kind."""

    def __init__(self) -> None:
        self.watches = 0
        self.streams: Streams[Plain] = Streams("plain", LISTENERS, CUT, self._watch)
        self.opened = list[asyncio.Task[None]]()

    async def _watch(self) -> None:
        self.watches += 1
        await wait_until(lambda: not self.streams.open)

    async def open(self, caller: str = "") -> Plain:
        stream, entered = Plain(caller), asyncio.Event()

        async def serve() -> None:
            with self.streams.entered(stream):
                entered.set()
                await stream.serve()

        self.opened.append(asyncio.create_task(serve()))
        await entered.wait()
        return stream


@pytest.fixture
async def room(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    monkeypatch.setattr(streams, "TICK_SECONDS", 0.01)
    room = Room()
    yield room
    for task in room.opened:
        task.cancel()
    await asyncio.gather(*room.opened, return_exceptions=True)
    await room.streams.stop()


async def test_a_sign_of_life_follows_a_silence_only(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = await room.open()
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.0)
    stream.beat_at = 0.0
    await wait_until(lambda: stream.beats)
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 60.0)
    stream.written = True
    await wait_until(lambda: not stream.written)
    beats = stream.beats
    await stream.taken(asyncio.sleep(0))
    stream.written = True
    await wait_until(lambda: not stream.written)
    assert stream.beats == beats


async def test_a_client_that_takes_nothing_is_cut_off(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STUCK_SECONDS", 0.05)
    stuck, idle = await room.open(), await room.open()
    stuck.send()
    await stuck.client.aborted.wait()
    assert stuck.ended == "slow"
    assert idle.ended is None
    await wait_until(lambda: all_counted(CUT) == {"slow": 1})


async def test_a_stream_that_ends_is_not_waited_for(room: Room) -> None:
    """Its client would not get the rest anyway, so it has a tick to take what was sent to it."""
    stream, other = await room.open(), await room.open()
    stream.send()
    other.send()
    stream.end("drain")
    await stream.client.aborted.wait()
    assert stream.ended == "drain"
    assert not other.client.aborted.is_set()
    other.client.takes.set()


async def test_rights_are_checked_again_and_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.02)
    stays, unknown, revoked = [await room.open() for _ in range(3)]
    unknown.allowed = ToolFailure("store_unavailable", "no keys")
    revoked.allowed = False
    for stream in room.streams.open:
        stream.recheck_at = 0.0
    await revoked.over.wait()
    await wait_until(lambda: stays.checks > 2 and unknown.checks > 2)
    assert [stream.ended for stream in (stays, unknown, revoked)] == [None, None, "revoked"]


async def test_a_drain_ends_all_and_says_so(room: Room) -> None:
    opened = [await room.open() for _ in range(3)]
    room.streams.hold(True, 0.02)
    assert room.streams.draining
    for stream in opened:
        await stream.over.wait()
    await wait_until(lambda: not room.streams.open)
    assert all_counted(CUT) == {"drain": 3}
    room.streams.hold(False)
    assert not room.streams.draining
    assert (await room.open()).ended is None


async def test_streams_are_counted_and_watched_while_there_are_any(room: Room) -> None:
    first, second = await room.open("ada"), await room.open("ada")
    assert (counted(LISTENERS), dict(room.streams.callers)) == (2, {"ada": 2})
    first.end("gone")
    await wait_until(lambda: counted(LISTENERS) == 1)
    second.end("gone")
    await wait_until(lambda: not room.streams.open)
    assert (counted(LISTENERS), dict(room.streams.callers), all_counted(CUT)) == (0, {}, {})
    await room.opened[0]

    async def watched_again() -> bool:
        (await room.open()).end("gone")
        return room.watches == 2

    await wait_until(watched_again)
