"""Parked claims while processes die, pause and restart, and during store outages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.testing import capture_logs

from coordinator.errors import ToolFailure
from coordinator.store import keys, subscription
from coordinator.store.embedded.server import EmbeddedServer
from tests.items.client import Client
from tests.items.parked import Front, Fronts, Parked
from tests.items.selectors import call_of, take
from tests.support.servers import kill
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def forget(tools: Client, process: str) -> None:
    """As if ten seconds had passed since a process last registered as alive."""
    assert await tools.store.command("DEL", keys.alive.key(tools.project, process)) == 1


async def left_by(tools: Client) -> list[bytes]:
    """The keys behind the project's parked calls."""
    pattern = keys.project_prefix(tools.project) + b"w[gqst]*"
    return sorted([key async for key in tools.store.client.scan_iter(match=pattern)])


async def outcome(call: Parked) -> str:
    """The item, or the kind of the failure that the call ended with."""
    try:
        return await call.item()
    except ToolFailure as failure:
        return failure.kind


async def test_an_item_handed_to_a_killed_front_end_is_returned_to_a_retry(fronts: Fronts) -> None:
    tools, dying = await fronts.pair()
    call = await dying.park("agent")
    await dying.kill()
    item = await tools.add()
    assert await tools.next() == [], "nobody can know yet"
    again = tools.begin("agent", wait_ms=60_000, request_id=call.request_id)
    assert await again.item() == item


async def test_a_retry_takes_over_from_a_killed_front_end(fronts: Fronts) -> None:
    tools, dying = await fronts.pair()
    call, behind = await dying.park("agent"), await tools.park("behind")
    await dying.kill()
    again = await tools.park("agent", request_id=call.request_id)
    items = [await tools.add(), await tools.add()]
    assert [await again.item(), await behind.item()] == items


@pytest.mark.parametrize("dead", [1, 40])
async def test_the_calls_of_a_dead_front_end_are_skipped(fronts: Fronts, dead: int) -> None:
    tools, dying = await fronts.pair()
    calls = [await dying.park(f"dead-{number}") for number in range(dead)]
    process = await dying.process()
    behind = await tools.park("behind")
    await dying.kill()
    await forget(tools, process)
    item = await tools.add()
    assert await behind.item() == item
    assert not [call for call in calls if await tools.is_parked(call)]


async def test_a_front_end_presumed_dead_retries(fronts: Fronts) -> None:
    """It was suspended for ten seconds; its calls were dropped, and now it continues."""
    tools, paused = await fronts.pair()
    calls = [await paused.park(f"agent-{number}") for number in range(3)]
    await forget(tools, await paused.process())
    item = await tools.add()
    assert await calls[0].item() == item
    items = [await tools.add(), await tools.add()]
    assert [await call.item() for call in calls[1:]] == items


async def test_a_dead_front_end_leaves_no_permanent_keys(fronts: Fronts) -> None:
    tools, dying = await fronts.pair()
    await dying.park("agent", {"tags": "never,ever"}, wait_ms=5_000)
    await dying.kill()
    left = await left_by(tools)
    assert len(left) == 5, "the queue, the call, the list of queues, and a place for each tag"
    for key in left:
        assert 0 < await tools.store.command("PTTL", key) <= 15_000
    await tools.store.command("DEL", *left)


async def test_expired_entries_are_removed_from_live_keys(fronts: Fronts) -> None:
    """Calls of others keep the lists of queues and selectors alive."""
    tools, dying = await fronts.pair()
    call = await dying.park("agent", {"orderBy": "oldest"})
    await dying.kill()
    (queue,) = await tools.store.command("ZRANGE", keys.waiting.key(tools.project), 0, -1)
    place = keys.wanted.key(tools.project, "*:0")
    stale = (await tools.store.command("HGET", place, queue))[13:]
    await tools.store.command("ZADD", keys.waiting.key(tools.project), 1, queue)
    await tools.store.command("HSET", place, queue, b"%013d" % 1 + stale)
    await tools.store.command(
        "DEL", keys.queue.key(tools.project, queue.decode()), keys.waiter.key(tools.project, call.name)
    )
    other = await tools.park("other")
    assert queue not in await tools.store.command("ZRANGE", keys.waiting.key(tools.project), 0, -1)
    await tools.add()
    await other.item()
    assert await left_by(tools) == []


async def test_a_longer_wait_keeps_the_queue_for_as_long(fronts: Fronts) -> None:
    tools = await fronts.make()
    for wait_ms in (20_000, 45_000, 30_000):
        await tools.park(f"agent-{wait_ms}", wait_ms=wait_ms)
    calls = {keys.waiter.key(tools.project, call.name) for call in tools.calls}
    shared = set(await left_by(tools)) - calls
    assert len(shared) == 3
    await tools.park("other", {"orderBy": "oldest"}, wait_ms=40_000)  # a queue of its own, listed beside the first
    for key in shared:
        assert await tools.store.command("PTTL", key) > 40_000


