"""get_context with waitMs: what it waits for, and how waits end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.feed import waits
from coordinator.feed.metrics import WAIT_READS
from coordinator.store import keys
from coordinator.toolsets.caller import Caller
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse, server_time
from tests.support import parked as support
from tests.support.counts import counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait is ended by the read that comes after 10 s."""
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 10_000.0)


async def wait(tools: Client, item: str, condition: str, ms: int = 50_000, **more: Any) -> Json:
    return await tools("get_context", itemId=item, waitFor=condition, waitMs=ms, **more)


async def parked(tools: Client, item: str, condition: str, **more: Any) -> asyncio.Task[Json]:
    """A wait that has found its condition unmet."""
    return await support.parked(tools.room, wait(tools, item, condition, **more))


async def finish(tools: Client, *items: str) -> None:
    for item in items:
        await tools("advance_item", transitions=[{"itemId": item, "trigger": "complete"}])


async def test_each_condition_ends_its_wait(tools: Client) -> None:
    root = await tools.add("root")
    first, second = [await tools.add("child", parentId=root) for _ in range(2)]
    blocker, blocked = await tools.add_many(2)
    await tools.link(blocker, blocked)
    waiting = {
        name: await parked(tools, item, name)
        for item, name in ((first, "terminal"), (root, "tree_terminal"), (blocked, "unblocked"), (second, "note:plan"))
    }
    changed = await parked(tools, blocker, "changed")
    await tools(
        "manage_notes", operation="upsert", notes=[{"itemId": second, "key": "plan", "role": "queue", "body": " "}]
    )
    await tools(
        "manage_notes", operation="upsert", notes=[{"itemId": second, "key": "plan", "role": "queue", "body": "x"}]
    )
    assert (await waiting["note:plan"])["waited"]["met"]
    await finish(tools, first)
    assert (await waiting["terminal"])["item"]["role"] == "terminal"
    assert not waiting["tree_terminal"].done()
    await finish(tools, second)
    answer = await waiting["tree_terminal"]
    assert answer["item"]["role"] == "terminal"
    counts = {"queue": 0, "work": 0, "review": 0, "terminal": 2, "blocked": 0}
    assert answer["waited"] == {
        "met": True,
        "ms": answer["waited"]["ms"],
        "after": answer["waited"]["after"],
        "counts": counts,
    }
    assert not waiting["unblocked"].done()
    assert not changed.done()
    await finish(tools, blocker)
    assert (await waiting["unblocked"])["gateStatus"]["canAdvance"]
    assert (await changed)["item"]["role"] == "terminal"


async def test_what_is_there_already_is_answered_at_once(tools: Client) -> None:
    item = await tools.add()
    plain = await tools("get_context", itemId=item)
    for condition in ("unblocked", "changed", "terminal"):
        answer = await wait(tools, item, condition, 0)
        assert answer.pop("waited")["met"] is (condition == "unblocked")
        assert answer == plain
    after = (await wait(tools, item, "changed", 0))["waited"]["after"]
    assert not (await wait(tools, item, "changed", 0, after=after))["waited"]["met"]
    await tools.update(item, description="new")
    assert (await wait(tools, item, "changed", after=after))["waited"]["met"]
    await finish(tools, item)
    for condition in ("terminal", "tree_terminal", "unblocked"):
        assert (await wait(tools, item, condition))["waited"]["met"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"waitMs": 50_001, "waitFor": "terminal"}, "Expected `int` "),
        ({"waitMs": -1, "waitFor": "terminal"}, "Expected `int` "),
        (
            {"waitMs": 1},
            "waitFor: must be given with waitMs; allowed: terminal, tree_terminal, unblocked, changed, note:",
        ),
        ({"waitMs": 1, "waitFor": "done"}, "waitFor: 'done' is not allowed; allowed: terminal, "),
        ({"waitMs": 1, "waitFor": "note:"}, "waitFor: 'note:' is not allowed"),
        ({"waitMs": 1, "waitFor": "note: "}, "waitFor: 'note: ' is not allowed"),
        ({"waitMs": 1, "waitFor": "note:" + "k" * 201}, "waitFor: the key of a note has at most 200 characters"),
        ({"waitMs": 1, "waitFor": "terminal:x"}, "waitFor: 'terminal:x' is not allowed"),
        ({"waitFor": "terminal"}, "waitFor: needs waitMs (0 to 50000)"),
        ({"after": "x"}, "after: needs waitMs"),
        ({"waitMs": 1, "waitFor": "terminal", "after": "x"}, "after: goes with waitFor changed only"),
    ],
)
async def test_bad_values_are_refused(tools: Client, arguments: Json, told: str) -> None:
    assert (await tools.refusal("get_context", itemId=await tools.add(), **arguments)).message.startswith(told)


