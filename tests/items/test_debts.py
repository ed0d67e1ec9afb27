"""Debts of large calls are settled before anything depends on them, even if the caller dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.base import LIBRARY
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.dying import MANY, Pauses, hub, link_pairs, owed, ready
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

TAGGED: Json = {"tags": "dep"}


def done(agent: str, *items: str, trigger: str = "complete", request_id: str = "") -> Json:
    """The arguments of transitions of one kind."""
    steps = [{"itemId": item, "trigger": trigger, "actor": actor(agent)} for item in items]
    return {"transitions": steps, "requestId": request_id or fresh_id()}


def unblocked(result: Json) -> list[str]:
    """The unblocked items of a transition, each once."""
    ids = [entry["itemId"] for entry in result["unblockedItems"]]
    assert len(ids) == len(set(ids))
    return sorted(ids)


# --- a hub completed by a process that died


async def start(tools: Client, waiting: list[str]) -> set[str]:
    result = await tools.advance(waiting[-1], "start")
    assert result["applied"], result
    return {waiting[-1]}


async def what_is_next(tools: Client, waiting: list[str]) -> set[str]:
    found = await tools.next(tags="dep", limit=20)
    assert len(set(found)) == 20
    assert set(found) <= set(waiting)
    return set()


async def held_or_next(tools: Client, waiting: list[str]) -> set[str]:
    found = await tools.next(tags="dep", limit=20, includeClaimed=True)
    assert len(set(found)) == 20
    return set()


async def claim_by_selector(tools: Client, waiting: list[str]) -> set[str]:
    claim = await take(tools, "agent", TAGGED)
    assert claim["outcome"] == "success", claim
    return {claim["itemId"]}


async def claim_that_would_wait(tools: Client, waiting: list[str]) -> set[str]:
    async with asyncio.timeout(60):
        claim = await take(tools, "agent", TAGGED, wait_ms=60_000)
    assert claim["outcome"] == "success", claim
    assert tools.drain is not None
    await tools.drain()
    return {claim["itemId"]}


async def complete_tree(tools: Client, waiting: list[str]) -> set[str]:
    answer = await tools("complete_tree", itemIds=waiting)
    assert [result["applied"] for result in answer["results"]] == [True] * len(waiting)
    return set(waiting)


async def delete_item(tools: Client, waiting: list[str]) -> set[str]:
    assert (await tools.delete(waiting[0]))["deleted"] == 1
    return {waiting[0]}


async def delete_all_edges(tools: Client, waiting: list[str]) -> set[str]:
    assert (await tools.unlink(toItemId=waiting[0], deleteAll=True))["deleted"] == 1
    return set()


async def delete_edges_of_the_hub(tools: Client, waiting: list[str]) -> set[str]:
    (source,) = [edge["fromItemId"] for edge in (await tools("query_dependencies", itemId=waiting[0]))["dependencies"]]
    assert (await tools.unlink(fromItemId=source, deleteAll=True))["deleted"] == len(waiting)
    return set()


async def delete_the_hub(tools: Client, waiting: list[str]) -> set[str]:
    (source,) = [edge["fromItemId"] for edge in (await tools("query_dependencies", itemId=waiting[0]))["dependencies"]]
    assert (await tools.delete(source))["deleted"] == 1
    return set()


async def write_a_note(tools: Client, waiting: list[str]) -> set[str]:
    note = {"itemId": waiting[0], "key": "k", "role": "queue", "body": "text"}
    assert (await tools("manage_notes", operation="upsert", notes=[note]))["upserted"] == 1
    return set()


async def delete_a_note(tools: Client, waiting: list[str]) -> set[str]:
    assert (await tools("manage_notes", operation="delete", itemId=waiting[0], key="k"))["deleted"] == 0
    return set()


async def be_audited(tools: Client, waiting: list[str]) -> set[str]:
    assert (await audit(tools.store, tools.project)).differences == []
    return set()


PAYING: list[Callable[[Client, list[str]], Awaitable[set[str]]]] = [
    start,
    what_is_next,
    held_or_next,
    claim_by_selector,
    claim_that_would_wait,
    complete_tree,
    delete_item,
    delete_all_edges,
    delete_edges_of_the_hub,
    delete_the_hub,
    write_a_note,
    delete_a_note,
    be_audited,
]


@pytest.mark.parametrize("call", PAYING, ids=lambda call: call.__name__)
async def test_the_next_operation_settles_first(
    tools: Client, dying: Client, call: Callable[[Client, list[str]], Awaitable[set[str]]]
) -> None:
    waiting = await tools.add_many(MANY, tags="dep")
    item = await hub(tools, waiting)
    assert await ready(tools) == set()
    assert (await dying.advance(item, "complete"))["applied"]
    assert await owed(tools) > 1
    taken = await call(tools, waiting)
    assert await owed(tools) == 0
    assert await ready(tools) == set(waiting) - taken


@pytest.mark.parametrize("call", [claim_by_selector, what_is_next, start], ids=lambda call: call.__name__)
async def test_settling_may_have_to_load_the_function_first(
    tools: Client, dying: Client, call: Callable[[Client, list[str]], Awaitable[set[str]]]
) -> None:
    """As after an upgrade by another front-end, or a failover."""
    waiting = await tools.add_many(MANY, tags="dep")
    item = await hub(tools, waiting)
    assert (await dying.advance(item, "complete"))["applied"]
    assert await owed(tools) > 1
    await tools.store.command("FUNCTION", "DELETE", LIBRARY.name)
    taken = await call(tools, waiting)
    assert await owed(tools) == 0
    assert await ready(tools) == set(waiting) - taken


async def test_a_retry_settles_the_debts_of_the_first_call(tools: Client, dying: Client) -> None:
    waiting = await tools.add_many(MANY, tags="dep")
    call = done("agent", await hub(tools, waiting))
    first = await dying("advance_item", **call)
    assert unblocked(first["results"][0]) == sorted(waiting)
    assert await owed(tools) > 1
    assert await tools("advance_item", **call) == first
    assert await owed(tools) == 0
    assert await ready(tools) == set(waiting)


async def test_a_call_cancelled_while_settling_has_taken_effect(tools: Client, dying: Client, redis_url: str) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def stop() -> None:
        reached.set()
        await never.wait()

    waiting = await tools.add_many(MANY, tags="dep")
    call = done("agent", await hub(tools, waiting))
    store = Pauses(redis_url, stop)
    await store.open()
    task = asyncio.create_task(Client(store, tools.project)("advance_item", **call))
    async with asyncio.timeout(60):
        await reached.wait()
    task.cancel()
    await asyncio.wait([task])
    await store.close()
    assert await ready(tools) == set()
    assert unblocked((await tools("advance_item", **call))["results"][0]) == sorted(waiting)
    assert await ready(tools) == set(waiting)


async def test_edges_with_outstanding_counts_block_at_once(tools: Client, dying: Client) -> None:
    waiting, item = await tools.add_many(MANY, tags="dep"), await tools.add()
    await link_pairs(dying, [(item, other) for other in waiting])
    assert await owed(tools) > 1
    for other in waiting[::40]:
        result = await tools.advance(other, "start")
        assert (result["applied"], result["blockers"][0]["fromItemId"]) == (False, item)
    assert await ready(tools) == set()


# --- a hub reopened by a process that died


@pytest.fixture
async def reopened(tools: Client, dying: Client) -> list[str]:
    """Items that all wait again; an agent holds the first one."""
    waiting = await tools.add_many(MANY, tags="dep")
    item = await hub(tools, waiting)
    await tools.move(item, "complete")
    assert (await tools.claim("holder", waiting[0]))["outcome"] == "success"
    assert (await dying.advance(item, "reopen"))["applied"]
    assert await owed(tools) > 1
    return waiting


async def test_an_item_that_waits_again_cannot_start(tools: Client, reopened: list[str]) -> None:
    answer = await tools("advance_item", **done("holder", *reopened[:100], trigger="start"))
    assert [result["applied"] for result in answer["results"]] == [False] * 100
    assert all(len(result["blockers"]) == 1 for result in answer["results"])


async def test_an_item_that_waits_again_is_not_recommended(tools: Client, reopened: list[str]) -> None:
    assert await tools.next(tags="dep", limit=20, includeClaimed=True) == []


async def test_an_item_that_waits_again_is_not_claimed_by_a_selector(tools: Client, reopened: list[str]) -> None:
    assert (await take(tools, "agent", TAGGED))["outcome"] == "no_match"


async def test_an_item_that_waits_again_is_not_completed(tools: Client, reopened: list[str]) -> None:
    answer = await tools("complete_tree", itemIds=reopened[1:])
    assert [result["applied"] for result in answer["results"]] == [False] * (MANY - 1)


@pytest.mark.parametrize("how", ["release", "another claim", "expiry", "update", "counting"])
async def test_an_item_that_waits_again_is_not_handed_over(
    tools: Client, dying: Client, fronts: Fronts, how: str
) -> None:
    only, other, *waiting = await tools.add_many(MANY)
    item = await hub(tools, [only, *waiting])
    await tools.move(item, "complete")
    if how != "update":
        await tools.update(only, tags="dep")
        await tools.claim("holder", only)
    call = await (await fronts.make()).park("waiter", TAGGED)
    assert (await dying.advance(item, "reopen"))["applied"]
    if how == "release":
        await tools.release("holder", only)
    elif how == "another claim":
        await tools.claim("holder", other)
    elif how == "update":
        await tools.update(only, tags="dep")
    else:
        await lapse(tools, only)
        await (tools.next(limit=1) if how == "expiry" else tools("query_items", operation="overview"))
    detail = (await tools("get_context", itemId=only)).get("claimDetail", {})
    assert detail.get("claimedBy") != "waiter"
    await tools.next(tags="dep")
    assert call.waits


async def test_an_item_that_waits_again_at_the_end_of_its_call_is_not_handed_over(
    tools: Client, fronts: Fronts
) -> None:
    """It was ready in between; the counts of the hub's other items are a debt."""
    waiting = await tools.add_many(MANY)
    item = await hub(tools, waiting)
    await tools.move(item, "complete")
    await tools.update(waiting[0], tags="dep")
    await tools.move(waiting[0], "block")
    call = await (await fronts.make()).park("waiter", TAGGED)
    steps = [{"itemId": waiting[0], "trigger": "resume"}, {"itemId": item, "trigger": "reopen"}]
    answer = await tools("advance_item", transitions=steps)
    assert [result["applied"] for result in answer["results"]] == [True, True]
    assert call.waits
    assert (await tools.claim("rival", waiting[0]))["outcome"] == "success", "nobody got it in between"


