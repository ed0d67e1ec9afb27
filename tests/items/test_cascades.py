"""advance_item: cascades to ancestors."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.toolsets.items.audit import audit
from tests.items.client import Client

pytestmark = pytest.mark.anyio


def event(item: str, title: str, before: str, after: str) -> dict[str, Any]:
    return {
        "itemId": item,
        "title": title,
        "previousRole": before,
        "targetRole": after,
        "applied": True,
        "trigger": "cascade",
    }


async def roles(tools: Client, ids: list[str]) -> list[str]:
    return [await tools.role(item) for item in ids]


@pytest.mark.every_store
async def test_a_start_takes_the_whole_chain_to_work(tools: Client) -> None:
    ids = await tools.chain(3)
    result = await tools.advance(ids[3], "start")
    assert result["cascadeEvents"] == [event(ids[n], f"depth {n}", "queue", "work") for n in (2, 1, 0)]
    assert await roles(tools, ids) == ["work"] * 4
    assert (await tools.get(ids[0]))["statusLabel"] == "in-progress"


@pytest.mark.parametrize("above", ["work", "review", "blocked", "terminal"])
async def test_a_start_stops_at_a_parent_that_is_not_in_queue(tools: Client, above: str) -> None:
    root = await tools.add()
    parent = await tools.add(parentId=root, role=above)
    item = await tools.add(parentId=parent)
    assert (await tools.advance(item, "start"))["cascadeEvents"] == []
    assert await roles(tools, [root, parent]) == ["queue", above]


async def test_a_resume_into_work_cascades(tools: Client) -> None:
    ids = await tools.chain(1)
    item = await tools.add(parentId=ids[0], role="work")
    await tools.move(item, "block")
    assert (await tools.advance(item, "resume"))["cascadeEvents"] == [event(ids[0], "depth 0", "queue", "work")]


async def test_a_resume_into_queue_does_not(tools: Client) -> None:
    ids = await tools.chain(1)
    await tools.move(ids[1], "block")
    assert (await tools.advance(ids[1], "resume"))["cascadeEvents"] == []


async def test_the_last_child_completes_the_chain_above(tools: Client) -> None:
    ids = await tools.chain(3)
    await tools.move(ids[3], "start")
    result = await tools.advance(ids[3], "complete")
    assert result["cascadeEvents"] == [event(ids[n], f"depth {n}", "work", "terminal") for n in (2, 1, 0)]
    assert await roles(tools, ids) == ["terminal"] * 4
    assert (await tools.get(ids[0]))["statusLabel"] == "done"


@pytest.mark.parametrize("open_role", ["queue", "work", "review", "blocked"])
async def test_an_open_sibling_keeps_the_parent_open(tools: Client, open_role: str) -> None:
    parent = await tools.add()
    await tools.add(parentId=parent, role=open_role)
    item = await tools.add(parentId=parent)
    assert (await tools.advance(item, "complete"))["cascadeEvents"] == []


@pytest.mark.parametrize("hindrance", ["waits", "claimed", "waits and claimed"])
async def test_a_waiting_or_claimed_sibling_keeps_the_parent_open(tools: Client, hindrance: str) -> None:
    parent, blocker = await tools.add(), await tools.add()
    sibling, item = await tools.add(parentId=parent), await tools.add(parentId=parent)
    if "waits" in hindrance:
        await tools.link(blocker, sibling)
    if "claimed" in hindrance:
        await tools.claim("agent", sibling)
    assert (await tools.advance(item, "complete"))["cascadeEvents"] == []


@pytest.mark.parametrize("trigger", ["complete", "cancel", "start"])
async def test_any_way_of_ending_counts(tools: Client, trigger: str) -> None:
    parent = await tools.add("p")
    await tools.add(parentId=parent, role="terminal")
    cancelled = await tools.add(parentId=parent)
    item = await tools.add(parentId=parent, role="work")
    await tools.move(cancelled, "cancel")
    assert (await tools.advance(item, trigger))["cascadeEvents"] == [event(parent, "p", "queue", "terminal")]


@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked"])
async def test_the_parent_ends_from_any_role_despite_dependencies(tools: Client, role: str) -> None:
    """Ownership and dependencies of the parent are not checked: cascades are always allowed."""
    parent, blocker = await tools.add("p", role=role), await tools.add()
    await tools.link(blocker, parent)
    item = await tools.add(parentId=parent)
    await tools.claim("somebody", parent)
    assert (await tools.advance(item, "complete"))["cascadeEvents"] == [event(parent, "p", role, "terminal")]
    assert not (await audit(tools.store, tools.project)).differences


async def test_a_terminal_parent_is_unchanged(tools: Client) -> None:
    parent = await tools.add(role="terminal", statusLabel="mine")
    item = await tools.add(parentId=parent)
    assert (await tools.advance(item, "complete"))["cascadeEvents"] == []
    assert (await tools.get(parent))["statusLabel"] == "mine"


async def test_dependents_of_a_cascaded_parent_are_listed(tools: Client) -> None:
    parent, waits, also = await tools.add("parent"), await tools.add("waits"), await tools.add("also")
    item = await tools.add(parentId=parent)
    await tools.link(parent, waits)
    await tools.link(item, also)
    await tools.link(parent, also)
    result = await tools.advance(item, "complete")
    assert sorted(entry["title"] for entry in result["unblockedItems"]) == ["also", "waits"]
    assert set(await tools.next(limit=9)) == {waits, also}


async def test_a_dependent_of_an_item_and_its_parent_is_listed_once(tools: Client) -> None:
    """Also if the parent satisfied it before."""
    parent, waits = await tools.add(role="work"), await tools.add()
    item = await tools.add(parentId=parent)
    await tools.link(item, waits)
    await tools.link(parent, waits, unblockAt="work")
    result = await tools.advance(item, "complete")
    assert [entry["itemId"] for entry in result["cascadeEvents"]] == [parent]
    assert [entry["itemId"] for entry in result["unblockedItems"]] == [waits]


async def test_a_reopened_child_reopens_its_parent_only(tools: Client) -> None:
    ids = await tools.chain(3)
    await tools.move(ids[3], "complete")
    result = await tools.advance(ids[3], "reopen")
    assert result["cascadeEvents"] == [event(ids[2], "depth 2", "terminal", "work")]
    assert await roles(tools, ids) == ["terminal", "terminal", "work", "queue"]
    assert (await tools.get(ids[2]))["statusLabel"] == "in-progress"


@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked"])
async def test_a_reopened_child_does_not_change_an_open_parent(tools: Client, role: str) -> None:
    parent = await tools.add(role=role)
    item = await tools.add(parentId=parent, role="terminal")
    assert (await tools.advance(item, "reopen"))["cascadeEvents"] == []


async def test_a_reopened_parent_takes_the_chain_above_it_to_work(tools: Client) -> None:
    """It comes to work, so its ancestors in queue follow."""
    ids = await tools.chain(3)
    await tools.add(parentId=ids[1])
    await tools.move(ids[3], "complete")
    assert await roles(tools, ids) == ["queue", "queue", "terminal", "terminal"]
    result = await tools.advance(ids[3], "reopen")
    assert result["cascadeEvents"] == [
        event(ids[2], "depth 2", "terminal", "work"),
        event(ids[1], "depth 1", "queue", "work"),
        event(ids[0], "depth 0", "queue", "work"),
    ]
    assert await roles(tools, ids) == ["work", "work", "work", "queue"]
    assert not (await audit(tools.store, tools.project)).differences


@pytest.mark.parametrize("above", ["work", "review", "blocked", "terminal"])
async def test_a_reopened_parent_stops_at_one_that_is_not_in_queue(tools: Client, above: str) -> None:
    root = await tools.add()
    ended = await tools.add(parentId=await tools.add(parentId=root, role=above), role="terminal")
    item = await tools.add(parentId=ended, role="terminal")
    assert [entry["itemId"] for entry in (await tools.advance(item, "reopen"))["cascadeEvents"]] == [ended]
    assert await tools.role(root) == "queue"


async def test_items_blocked_again_by_the_reopened_parent_are_not_listed(tools: Client) -> None:
    """The child satisfies its dependent in any role, but the reopened parent does not."""
    parent = await tools.add(role="terminal")
    item, waits = await tools.add(parentId=parent, role="terminal"), await tools.add()
    await tools.link(item, waits, unblockAt="queue")
    await tools.link(parent, waits)
    assert await tools.next(limit=9) == [waits]
    assert (await tools.advance(item, "reopen"))["unblockedItems"] == []
    assert await tools.next(limit=9) == [item]


async def test_a_reopened_parent_waits_for_its_children_again(tools: Client) -> None:
    ids = await tools.chain(1)
    await tools.move(ids[1], "complete", "reopen")
    assert (await tools.advance(ids[1], "complete"))["cascadeEvents"] == [event(ids[0], "depth 0", "work", "terminal")]


async def test_children_completed_in_one_call_end_the_parent_once(tools: Client) -> None:
    parent = await tools.add("p")
    ids = await tools.add_many(100, parentId=parent)
    transitions = [{"itemId": item, "trigger": "complete"} for item in ids]
    answer = await tools("advance_item", transitions=transitions)
    events = [result["cascadeEvents"] for result in answer["results"]]
    assert events == [[]] * 99 + [[event(parent, "p", "queue", "terminal")]]


@pytest.mark.parametrize("above", ["queue", "terminal"])
async def test_blocking_holding_and_refusals_cascade_nothing(tools: Client, above: str) -> None:
    parent = await tools.add(role=above)
    ids = [parent, await tools.add(parentId=parent)]
    for trigger in ("block", "resume", "hold", "reopen"):
        result = await tools.advance(ids[1], trigger)
        assert result.get("cascadeEvents", []) == []
    assert await tools.role(ids[0]) == above
