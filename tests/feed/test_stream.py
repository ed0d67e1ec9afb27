"""The event stream over HTTP, with real clients on two front-ends."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from coordinator.feed import listener as listeners
from coordinator.feed.cursor import entry_of
from coordinator.settings.sections.feed import Feed
from coordinator.store import keys
from coordinator.transport import streams
from tests.feed.rig import Front, Json
from tests.items.client import Client, actor, fresh_id
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def shown(tools: Client, *kinds: str) -> list[str]:
    """The ids of entries in the stream, of these kinds."""
    entries = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    return [entry.decode() for entry, flat in entries if flat[1].decode() in kinds]


async def test_listeners_on_two_front_ends_get_each_change_once_and_in_order(
    front: Front, other: Front, tools: Client
) -> None:
    async with front.stream(tools.project) as here, other.stream(tools.project) as there:
        ids = await tools.add_many(3)
        await tools("claim_item", requestId=fresh_id(), actor=actor("a"), claims=[{"itemId": ids[0]}])
        await tools.advance(ids[0], "start", "a")
        first, second = await here.events(4), await there.events(4)
    assert first == second
    assert [event["name"] for event in first] == ["item.create"] * 3 + ["item.transition"]
    assert [event["data"]["id"] for event in first] == [*ids, ids[0]]
    assert [event["eventId"] for event in first] == await shown(tools, "create", "transition")
    moved = first[3]["data"]
    assert (moved["from"], moved["to"], moved["trigger"]) == ("queue", "work", "start")
    assert set(moved) == {"project", "id", "rootId", "from", "to", "trigger"}
    assert len({event["cursor"] for event in first}) == 4


async def test_a_listener_goes_on_after_any_cursor_on_any_front_end(front: Front, other: Front, tools: Client) -> None:
    begin = (await front.poll(tools.project))["cursor"]
    await tools.add_many(5)
    async with front.stream(tools.project, after=begin) as stream:
        all_events = await stream.events(5)
    for n, event in enumerate(all_events):
        async with other.stream(tools.project, {"last-event-id": event["cursor"]}, after=begin) as stream:
            rest = await stream.events(4 - n)
            assert rest == all_events[n + 1 :]
            await tools.add("later")
            await stream.events(1)


async def test_nothing_is_missed_or_repeated_while_a_listener_joins(front: Front, tools: Client) -> None:
    """Listeners come while events do, also behind a listener that the reader serves already."""
    begin = (await front.poll(tools.project))["cursor"]
    async with asyncio.TaskGroup() as group:

        async def work() -> None:
            for _ in range(40):
                await tools.add_many(5)

        async def listen() -> list[str]:
            async with front.stream(tools.project, after=begin) as stream:
                return [event["eventId"] for event in await stream.events(200)]

        group.create_task(work())
        listening = []
        for _ in range(12):
            listening.append(group.create_task(listen()))
            await front.poll(tools.project, after=begin, waitMs=10)
    expected = await shown(tools, "create")
    for one in listening:
        assert one.result() == expected


async def test_a_long_history_is_caught_up_in_slices(front: Front, tools: Client) -> None:
    for _ in range(30):
        await tools.add_many(50)
    async with front.stream(tools.project, after="oldest") as stream:
        found = await stream.events(1500)
        await tools.add("now")
        found += await stream.events(1)
    assert [event["eventId"] for event in found] == await shown(tools, "create")


async def test_a_filter_lets_through_what_meets_all_its_conditions(front: Front, tools: Client) -> None:
    one, two = await tools.add_many(2)
    async with (
        front.stream(tools.project, id=one) as by_id,
        front.stream(tools.project, kinds="item.delete,item.claim") as by_kind,
        front.stream(tools.project, kinds="item.*", id=f"{one},{two}") as group,
    ):
        for item in (one, two):
            await tools("claim_item", requestId=fresh_id(), actor=actor("a"), claims=[{"itemId": item}])
            await tools("manage_items", operation="update", items=[{"id": item, "title": "new"}])
        await tools("manage_items", operation="delete", ids=[two])
        await tools("manage_items", operation="delete", ids=[one])
        assert [event["name"] for event in await by_id.events(2)] == ["item.update", "item.delete"]
        named = [(event["name"], event["data"]["id"]) for event in await by_kind.events(4)]
        assert named == [("item.claim", one), ("item.claim", two), ("item.delete", two), ("item.delete", one)]
        names = [event["name"] for event in await group.events(6)]
        assert names == ["item.claim", "item.update", "item.claim", "item.update", "item.delete", "item.delete"]


async def test_no_event_has_an_actor_a_holder_or_a_fence(front: Front, tools: Client) -> None:
    async with front.stream(tools.project, kinds="item.*") as stream:
        item = await tools.add("secret title")
        claimed = await tools("claim_item", requestId=fresh_id(), actor=actor("holder-x"), claims=[{"itemId": item}])
        await tools(
            "manage_notes", operation="upsert", notes=[{"itemId": item, "key": "k", "role": "queue", "body": "secret"}]
        )
        await tools("claim_item", requestId=fresh_id(), actor=actor("holder-x"), releases=[{"itemId": item}])
        found = await stream.events(4)
    assert [event["name"] for event in found] == ["item.create", "item.claim", "item.note", "item.release"]
    fence = str(claimed["claimResults"][0]["fenceToken"])
    assert not [word for word in ("holder-x", "secret", fence) if word in str([event["data"] for event in found])]


async def test_a_stream_begins_with_its_position_and_a_retry_hint(front: Front, tools: Client) -> None:
    async with front.http.stream("GET", f"/feed/{tools.project}") as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        lines = response.aiter_lines()
        head = [await anext(lines) for _ in range(4)]
    assert 1_000 <= int(head[0].removeprefix("retry: ")) <= 3_000
    assert head[1] == "event: ready"
    assert head[2].startswith("id: ")
    assert head[2][4:] in head[3]


@pytest.mark.usefixtures("often")
async def test_heartbeats_move_the_position_of_a_rare_filter(front: Front, tools: Client) -> None:
    (watched,) = await tools.add_many(1)
    async with front.stream(tools.project, id=watched) as stream:
        before = stream.frames[0].id
        await tools.add_many(3)
        last = (await shown(tools, "create"))[-1]

        async def caught_up() -> bool:
            return (await stream.until("heartbeat")).id.endswith(f"-{last}")

        await wait_until(caught_up)
        beat = stream.frames[-1]
        assert beat.data == {"cursor": beat.id}
        assert before != beat.id
    async with front.stream(tools.project, after=beat.id) as stream:
        await tools.add("next")
        assert len(await stream.events(1)) == 1


async def test_a_client_that_takes_nothing_is_cut_and_can_resume(
    front: Front, tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(listeners, "MOST_EVENTS", 50)
    begin = (await front.poll(tools.project))["cursor"]
    # A small window, so that the kernel does not take it all.
    reader, writer = await small_window(front.port)
    writer.write(f"GET /feed/{tools.project} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"200" in head
    async with front.stream(tools.project, after=begin) as healthy:
        total = 0
        while total < 20_000:
            await tools.add_many(50)
            total += 50
            await healthy.events(50)
            if len(front.feed.open) == 1:
                break
        assert total < 20_000, "it was not cut"
    writer.close()
    seen = await shown(tools, "create")
    async with front.stream(tools.project, after=begin) as stream:
        assert [event["eventId"] for event in await stream.events(len(seen))] == seen


async def small_window(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=sock, limit=2048)


async def test_a_drain_ends_streams_with_a_retry_hint(front: Front, tools: Client) -> None:
    async with front.stream(tools.project) as stream:
        await front.app.take_no_new_work("process:h/fe-0")
        last = (await stream.rest(20))[-1]
        assert int(last.retry) > 0
        assert "connect again" in last.comment
    async with front.http.stream("GET", f"/feed/{tools.project}") as response:
        assert response.status_code == 200
        assert b"retry: " in await response.aread()
    await front.app.take_no_new_work("")
    async with front.stream(tools.project) as stream:
        await tools.add()
        await stream.events(1)


async def test_a_drain_of_the_whole_fleet_ends_no_stream(front: Front, tools: Client) -> None:
    async with front.stream(tools.project) as stream:
        await front.app.take_no_new_work("fleet")
        await tools.add()
        await stream.events(1)


WRONG = (
    ("kinds=item.transitions", 400, "did you mean 'item.transition'"),
    ("kinds=", 400, "there is no kind ''"),
    ("kind=item.create", 400, "there is no parameter 'kind'; there are: after, kinds, id, root, waitMs, limit"),
    ("after=yesterday", 400, "after: must be a cursor"),
    ("after=", 400, "after: must be a cursor"),
    ("after=0-0", 400, "after: must be a cursor"),
    ("after=oldest&after=oldest", 400, "after: is given twice"),
    ("id=17", 400, "id: '17' is not the id of"),
    ("id=", 400, "id: '' is not the id of"),
    ("root=1764131594123", 400, "root: '1764131594123' is not the id of an item"),
    ("waitMs=-1", 400, "waitMs: must be a whole number from 0 to 50000"),
    ("waitMs=50001", 400, "waitMs: must be a whole number from 0 to 50000"),
    ("waitMs=1&limit=0", 400, "limit: must be a whole number from 1 to 1000"),
    ("%ff=1", 400, "the query is malformed"),
    ("id=1764131594123", 404, "id: there is no '1764131594123' in this project"),
    ("id=wf_0123456789ab", 404, "id: there is no 'wf_0123456789ab'"),
)
"""Queries, and the statuses and words that refuse them."""


async def test_wrong_queries_get_a_clear_error(front: Front, project: str) -> None:
    for query, status, words in WRONG:
        for accept in ("text/event-stream", "application/json"):
            response = await front.http.get(f"/feed/{project}?{query}", headers={"accept": accept})
            assert response.status_code == status, query
            assert words in response.json()["error"]["message"], query


async def test_unknown_and_foreign_things_get_a_clear_error(front: Front, tools: Client) -> None:
    cursor = (await front.poll("another"))["cursor"]
    refused = await front.get(tools.project, after=cursor)
    assert (refused.status_code, "a cursor of another project" in refused.text) == (400, True)
    refused = await front.get(tools.project, {"last-event-id": "x"})
    assert (refused.status_code, "Last-Event-ID: must be a cursor" in refused.text) == (400, True)
    gone = fresh_id()
    for name in ("id", "root"):
        named: Json = {name: gone}
        refused = await front.get(tools.project, **named)
        assert (refused.status_code, f"{name}: there is no" in refused.text) == (404, True)
    child = (await tools.chain(1))[1]
    refused = await front.get(tools.project, root=child)
    assert (refused.status_code, "is an item with a parent" in refused.text) == (400, True)
    for path, status in (("/feed", 404), ("/feed/", 404), ("/feed/a/b", 404), ("/feed/A", 400)):
        assert (await front.http.get(path)).status_code == status
    assert (await front.http.post(f"/feed/{tools.project}")).status_code == 405
    assert (await front.http.get(f"/feed/{tools.project}", headers={"accept": "text/html"})).status_code == 406


async def test_a_project_that_is_full_of_listeners_says_so(front: Front, project: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(front.feed, "limits", Feed(listeners_most=1))
    async with front.stream(project):
        refused = await front.get(project)
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "5"
    await wait_until(lambda: not front.feed.open)
    assert (await front.get(project)).status_code == 200


def test_entries_are_in_the_order_of_their_numbers() -> None:
    assert entry_of("5-10") > entry_of("5-9") > entry_of("4-99")


async def test_a_client_of_http_1_0_gets_no_chunks(front: Front, tools: Client) -> None:
    """Neither of the frames that are sent by the front-end nor of those that are written to the connection at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    request = f"GET /feed/{tools.project} HTTP/1.0\r\nhost: 127.0.0.1:{front.port}\r\nconnection: keep-alive\r\n\r\n"
    writer.write(request.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"\r\nconnection: close\r\n" in head
    body = await reader.readuntil(b"\n\n")
    for title in ("one", "two"):
        await tools.add(title)
        body += await reader.readuntil(b"\n\n")
    front.feed.hold(True, 0.0)
    body += await reader.read()
    assert b"\r" not in body
    frames = [frame.split(b"\n") for frame in body.removesuffix(b"\n\n").split(b"\n\n")]
    assert all(
        line.startswith((b":", b"event: ", b"id: ", b"data: ", b"retry: ")) for lines in frames for line in lines
    )
    assert body.count(b'"item.create"') == 2
    writer.close()


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/event-stream;q=0.5, application/json", "application/json"),
        ("*/*;q=0.1, application/json", "application/json"),
        ("text/event-stream;q=0, */*", "application/json"),
        ("text/event-stream, application/json;q=0.5", "text/event-stream"),
        ("text/event-stream, application/json", "text/event-stream"),
        ("text/event-stream;q=0.1, application/json;q=0", "text/event-stream"),
        ("*/*", "text/event-stream"),
        ("", "text/event-stream"),
    ],
)
async def test_the_client_says_which_form_it_prefers(front: Front, project: str, accept: str, kind: str) -> None:
    async with front.http.stream("GET", f"/feed/{project}", headers={"accept": accept}) as response:
        assert response.headers["content-type"] == kind
