"""What listeners are told when events are missing, and when none are although the server is another one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.errors import ToolFailure
from coordinator.feed import FeedReader, Gap, position, reader, waits
from coordinator.feed.cursor import START, Cursor
from coordinator.feed.filters import Filter
from coordinator.feed.listener import Item
from coordinator.store import Store, keys
from coordinator.store.embedded.server import EmbeddedServer
from tests.feed.rig import Front
from tests.items.client import Client
from tests.support.parked import parked
from tests.support.sentinels import Watched
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def test_a_cursor_that_was_trimmed_away_gets_a_gap_and_then_all_that_is_kept(front: Front, tools: Client) -> None:
    await tools.add_many(5)
    cursor = (await front.poll(tools.project))["cursor"]
    ids = await tools.add_many(20)
    await tools.store.command("XTRIM", keys.events.key(tools.project), "MAXLEN", 10)
    async with front.stream(tools.project, after=cursor) as stream:
        gap = await stream.until("gap")
        assert gap.data["reason"] == "trimmed"
        assert [event["data"]["id"] for event in await stream.events(10)] == ids[10:]
        ids += [await tools.add()]
        await stream.events(1)
        assert [frame.event for frame in stream.frames].count("gap") == 1
    answer = await front.poll(tools.project, after=cursor)
    assert (answer["gap"], answer["events"], answer["hasMore"]) == ({"reason": "trimmed"}, [], True)
    answer = await front.poll(tools.project, after=answer["cursor"])
    assert [event["data"]["id"] for event in answer["events"]] == ids[10:]
    assert "gap" not in answer


async def test_a_cursor_from_before_the_first_event_gets_no_gap(front: Front, tools: Client) -> None:
    cursor = (await front.poll(tools.project))["cursor"]
    await tools.add_many(3)
    assert "gap" not in await front.poll(tools.project, after=cursor)
    await tools.store.command("XTRIM", keys.events.key(tools.project), "MAXLEN", 1)
    assert (await front.poll(tools.project, after=cursor))["gap"] == {"reason": "trimmed"}


async def test_a_cursor_ahead_of_the_stream_gets_a_gap(front: Front, tools: Client) -> None:
    await tools.add_many(5)
    cursor = (await front.poll(tools.project))["cursor"]
    await tools.store.command("DEL", keys.events.key(tools.project))
    answer = await front.poll(tools.project, after=cursor, waitMs=50_000)
    assert (answer["events"], answer["gap"], answer["hasMore"]) == ([], {"reason": "lost"}, False)
    item = await tools.add()
    answer = await front.poll(tools.project, after=answer["cursor"])
    assert [event["data"]["id"] for event in answer["events"]] == [item]
    other = Cursor(tools.project, "00000000", (99_999_999_999_999, 0))
    assert (await front.poll(tools.project, after=str(other)))["gap"] == {"reason": "failover"}


async def test_a_position_that_another_server_knows_too_gets_no_gap(front: Front, tools: Client) -> None:
    ids = await tools.add_many(3)
    first, *_ = (await front.poll(tools.project, after="oldest"))["events"]
    elsewhere = first["cursor"].replace(first["cursor"][8:16], "00000000")
    answer = await front.poll(tools.project, after=elsewhere)
    assert [event["data"]["id"] for event in answer["events"]] == ids[1:]
    assert "gap" not in answer
    ms, number = first["eventId"].split("-")
    between = Cursor(tools.project, "00000000", (int(ms), int(number) + 1000))
    last = Cursor(tools.project, "00000000", (int(ms) - 1, 0))
    assert (await front.poll(tools.project, after=str(last)))["gap"] == {"reason": "trimmed"}
    if int(ms) < int((await front.poll(tools.project, after="oldest"))["events"][-1]["eventId"].split("-")[0]):
        assert (await front.poll(tools.project, after=str(between)))["gap"] == {"reason": "failover"}


async def test_a_live_listener_hears_of_events_that_were_trimmed_before_they_were_read(
    front: Front, tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "COUNT", 5)
    key = keys.events.key(tools.project)
    async with front.stream(tools.project) as stream:
        await tools.add()
        await stream.events(1)
        client = tools.store.client
        async with client.pipeline(transaction=True) as burst:
            for n in range(30):
                burst.xadd(key, {"k": "update", "i": f"{n:032x}"})
            burst.xtrim(key, maxlen=10, approximate=False)
            await burst.execute()
        gap = await stream.until("gap")
        assert gap.data["reason"] == "trimmed"
        found = await stream.events(10)
        assert [int(event["data"]["id"].replace("-", ""), 16) for event in found] == list(range(20, 30))


# --- another server ---------------------------------------------------------------------------------


class Ear:
    """A listener to all events of a project, without a front-end."""

    def __init__(self, store: Store, project: str) -> None:
        self.reader = FeedReader(store)
        self._project = project
        self.items: list[Item] = []

    async def listen(self) -> None:
        found = await self.reader.position(self._project, None)
        listener = self.reader.listen(Cursor(self._project, found.epoch, found.position), Filter())
        while True:
            self.items += await listener.take()

    @property
    def ids(self) -> list[str]:
        return [item.id for item in self.items if not isinstance(item, Gap)]

    @property
    def gaps(self) -> list[str]:
        return [item.reason for item in self.items if isinstance(item, Gap)]


async def answers(store: Store) -> bool:
    with contextlib.suppress(ToolFailure):
        return await store.ping() > 0
    return False


async def test_a_listener_that_has_seen_this_server_is_not_moved_back_with_the_reader(tools: Client) -> None:
    project, store = tools.project, tools.store
    for entry in ("5-0", "7-0"):
        await store.command("XADD", keys.events.key(project), entry, "k", "update", "i", f"{1:032x}")
    feed = FeedReader(store)
    try:
        feed.watch(Cursor(project, "00000000", (6, 0)), f"{2:032x}", lambda _entry, _root: None)  # of another server
        found = await feed.position(project, None)
        listener = feed.listen(Cursor(project, found.epoch, found.position), Filter())
        assert await listener.take() == []
        assert not listener.behind
        item = await tools.add()
        (event,) = await listener.take()
        assert not isinstance(event, Gap)
        assert event.id == item.replace("-", "")
    finally:
        await feed.stop()


async def test_a_former_primary_moves_no_listener_back(watched_servers: Watched) -> None:
    """A planned failover: the former primary is told seconds later, and its connections last until then."""
    former, present = (Store(watched_servers.url, timeout_ms=3000) for _ in range(2))
    await former.open()
    try:
        await Client(former, "default").add_many(3)
        await wait_until(watched_servers.replicated, what="the replica")
        old = watched_servers.primary()
        watched_servers.switch()
        await wait_until(lambda: old not in watched_servers.named(), what="another primary")
        watched_servers.leave_former_primary()
        await present.open()
        await Client(present, "default").add_many(3)
        found = await position.read(present, Cursor("default", "", START), 0)
        with pytest.raises(ToolFailure) as refused:
            await position.read(former, Cursor("default", found.epoch, found.last), 0)
        assert refused.value.code == "store_unavailable"
        await wait_until(lambda: answers(former))
        again = await position.read(former, Cursor("default", found.epoch, found.last), 0)
        assert (again.gap, again.position) == (None, found.last)
    finally:
        await former.close()
        await present.close()


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "own", fsync="always") as server:
        yield server


async def test_a_restart_of_the_store_loses_nothing_and_tells_of_no_gap(own: EmbeddedServer) -> None:
    store = Store(own.url, timeout_ms=5000)
    await store.open()
    tools, ear = Client(store, "default"), Ear(store, "default")
    listening = asyncio.create_task(ear.listen())
    try:
        ids = await tools.add_many(3)
        await wait_until(lambda: len(ear.ids) == 3)
        for _ in range(2):
            own.kill()
            await wait_until(lambda: own.poll() is not None)
            own.start()
            await wait_until(lambda: answers(store))
            ids += await tools.add_many(3)
        await wait_until(lambda: len(ear.ids) == len(ids))
        assert [ear.ids, ear.gaps] == [[one.replace("-", "") for one in ids], []]
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await ear.reader.stop()
        await store.close()


@pytest.mark.parametrize("behind", [pytest.param(False, marks=pytest.mark.chaos), True])
async def test_a_failover_is_followed_and_lost_events_are_said(
    watched_servers: Watched, behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 10_000.0)  # a waiting read must not find out by chance
    store = Store(watched_servers.url, timeout_ms=3000)
    await store.open()
    tools, ear = Client(store, "default"), Ear(store, "default")
    listening = asyncio.create_task(ear.listen())
    try:
        ids = await tools.add_many(3)
        await wait_until(lambda: len(ear.ids) == 3)
        waiting = await parked(tools.room, tools("get_context", itemId=ids[0], waitFor="terminal", waitMs=50_000))
        await wait_until(watched_servers.replicated, what="the replica")
        old = watched_servers.primary()
        if behind:
            # The replica hears nothing any more, so these are acknowledged and lost.
            watched_servers.cut_off_replica()
            await tools.add_many(2)
            await wait_until(lambda: len(ear.ids) == 5)
        watched_servers.kill(old)
        await wait_until(lambda: watched_servers.primary() != old, what="another primary")

        async def added() -> bool:
            try:
                ids.append(await tools.add())
            except Exception:
                return False
            return True

        await wait_until(added, what="an answer from it")
        await wait_until(lambda: ids[-1].replace("-", "") in ear.ids, what="its event")
        await tools("advance_item", transitions=[{"itemId": ids[0], "trigger": "cancel"}])
        assert (await waiting)["waited"]["met"]
        assert ear.gaps == (["failover"] if behind else [])
        if not behind:
            assert ear.ids[: len(ids)] == [one.replace("-", "") for one in ids]
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await ear.reader.stop()
        await tools.room.reader.stop()
        await store.close()