# --- the unblocked items of a call


@pytest.mark.parametrize("count", [20, MANY])
async def test_the_last_of_two_hubs_unblocks(tools: Client, dying: Client, count: int) -> None:
    waiting = await tools.add_many(count, tags="dep")
    first, second = [await hub(tools, waiting) for _ in range(2)]
    third = await hub(tools, waiting[:60])
    assert unblocked(await dying.advance(first, "complete")) == []
    assert unblocked(await dying.advance(second, "complete")) == sorted(waiting[60:])
    assert unblocked(await tools.advance(third, "complete")) == sorted(waiting[:60])
    assert await ready(tools) == set(waiting)


@pytest.mark.parametrize("of_parent", [40, 70])
@pytest.mark.parametrize("of_child", [40, 70])
@pytest.mark.parametrize("trigger", ["complete", "cancel"])
async def test_a_hub_and_its_cascaded_parent_unblock_together(
    tools: Client, dying: Client, of_child: int, of_parent: int, trigger: str
) -> None:
    child_only, both, parent_only, more = [
        await tools.add_many(count, tags="dep") for count in (of_child - 30, 30, of_parent - 30, 5)
    ]
    child, parent = await hub(tools, child_only + both), await hub(tools, both + parent_only)
    await tools.update(child, parentId=parent)
    for other in (*more[:3], both[0]):
        await tools.link(await tools.add(), other)
    await link_pairs(tools, [(child, more[0]), (parent, more[1])])
    result = await dying.advance(child, trigger)
    assert [event["itemId"] for event in result["cascadeEvents"]] == [parent]
    assert unblocked(result) == sorted(child_only + both[1:] + parent_only)
    if of_child > 50 or of_parent > 50:
        assert await owed(tools) > 0
    assert set(await tools.next(tags="dep", limit=20)) <= {*child_only, *both[1:], *parent_only, *more[3:]}
    assert await ready(tools) == {*child_only, *both[1:], *parent_only, *more[3:]}