async def test_waits_are_for_items(tools: Client) -> None:
    for more in ({}, {"agents": True}, {"since": "2026-01-01T00:00:00Z"}):
        refused = await tools.refusal("get_context", waitMs=0, waitFor="changed", **more)
        assert refused.message == "waitMs: needs itemId"


@pytest.mark.parametrize("condition", ["changed", "note:x", "terminal", "tree_terminal", "unblocked"])
async def test_a_deleted_item_ends_waits_with_not_found(tools: Client, condition: str) -> None:
    blocker, item = await tools.add_many(2)
    await tools.link(blocker, item)
    waiting = asyncio.create_task(tools.attempt("get_context", itemId=item, waitFor=condition, waitMs=50_000))
    await wait_until(lambda: tools.room.waiting == 1 and tools.room.settled)
    await tools.delete(item)
    refused = await waiting
    assert not isinstance(refused, dict)
    assert refused.code == "RESOURCE_NOT_FOUND"
    assert tools.room.waiting == tools.room.subjects == 0


async def test_everything_about_an_item_changes_it(tools: Client) -> None:
    item, other, parent = await tools.add_many(3)
    blocker = await tools.add()
    link = await tools.link(blocker, item)
    note = {"itemId": item, "key": "k", "role": "queue", "body": "b"}
    changes: list[tuple[str, Json]] = [
        ("manage_items", {"operation": "update", "items": [{"id": item, "summary": "s"}]}),
        ("manage_items", {"operation": "update", "items": [{"id": item, "parentId": parent}]}),
        ("manage_notes", {"operation": "upsert", "notes": [note]}),
        ("manage_notes", {"operation": "upsert", "notes": [{**note, "body": "other"}]}),
        ("manage_notes", {"operation": "delete", "itemId": item, "key": "k"}),
        ("manage_dependencies", {"operation": "create", "dependencies": [{"fromItemId": item, "toItemId": other}]}),
        ("advance_item", {"transitions": [{"itemId": blocker, "trigger": "complete"}]}),
        ("advance_item", {"transitions": [{"itemId": blocker, "trigger": "reopen"}]}),
        ("manage_dependencies", {"operation": "delete", "id": link}),
        ("claim_item", {"actor": actor("a"), "requestId": fresh_id(), "claims": [{"itemId": item}]}),
        ("claim_item", {"actor": actor("a"), "requestId": fresh_id(), "releases": [{"itemId": item}]}),
        ("claim_item", {"actor": actor("a"), "requestId": fresh_id(), "claims": [{"itemId": item}]}),
        ("claim_item", {"actor": actor("a"), "requestId": fresh_id(), "claims": [{"itemId": other}]}),
    ]
    after = (await wait(tools, item, "changed", 0))["waited"]["after"]
    for tool, arguments in changes:
        waiting = await parked(tools, item, "changed", after=after)
        await tools(tool, **arguments)
        answer = await waiting
        assert answer["waited"]["met"], (tool, arguments)
        assert answer["waited"]["after"] != after
        after = answer["waited"]["after"]


