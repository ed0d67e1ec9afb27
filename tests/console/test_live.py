"""Streams of many tabs, of tabs that take nothing, and of visitors whose rights change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.console import live
from coordinator.console.live import Live
from coordinator.console.metrics import BYTES, FRAMES, GAPS, TABS
from coordinator.console.viewer import Viewer
from coordinator.errors import ToolFailure
from coordinator.feed import FeedReader
from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.transport.http.replies import CONNECTION, Message
from tests.items.client import Client
from tests.support.counts import counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

ADA = Viewer(Caller("ada", "user", permissions=frozenset(("*",))), ends=1.0)


class Tab:
    """A tab and its connection."""

    def __init__(self, streams: Streams, viewer: Viewer | None = ADA) -> None:
        self.chunks: list[bytes] = []
        """What is written to the connection."""
        self.bodies: list[bytes] = []
        """What is sent as the answer's body."""
        self.takes = True
        self.aborted = False
        self.on_lost: Any = None
        self.status = 0
        self.viewer = viewer
        self.begun = asyncio.Event()
        self.task = asyncio.create_task(self._listen(streams))

    def write_chunk(self, chunk: bytes) -> bool:
        if self.takes:
            self.chunks.append(chunk)
        return self.takes

    def abort(self) -> None:
        self.aborted = True
        self.on_lost()

    async def _listen(self, streams: Streams) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                await streams.answering.wait()
            else:
                self.bodies.append(message["body"])
            self.begun.set()

        async def now() -> Viewer | None:
            return self.viewer

        try:
            await streams.live.serve({CONNECTION: self}, send, streams.project, streams.position, ADA, now)
        except ToolFailure as failure:
            self.status = 503 if failure.kind == "shedding" else 400
        finally:
            self.begun.set()


class Streams:
    """The streams of one process, in a project in which something can be changed."""

    def __init__(self, store: Store, project: str) -> None:
        self.project = project
        self.position = ""
        self.reader = FeedReader(store)
        self.live = Live(self.reader, store.ping)
        self.items = Client(store, project)
        self.tabs: list[Tab] = []
        self.answering = asyncio.Event()
        """Cleared: answers to tabs are held up where they begin."""
        self.answering.set()

    async def open(self, count: int = 1) -> list[Tab]:
        self.position = self.position or await self.live.position(self.project)
        opened = [Tab(self) for _ in range(count)]
        self.tabs += opened
        await asyncio.gather(*(tab.begun.wait() for tab in opened))
        return opened

    async def heard(self, tab: Tab, frames: int = 1) -> None:
        """Waits until a tab has got so many frames."""
        await wait_until(lambda: len(tab.chunks) >= frames, what=f"{frames} frames")


@pytest.fixture
async def streams(store: Store, project: str) -> AsyncIterator[Streams]:
    streams = Streams(store, project)
    yield streams
    for tab in streams.tabs:
        tab.task.cancel()
    await asyncio.gather(*(tab.task for tab in streams.tabs), return_exceptions=True)
    await streams.live.stop()
    await streams.reader.stop()


async def test_2000_tabs_hear_of_a_change_and_the_next_one_is_turned_away(streams: Streams) -> None:
    before = [counted(metric) for metric in (FRAMES, BYTES)]
    tabs = await streams.open(live.MOST_TABS)
    assert {tab.status for tab in tabs} == {200}
    assert counted(TABS) == live.MOST_TABS
    (late,) = await streams.open()
    assert late.status == 503
    await streams.items.add("t")
    await wait_until(lambda: all(tab.chunks for tab in tabs), what="a frame in each tab")
    assert len({tab.chunks[0] for tab in tabs}) == 1
    sent = [len(tabs), len(tabs) * len(tabs[0].chunks[0])]
    assert [counted(metric) - was for metric, was in zip((FRAMES, BYTES), before, strict=True)] == sent
    tabs[0].on_lost()
    await tabs[0].task
    assert (await streams.open())[0].status == 200


async def test_a_frame_that_says_look_at_everything_is_counted(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_IDS", 2)
    (tab,) = await streams.open()
    before = counted(GAPS)
    await streams.items.add_many(2)
    await streams.heard(tab)
    assert counted(GAPS) == before
    await streams.items.add_many(3)
    await wait_until(lambda: counted(GAPS) == before + 1, what="the count")
    assert b'"reset":true' in tab.chunks[-1]


async def test_a_tab_that_takes_nothing_is_cut_off_and_keeps_no_frames(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.transport.streams.STUCK_SECONDS", 0.0)
    monkeypatch.setattr(live, "PACE_SECONDS", 0.06)
    stuck, other = await streams.open(2)
    stuck.takes = False
    for number in range(3):
        await streams.items.add(str(number))
        await streams.heard(other, number + 1)
    await stuck.task
    assert stuck.aborted
    assert stuck.chunks == []
    assert len(streams.live.open) == 1


async def test_a_tab_hears_that_its_stream_is_alive_though_nothing_changes(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.transport.streams.HEARTBEAT_SECONDS", 0.02)
    (tab,) = await streams.open()
    await wait_until(lambda: any(b"event: beat\ndata\n\n" in chunk for chunk in tab.chunks), what="a sign of life")


@pytest.mark.parametrize("now", [None, Viewer(), Viewer(Caller("ada", "user", permissions=frozenset(("items.read",))))])
async def test_a_stream_ends_when_the_rights_of_its_viewer_have_changed(streams: Streams, now: Viewer | None) -> None:
    changed, same = await streams.open(2)
    changed.viewer = now
    streams.live.recheck_all()
    await changed.task
    assert not same.task.done()
    await streams.items.add("t")
    await streams.heard(same)
    assert changed.chunks == []


async def test_a_tab_hears_of_what_happens_while_its_stream_begins(streams: Streams) -> None:
    streams.answering.clear()
    opened = asyncio.create_task(streams.open())
    await wait_until(lambda: streams.tabs and streams.tabs[0].status, what="the stream to begin")
    before = streams.reader.reached(streams.project)
    await streams.items.add("t")
    await wait_until(lambda: streams.reader.reached(streams.project) != before, what="the event to be read")
    streams.answering.set()
    (tab,) = await opened
    await streams.heard(tab)
    assert b'"items"' in tab.chunks[0]


async def test_nothing_is_written_before_the_head_of_an_answer(streams: Streams) -> None:
    """Tabs of a group that is followed already hear of what happens meanwhile."""
    (first,) = await streams.open()
    streams.answering.clear()
    opened = asyncio.create_task(streams.open())
    await wait_until(lambda: len(streams.tabs) == 2 and streams.tabs[1].status, what="the stream to begin")
    await streams.items.add("t")
    await streams.heard(first)
    assert streams.tabs[1].chunks == []
    streams.answering.set()
    (tab,) = await opened
    await wait_until(lambda: any(b'"items"' in body for body in tab.bodies), what="the frame")
    await streams.items.add("t")
    await streams.heard(tab)


async def test_a_stream_that_could_not_begin_leaves_nothing_behind(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*given: Any) -> None:
        raise ToolFailure("over_capacity", "the store does not answer")

    monkeypatch.setattr(streams.reader, "listen", away)
    (tab,) = await streams.open()
    await tab.task
    assert not streams.live._groups  # private: a group without tabs is seen nowhere