@pytest.mark.parametrize("count", [10, 40])
async def test_each_threshold_counts_for_itself(tools: Client, dying: Client, count: int) -> None:
    """40 of each are more than one script handles; 10 of each are not."""
    at_work, at_end, at_once = [await tools.add_many(count, tags="dep") for _ in range(3)]
    item = await hub(tools, at_work, unblockAt="work")
    await link_pairs(tools, [(item, other) for other in at_end])
    await link_pairs(tools, [(item, other) for other in at_once], unblockAt="queue")
    assert await ready(tools) == set(at_once)
    started = unblocked(await dying.advance(item, "start"))
    assert set(started) - set(at_once) == set(at_work)
    assert (await tools.advance(at_end[0], "start"))["applied"] is False
    assert await ready(tools) == {*at_once, *at_work}
    assert (await dying.advance(item, "hold"))["applied"]
    assert (await tools.advance(at_work[0], "start"))["applied"] is False
    assert await ready(tools) == set()
    assert (await dying.advance(item, "resume"))["applied"]
    ended = unblocked(await dying.advance(item, "complete"))
    assert set(at_end) <= set(ended)
    assert (await tools.advance(at_end[0], "start"))["applied"]
    assert await ready(tools) == {*at_once, *at_work, *at_end[1:]}


