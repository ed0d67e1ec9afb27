"""The feed in JSON: what a client gets that asks, and waits."""

from __future__ import annotations

import asyncio
import secrets
import time

import pytest

from coordinator.feed.cursor import parse
from coordinator.feed.filters import Filter
from coordinator.feed.metrics import DELIVERIES
from coordinator.store.fences.copies import Fence, Fencing
from tests.feed.rig import Front
from tests.items.client import Client
from tests.support.counts import counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def test_a_project_without_events_has_a_cursor_and_a_hint(front: Front, tools: Client) -> None:
    answer = await front.poll(tools.project)
    hint = answer.pop("hint")
    assert hint.startswith(f"nobody has written to the project '{tools.project}' yet")
    assert answer == {"events": [], "cursor": answer["cursor"], "hasMore": False}
    assert await front.poll(tools.project, after=answer["cursor"], waitMs=1) == {**answer, "hint": hint}
    async with front.stream(tools.project) as stream:
        assert stream.frames[0].data == {"project": tools.project, "cursor": answer["cursor"], "hint": hint}
    await tools.add()
    for after in (answer["cursor"], "oldest"):
        assert "hint" not in await front.poll(tools.project, after=after)
    async with front.stream(tools.project, after="oldest") as stream:
        assert "hint" not in stream.frames[0].data


async def test_without_after_only_what_comes_is_answered(front: Front, tools: Client) -> None:
    await tools.add_many(3)
    answer = await front.poll(tools.project, waitMs=0)
    assert answer["events"] == []
    waiting = asyncio.create_task(front.poll(tools.project, waitMs=50_000))
    await wait_until(lambda: front.feed.open)
    item = await tools.add("new")
    answer = await waiting
    assert [event["data"]["id"] for event in answer["events"]] == [item]
    assert answer["cursor"] == answer["events"][0]["cursor"]


async def test_a_wait_ends_with_the_first_event_and_goes_on_from_its_cursor(
    front: Front, other: Front, tools: Client
) -> None:
    cursor = (await front.poll(tools.project))["cursor"]
    seen, ids = [], []
    for n in range(10):
        waiting = asyncio.create_task((front, other)[n % 2].poll(tools.project, after=cursor, waitMs=50_000))
        ids.append(await tools.add(str(n)))
        answer = await waiting
        seen += [event["data"]["id"] for event in answer["events"]]
        cursor = answer["cursor"]
    assert seen == ids


async def test_a_wait_in_vain_ends_in_time_with_the_present_cursor(front: Front, tools: Client) -> None:
    (item,) = await tools.add_many(1)
    cursor = (await front.poll(tools.project))["cursor"]
    began = time.monotonic()
    waiting = asyncio.create_task(front.poll(tools.project, id=item, after=cursor, waitMs=600))
    await tools.add("another")
    answer = await waiting
    assert time.monotonic() - began > 0.5
    assert answer["events"] == []
    assert answer["cursor"] != cursor
    assert (await front.poll(tools.project, after=answer["cursor"]))["events"] == []


async def test_pages_follow_each_other(front: Front, tools: Client) -> None:
    ids = await tools.add_many(25)
    cursor, seen, more = "oldest", [], True
    while more:
        answer = await front.poll(tools.project, after=cursor, limit=10)
        assert len(answer["events"]) <= 10
        seen += [event["data"]["id"] for event in answer["events"]]
        cursor, more = answer["cursor"], answer["hasMore"]
    assert seen == ids


async def test_a_rare_event_far_on_is_found_at_once(front: Front, tools: Client) -> None:
    cursor = (await front.poll(tools.project))["cursor"]
    for _ in range(25):
        await tools.add_many(50)
    (item,) = await tools.add_many(1)
    answer = await front.poll(tools.project, after=cursor, id=item)
    assert [event["data"]["id"] for event in answer["events"]] == [item]


async def test_without_a_wait_it_is_answered_what_has_happened_by_now(front: Front, tools: Client) -> None:
    cursor = (await front.poll(tools.project))["cursor"]
    async with front.stream(tools.project) as stream:  # so that the front-end reads the project, a little later
        for _ in range(20):
            item = await tools.add()
            answer = await front.poll(tools.project, after=cursor)
            assert [event["data"]["id"] for event in answer["events"]] == [item]
            cursor = answer["cursor"]
        await stream.events(20)


async def test_deliveries_are_what_listeners_were_sent(front: Front, tools: Client) -> None:
    """Not what was read for others, or to check what a listener has named."""
    cursor, ids = (await front.poll(tools.project))["cursor"], await tools.add_many(25)
    other = front.reader.listen(parse(cursor, tools.project), Filter())
    before = counted(DELIVERIES)
    assert len(await other.take()) == 25
    await tools.delete(ids[3])
    assert [len((await front.poll(tools.project, after=cursor, limit=limit))["events"]) for limit in (10, 1)] == [10, 1]
    assert len((await front.poll(tools.project, after=cursor, id=ids[3]))["events"]) == 2
    assert counted(DELIVERIES) - before == 13
    async with front.stream(tools.project, after=cursor) as stream, front.stream(tools.project, id=ids[4]) as one:
        await stream.events(26)
        await tools.add("live")
        await tools.update(ids[4], title="new")
        await stream.events(2)
        await one.events(1)
    front.reader.close(other)
    assert counted(DELIVERIES) - before == 13 + 28 + 1


async def test_a_drain_answers_those_who_wait(front: Front, tools: Client) -> None:
    waiting = asyncio.create_task(front.poll(tools.project, waitMs=50_000))
    await wait_until(lambda: front.feed.open)
    front.feed.hold(True, 0)
    answer = await waiting
    assert answer["events"] == []
    assert (await front.poll(tools.project, waitMs=50_000))["cursor"] == answer["cursor"]


@pytest.mark.usefixtures("often")
async def test_streams_and_waits_end_when_the_project_is_served_from_another_store(front: Front, tools: Client) -> None:
    await tools.add()
    fencing, copy = Fencing(tools.store), secrets.token_hex(8)
    async with front.stream(tools.project) as stream:
        waiting = asyncio.create_task(front.get(tools.project, waitMs=20_000))
        await wait_until(lambda: len(front.feed.open) == 2)
        await fencing.put(tools.project, copy, "moved")
        await fencing.note(tools.project, Fence(copy, "moved", 0, "", ""))
        await tools.store.fences.look()
        assert "another store" in (await stream.rest())[-1].comment
        refused = await waiting
        assert (refused.status_code, "was moved to another store" in refused.text) == (503, True)
    await fencing.turn(tools.project, copy, copy, None)
    await fencing.note(tools.project, None)
    await tools.store.fences.look()
    await tools.add()
