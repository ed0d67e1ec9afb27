"""Waiting reads over HTTP: over both paths, to clients that leave, callers without rights, and with progress."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from typing import Any

import pytest
from mcp.client import Client as McpClient

from coordinator.feed import waits
from coordinator.store import Store
from coordinator.transport.mcp import progress
from tests.feed.guarded import Guarded, bearer, token
from tests.feed.rig import Front, Json
from tests.items.client import Client
from tests.items.selectors import call_of
from tests.support.wait import wait_until
from tests.transport.rig import MODERN, meta

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("rarely")]


@pytest.fixture
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait is ended by the read that comes after 10 s."""
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 10_000.0)
    monkeypatch.setattr(waits, "RECHECK_SECONDS", 0.1)


async def ask(
    front: Front,
    project: str,
    *,
    tool: str = "get_context",
    modern: bool = True,
    headers: dict[str, str] | None = None,
    told: Json | None = None,
    **arguments: Any,
) -> Json:
    """The result of a call."""
    given = {"accept": "application/json, text/event-stream", **(headers or {})}
    params: Json = {"name": tool, "arguments": arguments}
    if modern:
        params["_meta"] = {**meta(), **(told or {})}
        given |= {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
    elif told:
        params["_meta"] = told
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    response = await front.http.post(f"/p/{project}/mcp/items", json=body, headers=given)
    text = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        text = next(line[6:] for line in reversed(text.splitlines()) if line.startswith("data: "))
    result: Json = json.loads(text)["result"]
    return result


async def waiting_at(front: Front, count: int) -> None:
    await wait_until(lambda: front.room.waiting == count and front.room.settled)


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("told", [None, {"progressToken": 1}])
async def test_a_wait_ends_with_its_event(front: Front, tools: Client, modern: bool, told: Json | None) -> None:
    item = await tools.add()
    for _ in range(2):  # the second one is taken before the HTTP parser
        waiting = asyncio.create_task(
            ask(front, tools.project, modern=modern, told=told, itemId=item, waitFor="changed", waitMs=50_000)
        )
        await waiting_at(front, 1)
        assert front.app.in_flight == 1
        await tools.update(item, summary="new" + item)
        await tools.update(item, summary="new")
        answer = (await waiting)["structuredContent"]
        assert answer["waited"]["met"]
        assert answer["item"]["id"] == item
        await waiting_at(front, 0)
    assert (front.app.fast_path.hits == 0) == bool(told)


@pytest.mark.parametrize("told", [None, {"progressToken": 1}])
async def test_clients_that_leave_leave_nothing_behind(front: Front, tools: Client, told: Json | None) -> None:
    item = await tools.add()
    await ask(front, tools.project, itemId=item, waitFor="changed", waitMs=0)
    for _ in range(3):
        waiting = asyncio.create_task(
            ask(front, tools.project, told=told, itemId=item, waitFor="changed", waitMs=50_000)
        )
        await waiting_at(front, 1)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        await waiting_at(front, 0)
        await wait_until(lambda: front.app.in_flight == 0 and front.admission.parked == 0)
    assert front.room.subjects == 0


@pytest.mark.parametrize("told", [None, {"progressToken": 1}])
async def test_only_clients_that_leave_cancel_calls_of_the_store(
    front: Front, tools: Client, told: Json | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = Counter[str]()
    monkeypatch.setattr(tools.store, "observe", lambda _name, _seconds, outcome, *_: outcomes.update([outcome]))
    client = tools.store.client
    for left in (True, False):
        await client.client_pause(60_000, all=False)
        try:
            request = call_of("a", wait_ms=50_000)
            calling = asyncio.create_task(ask(front, tools.project, tool="claim_item", told=told, **request))
            await wait_until(lambda: tools.store.in_flight == 1)
            if left:
                calling.cancel()
                await wait_until(lambda: front.app.in_flight == 0)
                assert outcomes["cancelled"] == 1
        finally:
            await client.client_unpause()
        if not left:
            await wait_until(lambda: front.admission.parked == 1)
            await tools.add()
            assert not (await calling)["isError"]
    assert (outcomes["cancelled"], outcomes["stopped"]) == (1, 0)


async def test_parked_calls_are_counted_and_limited(front: Front, tools: Client) -> None:
    item = await tools.add()
    waiting = [
        asyncio.create_task(ask(front, tools.project, itemId=item, waitFor="terminal", waitMs=50_000)) for _ in range(5)
    ]
    await waiting_at(front, 5)
    assert (front.admission.parked, front.admission.in_flight) == (5, 0)
    await tools("advance_item", transitions=[{"itemId": item, "trigger": "cancel"}])
    assert all(one["structuredContent"]["waited"]["met"] for one in await asyncio.gather(*waiting))
    assert front.admission.parked == 0


@pytest.mark.parametrize("told", [None, {"progressToken": 1}])
async def test_a_revoked_token_ends_its_waits(guarded: Guarded, tools: Client, told: Json | None) -> None:
    item = await tools.add()
    alice = bearer(await token(guarded, "alice", "items.read"))
    for _ in range(2):
        await ask(guarded, tools.project, headers=alice, itemId=item, waitFor="changed", waitMs=0)
    waiting = asyncio.create_task(
        ask(guarded, tools.project, headers=alice, told=told, itemId=item, waitFor="changed", waitMs=50_000)
    )
    await waiting_at(guarded, 1)
    guarded.tokens.revoke("alice")
    await guarded.authenticator.read(guarded.tokens.path)
    refused = await waiting
    assert refused["isError"]
    assert refused["structuredContent"]["error"]["code"] == "unauthenticated"
    assert guarded.room.waiting == 0


async def test_a_new_position_is_read_after_the_store_was_away(
    front: Front, tools: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = await tools.add()
    waiting = asyncio.create_task(ask(front, tools.project, itemId=item, waitFor="terminal", waitMs=50_000))
    await waiting_at(front, 1)
    before = store.link().connects
    await store.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    store.link().recycle("a test")
    await wait_until(lambda: store.link().connects > before)
    await tools("advance_item", transitions=[{"itemId": item, "trigger": "cancel"}])
    assert (await waiting)["structuredContent"]["waited"]["met"]


async def test_progress_says_how_far_a_tree_is(front: Front, tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.02)
    root = await tools.add()
    first, second = await tools.add_many(2, parentId=root)
    await tools("advance_item", transitions=[{"itemId": first, "trigger": "cancel"}])
    said: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        said.append(message)

    url = f"http://127.0.0.1:{front.port}/p/{tools.project}/mcp/items"
    async with McpClient(url, mode=MODERN) as client:
        arguments = {"itemId": root, "waitFor": "tree_terminal", "waitMs": 50_000}
        calling = asyncio.create_task(client.call_tool("get_context", arguments, progress_callback=note))
        await wait_until(lambda: len(said) > 1)
        await tools("advance_item", transitions=[{"itemId": second, "trigger": "cancel"}])
        await calling
    assert said[0] == "1 of 2 items finished"
