"""A full store: reads and deletions work, and everything else is rejected as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.tool import Delivery
from tests.items.calls import CALLS, contents, delete, delete_notes, keyed, unlink_all, unlink_by_id, unlink_by_pair
from tests.items.client import Client, Json, fresh_id
from tests.items.moments import lapse
from tests.items.selectors import call_of

pytestmark = pytest.mark.anyio

FREEING = (delete, delete_notes, unlink_by_id, unlink_by_pair, unlink_all)


@asynccontextmanager
async def full(store: Store) -> AsyncIterator[None]:
    await store.command("CONFIG", "SET", "maxmemory", 1)
    try:
        yield
    finally:
        await store.command("CONFIG", "SET", "maxmemory", 0)


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncIterator[Client]:
    """On a separate server; the project is consistent afterwards."""
    server = EmbeddedServer(tmp_path, fsync="everysec")
    store = Store(server.start(), timeout_ms=20_000)
    try:
        await store.open()
        yield Client(store, "full")
        assert (await audit(store, "full")).differences == []
    finally:
        await store.close()
        server.stop()


async def test_writes_are_rejected_without_effect(tools: Client) -> None:
    calls = [await prepare(tools) for prepare in CALLS if prepare not in FREEING]
    before = await contents(tools)
    async with full(tools.store):
        for call in calls:
            assert (await tools.refusal(call[0], **keyed(call, fresh_id()))).code == "store_full", call
        assert await contents(tools) == before


@pytest.mark.parametrize("prepare", FREEING, ids=lambda call: call.__name__)
async def test_deletions_take_effect_once(
    tools: Client, prepare: Callable[[Client], Awaitable[tuple[str, Json]]]
) -> None:
    call = await prepare(tools)
    arguments = keyed(call, fresh_id())
    before = await contents(tools)
    async with full(tools.store):
        answer = await tools.answer(call[0], **arguments)
        assert await contents(tools) != before
        assert await tools.answer(call[0], **arguments) == answer


async def test_a_retry_gets_the_first_answer(tools: Client) -> None:
    calls: list[tuple[str, Json]] = []
    for prepare in CALLS:
        call = await prepare(tools)
        calls.append((call[0], keyed(call, fresh_id())))
    first = [await tools.attempt_answer(tool, **arguments) for tool, arguments in calls]
    async with full(tools.store):
        again = [await tools.attempt_answer(tool, **arguments) for tool, arguments in calls]
        reused = calls[0][1] | {"items": [{"title": "another"}]}
        assert (await tools.refusal(calls[0][0], **reused)).code == "request_id_reused"
    assert [str(answer) for answer in again] == [str(answer) for answer in first]


async def test_a_retried_claim_keeps_the_item_of_its_first_call(tools: Client) -> None:
    """The first call waited, and its hang-up is noticed only after the retry was answered."""
    item = await tools.add()
    call = call_of("agent", wait_ms=60_000)
    delivery = tools.delivery = Delivery()
    first = await tools("claim_item", **call)
    tools.delivery = None
    async with full(tools.store):
        assert await tools("claim_item", **call) == first
        await delivery.end()
    assert tools.drain is not None
    await tools.drain()
    assert (await tools.claim("rival", item))["outcome"] == "already_claimed"


async def test_reads_work_as_before(tools: Client) -> None:
    blocker, item = await tools.add_many(2)
    await tools.link(blocker, item)
    await tools.move(blocker, "start")
    await tools.claim("agent", blocker)
    await lapse(tools, blocker)
    asked: list[tuple[str, Json]] = [
        ("query_items", {"operation": "get", "id": item, "includeAncestors": True}),
        ("query_items", {"operation": "search", "query": "1"}),
        ("query_items", {"operation": "overview", "includeChildren": True}),
        ("query_notes", {"operation": "list", "itemId": item}),
        ("query_dependencies", {"itemId": item, "neighborsOnly": False, "includeItemInfo": True}),
        ("get_context", {}),
        ("get_context", {"since": "1970-01-01T00:00:00Z", "includeAncestors": True}),
        ("get_context", {"itemId": blocker}),
        ("get_next_status", {"itemId": item}),
        ("get_blocked_items", {"includeItemDetails": True, "includeAncestors": True}),
    ]
    before = [await tools.answer(tool, **arguments) for tool, arguments in asked]
    async with full(tools.store):
        assert [await tools.answer(tool, **arguments) for tool, arguments in asked] == before


async def test_the_next_item_is_found_past_expired_claims_and_held_items(tools: Client) -> None:
    root = await tools.add(role="work")
    await tools.add_many(20, parentId=root, priority="high")
    lost, rest = await tools.add(priority="medium"), await tools.add(priority="low")
    await tools.claim("holder", root)
    await tools.claim("late", lost)
    async with full(tools.store):
        assert await tools.next(limit=5) == [rest]
    await lapse(tools, lost)
    async with full(tools.store):
        assert await tools.next(limit=5) == [lost, rest]
    assert await tools.next(limit=5) == [lost, rest]
