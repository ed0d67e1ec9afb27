"""Containers: items for structure alone, which are offered to nobody, whatever the selector and their children."""

from __future__ import annotations

import random

import pytest

from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json
from tests.items.parked import Fronts
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

SELECTORS: tuple[Json, ...] = (
    {}, {"parents": "any"}, {"role": "queue", "parents": "any"}, {"role": "work", "parents": "any"}, {"role": "review"},
    {"role": "blocked", "parents": "any"}, {"tags": "t", "parents": "any"}, {"orderBy": "oldest", "parents": "any"},
)  # fmt: skip


async def must_be_sound(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


async def must_not_be_offered(tools: Client) -> None:
    for selector in SELECTORS:
        assert (await take(tools, "agent", selector))["outcome"] == "no_match", selector
        assert await tools.next(**selector, limit=20) == []


@pytest.mark.every_store
@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked"])
async def test_a_container_is_never_offered(tools: Client, role: str) -> None:
    item = await tools.add(role=role, tags="t", container=True)
    await must_not_be_offered(tools)
    assert (await tools.claim("agent", item))["outcome"] == "success", "by its id it can be claimed"
    await tools.release("agent", item, reason="failed")
    await must_not_be_offered(tools)
    await must_be_sound(tools)


async def test_a_container_is_shown_as_one(tools: Client) -> None:
    item, other = await tools.add("container", container=True), await tools.add("other", container=False)
    listed = (await tools("query_items", operation="search", includeDetails=True))["items"]
    overview = await tools("query_items", operation="overview", itemId=item)
    assert {one["id"]: one.get("container") for one in listed} == {item: True, other: None}
    assert (await tools.get(item))["container"] is overview["item"]["container"] is True
    assert "container" not in await tools.get(other)


@pytest.mark.every_store
async def test_an_update_makes_a_container_of_an_item_and_an_item_of_a_container(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    item = await tools.add(tags="t")
    await tools.update(item, container=True)
    await must_not_be_offered(tools)
    await must_be_sound(tools)
    waiting = await other.park("agent")
    await tools.update(item, title="other")
    assert await other.is_parked(waiting)
    await tools.update(item, container=None)
    assert await waiting.item() == item
    await tools.update(item, container=True)
    await tools.release("agent", item)
    await must_not_be_offered(tools)
    await must_be_sound(tools)


async def test_a_container_ends_with_its_last_child(tools: Client) -> None:
    item = await tools.add(container=True)
    child = await tools.add(parentId=item)
    assert (await take(tools, "agent"))["itemId"] == child
    await tools.advance(child, "start", "agent")
    assert (await tools.get(item))["role"] == "work"
    await tools.advance(child, "complete", "agent")
    assert (await tools.get(item))["role"] == "terminal"
    await must_be_sound(tools)


async def test_any_changes_leave_the_index_sound(tools: Client) -> None:
    choose = random.Random(43)
    ids = [await tools.add(container=choose.random() < 0.3)]
    for _ in range(60):
        item = choose.choice(ids)
        match choose.randrange(5):
            case 0:
                above = item if len(ids) % 3 else None
                answer = await tools.create({"title": "t", "parentId": above, "container": choose.random() < 0.5})
                ids += [one["id"] for one in answer["items"]]
            case 1:
                await tools.update(item, container=choose.choice([True, False, None]))
            case 2:
                trigger = choose.choice(["start", "complete", "block", "resume", "cancel", "reopen"])
                await tools("advance_item", transitions=[{"itemId": item, "trigger": trigger}])
            case 3:
                await tools.claim("agent", item)
            case _:
                found = await take(tools, "other", {"parents": choose.choice(["any", "after_children"])})
                offered = found.get("itemId")
                assert offered is None or "container" not in await tools.get(offered)
    await must_be_sound(tools)