async def test_edges_both_ways_round_to_the_same_item_count_twice(tools: Client, dying: Client) -> None:
    waiting = await tools.add_many(60, tags="dep")
    item = await hub(tools, waiting)
    await link_pairs(tools, [(other, item) for other in waiting], type="IS_BLOCKED_BY", unblockAt="work")
    assert unblocked(await dying.advance(item, "start")) == []
    (blocker,) = (await tools.advance(waiting[0], "start"))["blockers"]
    assert blocker["fromItemId"] == item
    assert await ready(tools) == set()
    assert unblocked(await dying.advance(item, "complete")) == sorted(waiting)
    assert len(await tools.next(tags="dep", limit=20)) == 20
    assert await ready(tools) == set(waiting)


async def test_a_batch_over_several_hubs_equals_its_single_transitions(tools: Client, dying: Client) -> None:
    waiting = await tools.add_many(70, tags="dep")
    hubs = [await hub(tools, waiting[10 * n :]) for n in range(4)]
    last = waiting[-1]
    steps = [
        (hubs[0], "complete"), (waiting[0], "start"), (last, "start"), (hubs[1], "complete"), (hubs[2], "complete"),
        (last, "start"), (hubs[3], "complete"), (hubs[1], "reopen"), (last, "start"), (waiting[10], "start"),
        (hubs[1], "complete"), (last, "start"), (waiting[10], "start"),
    ]  # fmt: skip
    batch = [{"itemId": item, "trigger": trigger, "actor": actor("agent")} for item, trigger in steps]
    call: Json = {"transitions": batch, "requestId": fresh_id()}
    first = await dying("advance_item", **call)
    applied = [result["applied"] for result in first["results"]]
    assert applied == [True, True, False, True, True, False, True, True, False, False, True, True, True]
    named = [unblocked(result) if done else [] for result, done in zip(first["results"], applied, strict=True)]
    expected = [waiting[:10], [], [], waiting[10:20], waiting[20:30], [], waiting[30:], [], [], [], waiting[10:]]
    assert named == [*map(sorted, expected), [], []]
    assert await tools("advance_item", **call) == first
    assert await ready(tools) == set(waiting) - {waiting[0], waiting[10], last}


