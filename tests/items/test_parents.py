"""Parents are offered after their children: what keeps one back, and what makes it ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.toolsets.items.audit import audit
from tests.items.client import LONG_MS, Client, Json, actor, fresh_id
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

SCHEMAS: Json = {
    "work_item_schemas": {
        "manual": {"lifecycle": "manual", "notes": []},
        "home": {"lifecycle": "permanent", "notes": []},
        "told": {"notes": [{"key": "report", "role": "work", "required": True}]},
    }
}
Ending = Callable[[Client, str], Awaitable[Any]]


async def complete(tools: Client, child: str) -> None:
    await tools.advance(child, "complete")


async def cancel(tools: Client, child: str) -> None:
    await tools.advance(child, "cancel")


async def move_away(tools: Client, child: str) -> None:
    await tools.update(child, parentId=None)


async def delete(tools: Client, child: str) -> None:
    await tools.delete(child)


@pytest.fixture
def schemas(tools: Client) -> Client:
    """The tools, with a schema per lifecycle."""
    tools.configure(msgspec.convert({"request_deadline_ms": LONG_MS, **SCHEMAS}, Settings))
    return tools


async def taken(tools: Client, agent: str = "agent", **selector: Any) -> str:
    """The item that a selector finds, or the outcome."""
    found = await take(tools, agent, selector)
    return str(found.get("itemId", found["outcome"]))


async def agrees(tools: Client) -> bool:
    return not (await audit(tools.store, tools.project)).differences


@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked"])
async def test_an_open_child_in_any_role_keeps_its_parent_from_selectors(tools: Client, role: str) -> None:
    parent = await tools.add(priority="high")
    child = await tools.add(parentId=parent, role=role)
    await tools.claim("holder", child)
    assert await taken(tools) == "no_match"
    assert await tools.next(limit=9, parents="after_children") == []
    assert await tools.next(limit=9) == [parent], "get_next_item finds parents by default"
    assert await taken(tools, parents="any") == parent
    assert await agrees(tools)


@pytest.mark.parametrize("role", ["review", "blocked"])
async def test_parents_in_review_and_blocked_are_offered(tools: Client, role: str) -> None:
    parent = await tools.add(role=role)
    await tools.add(parentId=parent, role="work")
    assert await taken(tools, role=role) == parent


async def test_a_claim_by_id_takes_any_parent(tools: Client) -> None:
    parent = await tools.add()
    await tools.add(parentId=parent)
    assert (await tools.claim("agent", parent))["outcome"] == "success"
    await tools.release("agent", parent)
    assert await agrees(tools)


@pytest.mark.parametrize("end", [complete, cancel, move_away, delete])
async def test_a_parent_in_queue_is_new_when_its_last_open_child_is_gone(schemas: Client, end: Ending) -> None:
    parent = await schemas.add(type="manual", priority="high")
    first, last = await schemas.add_many(2, parentId=parent)
    await complete(schemas, first)
    assert await taken(schemas) == last
    await schemas.release("agent", last)
    await end(schemas, last)
    found = await take(schemas, "agent")
    assert (found["itemId"], found["role"], found.get("takeover")) == (parent, "queue", None)
    assert await agrees(schemas)


@pytest.mark.parametrize("end", [complete, cancel, move_away, delete])
async def test_a_parent_in_work_is_plain_work_when_its_last_open_child_is_gone(schemas: Client, end: Ending) -> None:
    """It came there with its first child; nobody has begun it, so nothing is taken over and no attempt counts."""
    parent = await schemas.add(type="manual", priority="high")
    child = await schemas.add(parentId=parent)
    await schemas.advance(child, "start")
    assert await schemas.role(parent) == "work"
    await end(schemas, child)
    found = await take(schemas, "agent")
    assert (found["itemId"], found["role"], found.get("takeover")) == (parent, "work", None)
    assert (await schemas("get_context"))["claimSummary"] == {"active": 1, "expired": 0}
    assert await agrees(schemas)
    await schemas.release("agent", parent)
    assert (await take(schemas, "agent"))["takeover"], "now it was claimed before"


async def test_it_is_found_by_a_selector_of_its_role_and_of_its_scopes(schemas: Client) -> None:
    for selector in ({"role": "work"}, {"tags": "api"}, {"orderBy": "oldest"}, {"role": "work", "type": "manual"}):
        parent = await schemas.add(type="manual", tags="api")
        child = await schemas.add(parentId=parent)
        await schemas.move(child, "start", "complete")
        assert await taken(schemas, "agent", **selector) == parent
        await schemas.advance(parent, "cancel", "agent")
    assert await agrees(schemas)


async def test_a_parent_whose_notes_are_missing_is_offered_after_its_children(schemas: Client) -> None:
    parent = await schemas.add(type="told")
    child = await schemas.add(parentId=parent)
    event = (await schemas.move(child, "complete"))["cascadeEvents"][0]
    assert event["gateBlocked"]
    assert await taken(schemas) == parent


async def test_a_parent_that_ends_with_its_last_child_is_offered_to_nobody(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    parent = await tools.add()
    child = await tools.add(parentId=parent)
    assert (await take(tools, "busy"))["itemId"] == child
    waiting = await other.park("waiting")
    await tools.advance(child, "complete", "busy")
    assert await tools.role(parent) == "terminal"
    later = await tools.add()
    assert await waiting.item() == later


async def test_a_waiting_claim_gets_the_parent_when_the_last_child_ends(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    tools.configure(msgspec.convert({"request_deadline_ms": LONG_MS, **SCHEMAS}, Settings))
    parent = await tools.add(type="manual")
    child = await tools.add(parentId=parent)
    assert (await take(tools, "busy"))["itemId"] == child
    call = await other.park("waiting")
    await tools.advance(child, "complete", "busy")
    assert await call.item() == parent


async def test_a_waiting_claim_for_any_parents_gets_one_at_once(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    plain, any_parents = await other.park("plain"), await other.park("any", {"parents": "any", "tags": "epic"})
    tree = await tools(
        "create_work_tree", actor=actor("ann"), requestId=fresh_id(), root={"title": "root", "tags": "epic"},
        children=[{"ref": "a", "title": "a"}],
    )  # fmt: skip
    assert await any_parents.item() == tree["root"]["id"]
    assert plain.waits, "the child is below an item that somebody else holds"
    await tools.release("any", tree["root"]["id"])
    assert await plain.item() == tree["children"][0]["id"]


async def test_three_of_four_agents_get_one_of_three_children_and_the_fourth_waits(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    calls = [await (tools, other)[number % 2].park(f"agent-{number}") for number in range(4)]
    tree = await tools(
        "create_work_tree", actor=actor("ann"), requestId=fresh_id(), root={"title": "root"},
        children=[{"ref": ref, "title": ref} for ref in "abc"],
    )  # fmt: skip
    assert {await call.item() for call in calls[:3]} == {child["id"] for child in tree["children"]}
    assert calls[3].waits


async def test_a_permanent_parent_is_not_offered_as_long_as_it_has_children(schemas: Client) -> None:
    parent = await schemas.add(type="home")
    assert await taken(schemas) == parent, "without children it is work as any other"
    await schemas.release("agent", parent)
    ended = await schemas.add(parentId=parent, role="terminal")
    assert await taken(schemas) == "no_match"
    child = await schemas.add(parentId=parent)
    await schemas.move(child, "complete")
    assert await taken(schemas) == "no_match"
    assert await taken(schemas, parents="any") == parent
    await schemas.release("agent", parent)
    await schemas.update(parent, type="manual")
    assert await taken(schemas) == parent
    await schemas.release("agent", parent)
    await schemas.update(parent, type="home")
    assert await taken(schemas) == "no_match"
    await schemas.delete(child, ended)
    assert await taken(schemas) == parent
    assert await agrees(schemas)


async def test_an_abandoned_parent_waits_while_it_has_open_children(tools: Client) -> None:
    parent = await tools.add()
    await tools.claim("gone", parent)
    await tools.advance(parent, "start", "gone")
    child = await tools.add(parentId=parent)
    await lapse(tools, parent)
    assert (await take(tools, "agent"))["itemId"] == child
    health = (await tools("get_context"))["abandoned"]
    assert (health["ready"], health["blocked"]) == (0, 1), health
    assert await agrees(tools)
    await tools.update(child, parentId=None)
    found = await take(tools, "other")
    assert (found["itemId"], found["takeover"]) == (parent, True)


async def test_a_reopened_or_moved_child_keeps_its_parent_back_again(schemas: Client) -> None:
    parent = await schemas.add(type="manual", priority="high")
    child = await schemas.add(parentId=parent)
    await schemas.move(child, "complete")
    await schemas.move(child, "reopen")
    assert await taken(schemas) == child
    await schemas.advance(child, "complete", "agent")
    elsewhere = await schemas.add()
    await schemas.update(elsewhere, parentId=parent)
    assert await taken(schemas) == elsewhere
    assert await agrees(schemas)


async def test_parents_keep_their_dependencies_times_and_resources(schemas: Client) -> None:
    """What else holds a parent back still does when its children have ended."""
    blocker = await schemas.add(role="review")
    parent = await schemas.add(type="manual", resources=[{"key": "desk"}])
    await schemas.link(blocker, parent)
    child = await schemas.add(parentId=parent, resources=[{"key": "desk"}])
    assert await taken(schemas) == child
    await schemas.advance(child, "complete", "agent")
    assert await taken(schemas) == "no_match"
    await schemas.move(blocker, "complete")
    assert await taken(schemas) == parent
    other = await schemas.add(type="manual", resources=[{"key": "desk"}])
    await schemas.add(parentId=other)
    assert await taken(schemas, "second", parents="any", type="manual") == "no_match", "its resource is busy"
    assert await agrees(schemas)


async def test_a_parent_that_requires_something_is_not_apart_while_it_waits_for_its_children(tools: Client) -> None:
    top, other = await tools.add(), await tools.add(priority="low")
    parent = await tools.add(parentId=top, requires=["gpu"], priority="high")
    child = await tools.add(parentId=parent, role="blocked")
    assert await agrees(tools)
    await tools.update(parent, parentId=other)
    assert await agrees(tools)
    await tools.update(parent, requires=[])
    assert await agrees(tools)
    await tools.update(parent, requires=["gpu"])
    await tools.delete(child)
    assert await agrees(tools)


async def test_a_held_item_with_left_parents_below_it_can_be_moved_after_it_was_passed_over(tools: Client) -> None:
    held, above = await tools.add(), await tools.add()
    for parent in await tools.add_many(9, parentId=held, role="work"):
        await tools.claim("gone", parent)
        await tools.add(parentId=parent, role="blocked")
    await tools.claim("gone", above)
    await tools.claim("holder", held)
    assert await taken(tools, role="work", parents="any") == "no_match"
    await tools.update(held, parentId=above)
    assert await tools.get(held) | {"parentId": above} == await tools.get(held)
    assert await agrees(tools)
    await tools.release("holder", held)
    assert await taken(tools, "gone", role="work", parents="any") != "no_match"
    assert await agrees(tools)


async def test_a_parent_that_is_offered_in_work_is_deleted_whole(schemas: Client) -> None:
    parent = await schemas.add(type="manual")
    child = await schemas.add(parentId=parent)
    await schemas.move(child, "start", "complete")
    await schemas.delete(parent, recursive=True)
    assert await agrees(schemas)
    assert await taken(schemas) == "no_match"


async def test_a_hundred_parents_cost_a_claim_nothing(tools: Client) -> None:
    """The search meets none of them."""
    for _ in range(4):
        parents = await tools.add_many(25, priority="high")
        for parent in parents:
            await tools.add(parentId=parent, role="work")
    item = await tools.add(priority="low")
    await take(tools, "other")
    await tools.release("other", item)

    async def reads() -> int:
        found = await tools.store.command("INFO", "commandstats")
        text = found.decode() if isinstance(found, bytes) else str(found)
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in text.splitlines() if "hgetall" in line)

    before = await reads()
    assert await taken(tools) == item
    assert await reads() - before <= 3


async def test_a_wrong_value_is_refused(tools: Client) -> None:
    wrong = {"parents": "all"}
    claim = {"actor": actor("ann"), "requestId": fresh_id(), "claims": [{"selector": wrong}]}
    for failure in (await tools.refusal("get_next_item", **wrong), await tools.refusal("claim_item", **claim)):
        assert failure.code == "VALIDATION_ERROR"
        assert "parents: 'all' is not one of after_children, any" in failure.message