async def test_a_broken_subscription_loses_nothing(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    for turn in range(3):
        calls = [await front.park(f"agent-{turn}-{n}") for n, front in enumerate((tools, other) * 3)]
        # One write, so that nothing is subscribed when the items are handed out.
        made, killed = await asyncio.gather(
            asyncio.gather(tools.store.command("CLIENT", "KILL", "TYPE", "pubsub"), tools.add_many(6)),
            tools.store.command("PING"),
        )
        assert killed
        assert {await call.item() for call in calls} == set(made[1])


@pytest.mark.parametrize("lost", ["claim_next", "end_wait"])
async def test_a_lost_answer(fronts: Fronts, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    tools, other = await fronts.pair()
    run = other.store.run

    async def losing(script: Any, project: str, *args: Any, **more: Any) -> Any:
        reply = await run(script, project, *args, **more)
        if script.name == lost:
            raise ToolFailure("store_unavailable", "the answer was lost")
        return reply

    with monkeypatch.context() as patch:
        patch.setattr(other.store, "run", losing)
        call = other.begin("agent", wait_ms=100)
        with pytest.raises(ToolFailure, match="the answer was lost"):
            await call.answer()
    again = call_of("agent", request_id=call.request_id, wait_ms=100)
    answer = await tools("claim_item", **again)
    assert answer["claimResults"][0]["outcome"] == "no_match"
    item = await tools.add()
    assert await tools.next() == [item]


# --- a separate store


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path) as server:
        yield server


@pytest.fixture
async def own(server: EmbeddedServer, project: str) -> AsyncIterator[Fronts]:
    """Front-ends on that store; it must run again at the end of the test."""
    fronts = Fronts(server.url, project)
    yield fronts
    await fronts.close()


async def start_again(server: EmbeddedServer, fronts: tuple[Front, ...]) -> None:
    await wait_until(lambda: server.poll() is not None, what="the server's end")
    await asyncio.to_thread(server.start)

    async def back() -> bool:
        try:
            for front in fronts:
                await front.store.ping()
        except ToolFailure:
            return False
        return True

    await wait_until(back, what="the connections")


async def test_parked_calls_survive_a_store_outage(server: EmbeddedServer, own: Fronts) -> None:
    """A call with a script in progress fails; the others keep waiting."""
    pair = await own.pair()
    calls = [await pair[number % 2].park(f"agent-{number}") for number in range(8)]
    items: list[str] = []
    for front in pair:
        kill(server)
        await start_again(server, pair)
        items += await front.add_many(4)
    given = []
    for call in calls:
        got = await outcome(call)
        if got == "shedding":
            got = await pair[0].begin(call.agent, wait_ms=60_000, request_id=call.request_id).item()
        given.append(got)
    assert sorted(given) == sorted(items)
    for call, item in zip(calls, given, strict=True):
        assert (await pair[1].release(call.agent, item))["outcome"] == "success"


async def test_logs_of_shared_tasks_belong_to_no_request(server: EmbeddedServer, own: Fronts) -> None:
    front = await own.make()
    with capture_logs(processors=[merge_contextvars]) as logged:
        with bound_contextvars(request_id="first"):
            call = await front.park("agent")
        kill(server)

        def told() -> set[tuple[str, object]]:
            events = ("a subscription was lost", "parked claims cannot be maintained")
            return {(line["event"], line.get("request_id")) for line in logged if line["event"] in events}

        await wait_until(lambda: len(told()) >= 2, what="both lines")
        await start_again(server, (front,))
    assert {request_id for _, request_id in told()} == {None}
    item = await front.add()
    if await outcome(call) == "shedding":
        assert await front.begin("agent", wait_ms=60_000, request_id=call.request_id).item() == item


async def test_calls_that_cannot_retry_end(server: EmbeddedServer, own: Fronts) -> None:
    pair = await own.pair()
    calls = [await front.park(f"agent-{number}", wait_ms=5_000) for number, front in enumerate(pair)]
    kill(server)
    began = time.monotonic()
    assert [await outcome(call) for call in calls] == ["shedding", "shedding"]
    late = pair[0].begin("late", wait_ms=60_000)
    assert await outcome(late) == "shedding"
    assert time.monotonic() - began < 50
    await start_again(server, pair)
    item = await pair[1].add()
    assert await pair[1].begin("late", wait_ms=60_000, request_id=late.request_id).item() == item


async def test_a_first_call_without_a_store_does_not_hang(
    server: EmbeddedServer, own: Fronts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "LISTEN_SECONDS", 0.2)
    front = await own.make()
    kill(server)
    assert await outcome(front.begin("agent", wait_ms=60_000)) == "shedding"
    await start_again(server, (front,))


async def test_a_store_that_rejects_subscriptions(
    server: EmbeddedServer, own: Fronts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account may have access to all keys but no channel: then waiting is impossible, and reported."""
    monkeypatch.setattr(subscription, "LISTEN_SECONDS", 0.2)
    tools = await own.make()
    await tools.store.command("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels")
    path = server.url.rpartition("@")[2]
    mute = await own.make(f"unix://mute:secret@{path}")
    with pytest.raises(ToolFailure, match="subscription"):
        await mute.begin("agent", wait_ms=60_000).answer()
    item = await tools.add()
    assert (await take(mute, "agent"))["itemId"] == item