async def test_a_tree_ends_only_with_its_last_open_item(tools: Client) -> None:
    root = await tools.add("root")
    features = [await tools.add("feature", parentId=root) for _ in range(3)]
    tasks = [await tools.add("task", parentId=feature) for feature in features for _ in range(3)]
    waiting = await parked(tools, root, "tree_terminal")
    await tools("advance_item", transitions=[{"itemId": item, "trigger": "cancel"} for item in (root, *features)])
    late = await tools.add("late", parentId=tasks[0])  # below items that have ended
    for task in tasks[1:]:
        await finish(tools, task)
    moved = await tools.add("moved")
    await tools.update(moved, parentId=features[1])
    await finish(tools, late)
    if await tools.role(tasks[0]) != "terminal":
        await finish(tools, tasks[0])
    assert not waiting.done()
    assert not (await wait(tools, root, "tree_terminal", 0))["waited"]["met"]
    await tools.update(moved, parentId=None)
    answer = await waiting
    assert answer["waited"]["counts"] == {"queue": 0, "work": 0, "review": 0, "terminal": 13, "blocked": 0}


async def test_items_that_come_below_an_item_without_any_count(tools: Client) -> None:
    top = await tools.add("top")
    item = await tools.add("item", parentId=top)
    await tools.add("another", parentId=top)
    waiting = await parked(tools, item, "tree_terminal")
    child = await tools.add("child")
    await tools("advance_item", transitions=[{"itemId": child, "trigger": "complete"}])
    await tools.update(child, parentId=item)
    answer = await waiting
    assert answer["item"]["role"] == "queue"
    assert answer["waited"]["counts"]["terminal"] == 1


async def test_a_tree_of_many_ended_items_is_counted_in_slices(tools: Client) -> None:
    root = await tools.add("root")
    items = [{"title": "t", "parentId": root, "role": "terminal"}] * 1000
    for _ in range(6):
        await tools.create(*items)
    answer = await wait(tools, root, "tree_terminal")
    assert answer["waited"]["met"]
    assert answer["waited"]["counts"]["terminal"] == 6_000
    last = (await tools.create({"title": "t", "parentId": root, "role": "terminal"}))["items"][0]["id"]
    below = await tools.add("below", parentId=last)
    waiting = await parked(tools, root, "tree_terminal")
    await finish(tools, below)
    assert (await waiting)["waited"]["counts"]["terminal"] == 6_002


async def test_any_number_of_waits_for_one_thing_share_its_reads(tools: Client) -> None:
    root = await tools.add("root")
    children = await tools.add_many(20, parentId=root)
    waiting = [asyncio.create_task(wait(tools, root, "tree_terminal")) for _ in range(50)]
    await wait_until(lambda: tools.room.waiting == 50 and tools.room.settled)
    assert tools.room.subjects == 1
    reads = counted(WAIT_READS, "event")
    for child in reversed(children[1:]):
        await finish(tools, child)
    await wait_until(lambda: tools.room.settled)
    few = counted(WAIT_READS, "event") - reads
    assert few <= 19
    await finish(tools, children[0])
    assert all(answer["waited"]["met"] for answer in await asyncio.gather(*waiting))
    assert tools.room.subjects == 0


async def test_one_caller_has_only_so_many_waits(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "CALLER_MOST", 2)
    item = await tools.add()
    tools.caller = Caller("alice", "user", permissions=frozenset(["*"]))
    waiting = [await parked(tools, item, "changed") for _ in range(2)]
    assert (await tools.refusal("get_context", itemId=item, waitFor="changed", waitMs=1)).code == "actor_quota"
    tools.caller = Caller("bob", "user", permissions=frozenset(["*"]))
    assert not (await wait(tools, item, "changed", 1))["waited"]["met"]
    await finish(tools, item)
    assert all(answer["waited"]["met"] for answer in await asyncio.gather(*waiting))


