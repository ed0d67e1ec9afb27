"""The setting ``rank: due``: what is due comes first within its priority, for every selector; beside a plain model."""

from __future__ import annotations

import random
from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.timestamp import iso
from tests.items.client import LONG_MS, Client, Json
from tests.items.moments import lapse, ms, next_ms, server_time
from tests.items.selectors import PRIORITIES, take

pytestmark = pytest.mark.anyio

HOUR = 3_600_000


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return Client(store, project, Settings(request_deadline_ms=LONG_MS, rank="due"))


async def must_be_sound(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


def best_first(items: list[Json], selector: Json, able: set[str]) -> list[str]:
    """The ids that a selector finds, in its order."""
    found = [
        one
        for one in items
        if selector.get("priority") in (None, one["priority"])
        and (selector.get("tags") is None or selector["tags"] in one.get("tags", "").split(","))
        and ("complexityMax" not in selector or (one["complexity"] or 99) <= selector["complexityMax"])
        and ("createdAfter" not in selector or one["createdAt"] >= selector["createdAfter"])
        and set(one.get("requires", ())) <= able
    ]
    order = selector.get("orderBy", "priority")
    if order == "priority":
        found.sort(key=lambda one: (one["complexity"] or 11, one["createdAt"], one["id"]))
        found.sort(key=lambda one: ("dueAt" not in one, one.get("dueAt", "")))
        found.sort(key=lambda one: PRIORITIES.index(one["priority"]))
    else:
        found.sort(key=lambda one: (-ms(one["createdAt"]) if order == "newest" else ms(one["createdAt"]), one["id"]))
    return [one["id"] for one in found]


async def test_the_call_that_puts_the_only_item_of_a_set_back_finds_it(tools: Client) -> None:
    item = await tools.add(dueAt="+1h")
    assert (await take(tools, "ann"))["itemId"] == item
    await lapse(tools, item)
    assert (await take(tools, "bob"))["itemId"] == item
    await must_be_sound(tools)


async def test_what_is_due_comes_first_for_every_selector(tools: Client) -> None:
    chance, now = random.Random(5), await server_time(tools.store)
    ids: list[str] = []
    for _ in range(12):
        specs: list[Json] = []
        for _ in range(5):
            spec: Json = {"title": "x", "priority": chance.choice(PRIORITIES), "tags": chance.choice(("a", "b", "a,b"))}
            if chance.random() < 0.6:
                spec["complexity"] = chance.randint(1, 10)
            if chance.random() < 0.6:
                spec["dueAt"] = iso(now + chance.randrange(-HOUR, HOUR))
            if chance.random() < 0.3:
                spec["requires"] = chance.choice((["gpu"], ["cpu"], ["cpu", "gpu"]))
            specs.append(spec)
        ids += [one["id"] for one in (await tools.create(*specs))["items"]]
    selectors: list[Json] = [
        {}, {"priority": "medium"}, {"tags": "a"}, {"complexityMax": 5}, {"orderBy": "oldest"}, {"orderBy": "newest"},
        {"orderBy": "oldest", "tags": "b"}, {"complexityMax": 7, "tags": "a"},
    ]  # fmt: skip
    for turn in range(6):
        items = [await tools.get(one) for one in ids]
        since = items[len(items) // 2]["createdAt"]
        for selector in (*selectors, {"createdAfter": since}, {"createdAfter": since, "orderBy": "newest"}):
            for able in (set[str](), {"gpu"}, {"cpu", "gpu"}):
                found = await tools.next(**selector, capabilities=sorted(able), limit=20)
                assert found == best_first(items, selector, able)[:20], (turn, selector, able)
        for one in chance.sample(ids, 12):
            due = chance.choice((None, iso(now + chance.randrange(-HOUR, HOUR))))
            await tools.update(one, dueAt=due, priority=chance.choice(PRIORITIES), tags=chance.choice(("a", "b")))
        await must_be_sound(tools)


async def test_items_are_claimed_in_that_order_and_come_back_to_their_place(tools: Client) -> None:
    now = await server_time(tools.store)
    later, plain, first = [
        await tools.add(complexity=1, **({"dueAt": iso(now + due)} if due else {})) for due in (2 * HOUR, 0, HOUR)
    ]
    for expected in (first, later, plain):
        assert (await take(tools, f"for {expected}"))["itemId"] == expected
        await must_be_sound(tools)
    await tools.release(f"for {first}", first)
    assert (await take(tools, "again"))["itemId"] == first
    await tools.delete(later)
    await must_be_sound(tools)


async def test_without_the_setting_due_times_change_no_order(store: Store, project: str) -> None:
    tools = Client(store, project)
    first = await tools.add()
    await next_ms(store)
    second = await tools.add(dueAt="+1h")
    assert await tools.next(limit=2) == [first, second]
    # The order follows the setting as items become ready.
    by_due = Client(store, project, Settings(request_deadline_ms=LONG_MS, rank="due"))
    await by_due.update(second, dueAt="+2h")
    assert await tools.next(limit=2) == [second, first]
    await must_be_sound(tools)


async def test_a_recurring_item_ranks_by_its_due_time(tools: Client) -> None:
    from tests.items.recurrence import age, occurrences, template

    await tools.add("plain")
    item = await template(tools, dueAt="+2h")
    await age(tools, item, 2 * 24 * HOUR)
    await tools.claiming.claims.expire(tools.project)
    (made,) = await occurrences(tools, item)
    found: Any = await tools.next()
    assert found == [made["id"]]
    await must_be_sound(tools)


async def test_an_item_whose_due_time_is_cleared_under_a_claim_is_offered_again(tools: Client) -> None:
    item = await tools.add(dueAt="+1h")
    assert (await take(tools, "a"))["itemId"] == item
    await tools.update(item, dueAt=None)
    await tools.release("a", item)
    await must_be_sound(tools)
    assert (await take(tools, "b"))["itemId"] == item
    await must_be_sound(tools)