async def test_a_tree_is_completed_over_hubs_in_order(tools: Client, dying: Client) -> None:
    waiting = await tools.add_many(60, tags="dep")
    hubs = [await hub(tools, waiting) for _ in range(3)]
    await link_pairs(tools, list(pairwise(hubs)))
    call: Json = {"itemIds": [*waiting, *hubs], "actor": actor("agent"), "requestId": fresh_id()}
    first = await dying("complete_tree", **call)
    assert [result["applied"] for result in first["results"]] == [True] * 63
    assert [result["itemId"] for result in first["results"]][:3] == hubs
    assert await tools("complete_tree", **call) == first


# --- a full store, and other projects


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[str]:
    server = EmbeddedServer(tmp_path, fsync="everysec")
    yield server.start()
    server.stop()


async def test_a_store_that_fills_up_while_settling_loses_nothing(server: str) -> None:
    store = Store(server, timeout_ms=20_000)
    await store.open()
    tools = Client(store, "full")

    async def fill() -> None:
        await store.command("CONFIG", "SET", "maxmemory", 1)

    filling = Pauses(server, fill)
    await filling.open()
    waiting = await tools.add_many(MANY, tags="dep")
    item, more = await hub(tools, waiting), await hub(tools, waiting[:100])
    call = done("agent", item)
    answer = await Client(filling, "full")("advance_item", **call)
    assert unblocked(answer["results"][0]) == sorted(waiting[100:])
    parts = await owed(tools)
    assert parts > 1
    assert (await tools.refusal("advance_item", **done("agent", waiting[-1], trigger="start"))).code == "store_full"
    assert await tools("advance_item", **call) == answer, "from its record"
    assert await owed(tools) == parts
    assert set(await tools.next(tags="dep", limit=20)) <= set(waiting[100:]), "reading may settle"
    assert await owed(tools) == 0
    await store.command("CONFIG", "SET", "maxmemory", 0)
    assert await ready(tools) == set(waiting[100:])
    assert unblocked(await Client(filling, "full").advance(more, "complete")) == sorted(waiting[:100])
    assert await owed(tools) > 1
    assert (await tools.delete(waiting[0]))["deleted"] == 1, "and so may deleting"
    await store.command("CONFIG", "SET", "maxmemory", 0)
    assert await ready(tools) == set(waiting[1:])
    assert (await audit(store, "full")).differences == []
    await filling.close()
    await store.close()


async def test_debts_of_one_project_do_not_affect_another(tools: Client, dying: Client, elsewhere: Client) -> None:
    items: dict[str, list[str]] = {}
    for client in (tools, elsewhere):
        waiting = await client.add_many(MANY, tags="dep")
        items[client.project] = [await hub(client, waiting), *waiting]
    item, *waiting = items[tools.project]
    assert (await dying.advance(item, "complete"))["applied"]
    parts = await owed(tools)
    other_item, *others = items[elsewhere.project]
    assert await elsewhere.next(tags="dep") == []
    assert (await elsewhere.advance(others[0], "start"))["applied"] is False
    assert unblocked(await elsewhere.advance(other_item, "complete")) == sorted(others)
    assert await ready(elsewhere) == set(others)
    assert (await owed(tools), await owed(elsewhere)) == (parts, 0)
    assert (await audit(elsewhere.store, elsewhere.project)).differences == []
    assert await owed(tools) == parts > 1
    assert await ready(tools) == set()
    await tools.next()
    assert await ready(tools) == set(waiting)