async def test_a_drain_answers_with_the_present_state(tools: Client) -> None:
    item = await tools.add()
    waiting = await parked(tools, item, "terminal")
    assert tools.drain is not None
    await tools.drain()
    assert not (await waiting)["waited"]["met"]
    answer = await wait(tools, item, "terminal")  # one that comes after it
    assert not answer["waited"]["met"]
    assert answer["waited"]["ms"] < 40_000


async def test_the_end_of_the_input_ends_waits(tools: Client) -> None:
    item = await tools.add()
    tools.hung_up = asyncio.get_running_loop().create_future()
    waiting = await parked(tools, item, "terminal")
    tools.hung_up.set_result(None)
    assert not (await waiting)["waited"]["met"]
    assert tools.room.waiting == 0


async def test_a_claim_that_has_ended_by_time_is_noticed(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 0.1)
    item = await tools.add()
    await tools.claim("a", item)
    before = counted(WAIT_READS, "time")
    waiting = asyncio.create_task(wait(tools, item, "changed"))
    await wait_until(lambda: counted(WAIT_READS, "time") > before)
    await lapse(tools, item)
    assert (await waiting)["claimDetail"]["isExpired"]


async def test_what_wakes_no_wait_for_changes_is_no_change_either(tools: Client) -> None:
    """A later call, with ``after``, is told just what a call that waits all the time is woken by."""
    item = await tools.add("item", budget={"costMicroUsd": 1000})
    child = await tools.add("child", parentId=item, budget={"costMicroUsd": 1})
    grandchild = await tools.add("grandchild", parentId=child)
    await tools.claim("a", item)
    used = {"inputTokens": 5, "outputTokens": 5, "costMicroUsd": 10}

    def note(of: str) -> Json:
        one = {"itemId": of, "key": "k", "role": "queue", "body": "b", "usage": used}
        return {"operation": "upsert", "notes": [one], "actor": actor("b")}

    renewed = {"itemId": item, "usage": used, "resources": [{"key": "tpu"}]}
    silent: list[tuple[str, Json]] = [
        ("manage_notes", note(child)),
        ("manage_notes", note(grandchild)),
        ("claim_item", {"actor": actor("a"), "requestId": fresh_id(), "claims": [{"itemId": item}]}),
        ("claim_item", {"actor": actor("a"), "requestId": fresh_id(), "claims": [renewed]}),
    ]
    after = (await wait(tools, item, "changed", 0))["waited"]["after"]
    waiting = await parked(tools, item, "changed", after=after)
    for tool, arguments in silent:
        await tools(tool, **arguments)
        assert not (await wait(tools, item, "changed", 0, after=after))["waited"]["met"], arguments
    assert not waiting.done()
    await tools("manage_notes", **note(item))  # the note itself is one
    assert (await waiting)["waited"]["met"]


async def test_the_end_of_the_claim_of_an_item_that_has_ended_is_no_change(tools: Client) -> None:
    """It has no event."""
    item = await tools.add()
    await tools.claim("a", item)
    await tools.advance(item, "start", actor=actor("a"))
    await tools.advance(item, "complete", actor=actor("a"))
    after = (await wait(tools, item, "changed", 0))["waited"]["after"]
    await lapse(tools, item)
    assert not (await wait(tools, item, "changed", 0, after=after))["waited"]["met"]


async def test_a_not_before_that_has_come_is_no_change(tools: Client) -> None:
    item = await tools.add(notBefore="2050-01-01T00:00:00Z")
    name, past = item.replace("-", ""), await server_time(tools.store) - 1
    key = keys.item.key(tools.project, name)
    await tools.store.command("HSET", key, "nv", past, "nt", past)
    await tools.store.command("ZADD", keys.retries.key(tools.project), past, name)
    after = (await wait(tools, item, "changed", 0))["waited"]["after"]
    assert await tools.next() == [item]
    assert await tools.store.command("HGET", key, "nt") is None
    assert not (await wait(tools, item, "changed", 0, after=after))["waited"]["met"]
    await tools.update(item, notBefore=None)
    assert (await wait(tools, item, "changed", 0, after=after))["waited"]["met"]
