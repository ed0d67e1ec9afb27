"""query_items overview: of the roots and of one item."""

from __future__ import annotations

import asyncio
from itertools import cycle
from typing import Any

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.store import query as stored
from tests.items.client import Client, Json, fresh_id
from tests.items.moments import claim_for, lapse, ms, server_time, set_state
from tests.items.query_world import set_creation
from tests.support.between import after

pytestmark = pytest.mark.anyio

NONE = {"queue": 0, "work": 0, "review": 0, "blocked": 0, "terminal": 0}


async def roots(tools: Client, **options: Any) -> list[Json]:
    result = await tools("query_items", operation="overview", **options)
    assert result["total"] == len(result["items"])
    items: list[Json] = result["items"]
    return items


async def root(tools: Client, **options: Any) -> Json:
    """The only root."""
    (item,) = await roots(tools, **options)
    return item


async def test_a_root_has_the_minimal_fields_counts_and_claims(tools: Client) -> None:
    item = await tools.add(
        "root", priority="high", tags="backend", type="feature", traits="a,b", statusLabel="mine", summary="s"
    )
    assert await root(tools) == {
        "id": item,
        "title": "root",
        "role": "queue",
        "statusLabel": "mine",
        "priority": "high",
        "depth": 0,
        "tags": "backend",
        "type": "feature",
        "traits": ["a", "b"],
        "childCounts": NONE,
        "claimSummary": {"active": 0, "expired": 0, "unclaimed": 0},
    }


async def test_without_items_it_is_empty(tools: Client) -> None:
    assert await tools("query_items", operation="overview") == {"items": [], "total": 0}


async def test_children_are_counted_by_role_with_or_without_claims(tools: Client) -> None:
    parent = await tools.add()
    held, waiting, _ = await tools.add_many(3, parentId=parent)
    for role in ("work", "work", "review", "blocked", "terminal"):
        await tools.add(role=role, parentId=parent)
    await tools.add("grandchild", parentId=held)
    await tools.link(held, waiting)
    await tools.claim("a", held)
    shown = await root(tools)
    assert shown["childCounts"] == {"queue": 3, "work": 2, "review": 1, "blocked": 1, "terminal": 1}
    assert (await tools.advance(held, "start", "a"))["applied"]
    assert (await root(tools))["childCounts"] == {"queue": 2, "work": 3, "review": 1, "blocked": 1, "terminal": 1}
    await tools.delete(waiting)
    assert (await root(tools))["childCounts"]["queue"] == 1


async def test_claims_of_direct_children_are_counted_by_state(tools: Client) -> None:
    parent = await tools.add()
    other = await tools.add("other")
    swept, late, later, live, released, _ = await tools.add_many(6, parentId=parent)
    await tools.claim("a", swept)
    await lapse(tools, swept)
    for agent, item in (("b", live), ("c", released), ("d", late), ("h", later)):
        await tools.claim(agent, item)
    await tools.release("c", released)
    await tools.claim("e", await tools.add("grandchild", parentId=live))
    await tools.claim("f", other)
    await lapse(tools, late)
    await lapse(tools, later)
    by_title = {item["title"]: item["claimSummary"] for item in await roots(tools)}
    assert by_title["item"] == {"active": 1, "expired": 3, "unclaimed": 2}
    assert by_title["other"] == {"active": 0, "expired": 0, "unclaimed": 0}
    await tools.claim("g", late)
    assert (await tools.advance(live, "complete", "b"))["applied"]
    by_title = {item["title"]: item["claimSummary"] for item in await roots(tools)}
    assert by_title["item"] == {"active": 2, "expired": 2, "unclaimed": 2}


async def test_an_expired_claim_is_counted_with_its_items_state(tools: Client) -> None:
    old, new = await tools.add("old"), await tools.add("new")
    item = await tools.add(parentId=old)
    await tools.claim("a", item)
    await lapse(tools, item)
    await tools.next()  # puts the claim back
    await tools.update(item, parentId=new)
    expired = {item["title"]: item["claimSummary"]["expired"] for item in await roots(tools)}
    assert expired == {"old": 0, "new": 1}


async def test_an_overview_writes_nothing(tools: Client) -> None:
    parent = await tools.add()
    item = await tools.add(parentId=parent)
    await tools.claim("a", item)
    await lapse(tools, item)
    events = await tools.store.command("XLEN", keys.events.key(tools.project))
    assert (await root(tools))["claimSummary"]["expired"] == 1
    assert await tools.store.command("XLEN", keys.events.key(tools.project)) == events
    assert await tools.store.command("ZCARD", keys.leases.key(tools.project)) == 1


async def test_very_many_expired_claims_are_put_back_first(tools: Client) -> None:
    parent = await tools.add()
    children = await tools.add_many(520, parentId=parent)
    await asyncio.gather(*(claim_for(tools, f"agent {n}", item, 60_000) for n, item in enumerate(children[:510])))
    await tools.claim("late", children[515])
    end = await server_time(tools.store) - 1
    for n, item in enumerate(children[:510]):
        await set_state(tools, item, expires=end, claimed=end, first=end)
        await tools.store.command("ZADD", keys.leases.key(tools.project), "XX", end, f"agent {n}")
    assert (await root(tools))["claimSummary"] == {"active": 1, "expired": 510, "unclaimed": 9}
    assert await tools.store.command("ZCARD", keys.leases.key(tools.project)) == 1


async def test_the_newest_roots_come_first_up_to_the_limit(tools: Client, redis_url: str) -> None:
    ids = await tools.add_many(30)
    await tools.add("child", parentId=ids[0])
    now = ms((await tools.get(ids[0]))["createdAt"])
    set_creation(redis_url, tools.project, {item: now - n // 2 for n, item in enumerate(ids)})
    expected = [item for n in range(0, 30, 2) for item in sorted(ids[n : n + 2])]
    assert [item["id"] for item in await roots(tools)] == expected[:20]
    assert [item["id"] for item in await roots(tools, limit=3)] == expected[:3]
    assert [item["id"] for item in await roots(tools, limit=200)] == expected


async def test_children_come_with_their_own_counts_and_traits(tools: Client) -> None:
    parent = await tools.add("parent")
    child = await tools.add("child", parentId=parent, role="work", traits="x", type="task")
    await tools.add("grandchild", parentId=child)
    assert (await root(tools, includeChildren=True))["children"] == [
        {
            "id": child,
            "parentId": parent,
            "title": "child",
            "role": "work",
            "priority": "medium",
            "depth": 1,
            "type": "task",
            "traits": ["x"],
            "childCounts": NONE | {"queue": 1},
        }
    ]
    await tools.delete(child, recursive=True)
    assert (await root(tools, includeChildren=True))["children"] == []


async def test_many_children_of_many_roots_take_several_runs(
    tools: Client, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = await tools.add_many(6)
    children = {parent: await tools.add_many(60, parentId=parent) for parent in parents}
    now = ms((await tools.get(parents[0]))["createdAt"])
    for items in children.values():
        set_creation(redis_url, tools.project, {item: now - n for n, item in enumerate(items)})
    names: list[str] = []
    monkeypatch.setattr(tools.store, "observe", lambda name, *_: names.append(name))
    shown = await roots(tools, includeChildren=True)
    assert names.count("overview_roots") >= 6
    for item in shown:
        assert [child["id"] for child in item["children"]] == children[item["id"]][: stored.SHOWN_CHILDREN]
        assert item["childCounts"]["queue"] == 60


@pytest.mark.parametrize("moves", [False, True])
async def test_a_root_deleted_meanwhile_is_left_out(
    tools: Client, monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    monkeypatch.setattr(stored, "OVERVIEW_BUDGET", 21)
    first, second = sorted(await tools.add_many(2))
    after(monkeypatch, tools.store, 1, lambda: tools.update(second, parentId=first) if moves else tools.delete(second))
    assert (await root(tools))["id"] == first
    assert await tools.exists(second) == moves
    assert not moves or (await tools.get(second))["parentId"] == first


@pytest.mark.parametrize("rises", [False, True])
async def test_an_item_that_moves_meanwhile_is_shown_once(
    tools: Client, monkeypatch: pytest.MonkeyPatch, rises: bool
) -> None:
    parent = await tools.add()
    item = await tools.add(**({"parentId": parent} if rises else {}))
    after(monkeypatch, tools.store, 1, lambda: tools.update(item, parentId=None if rises else parent))
    shown = await roots(tools, includeChildren=True)
    assert [one["id"] for entry in shown for one in (entry, *entry["children"])].count(item) == 1


async def test_an_item_is_shown_in_full_with_its_children(tools: Client) -> None:
    item = await tools.add("Auth", description="long", summary="s", priority="high", traits="t")
    design = await tools.add("design", parentId=item, role="terminal", priority="high", traits="x")
    await tools.add("below", parentId=design)
    result = await tools("query_items", operation="overview", itemId=item[:13].replace("-", ""))
    assert result == {
        "item": await tools.get(item),
        "childCounts": NONE | {"terminal": 1},
        "children": [
            {"id": design, "parentId": item, "title": "design", "role": "terminal", "priority": "high", "depth": 1}
        ],
    }


async def test_the_children_of_an_item_are_bounded_and_counted(tools: Client, redis_url: str) -> None:
    item = await tools.add()
    ids = await tools.add_many(210, parentId=item)
    now = ms((await tools.get(item))["createdAt"])
    set_creation(redis_url, tools.project, {child: now - n for n, child in enumerate(ids)})
    for options, size in (({}, 200), ({"limit": 7}, 7)):
        result = await tools("query_items", operation="overview", itemId=item, **options)
        assert [child["id"] for child in result["children"]] == ids[:size]
        assert result["childCounts"]["queue"] == 210


@pytest.mark.parametrize("count", [20, 128, 129])
async def test_the_newest_children_come_first_in_any_state(tools: Client, redis_url: str, count: int) -> None:
    """Few are sorted directly, more are merged from their groups."""
    item = await tools.add()
    kinds = [(p, c, r) for p in ("high", "low") for c in (None, 3) for r in ("queue", "work", "terminal", "blocked")]
    specs = [
        {"title": str(n), "priority": priority, "complexity": complexity, "role": role}
        for n, (priority, complexity, role) in zip(range(count), cycle(kinds), strict=False)
    ]
    ids = [child["id"] for child in (await tools.create(*specs, parentId=item))["items"]]
    now = ms((await tools.get(item))["createdAt"])
    set_creation(redis_url, tools.project, {child: now - n // 3 for n, child in enumerate(ids)})
    expected = [child for n in range(0, count, 3) for child in sorted(ids[n : n + 3])]
    for limit in (7, 200):
        result = await tools("query_items", operation="overview", itemId=item, limit=limit)
        assert [child["id"] for child in result["children"]] == expected[:limit]


async def test_an_unknown_item_is_rejected(tools: Client) -> None:
    for item in (fresh_id(), "abcdef"):
        failure = await tools.refusal("query_items", operation="overview", itemId=item)
        assert failure.code == "RESOURCE_NOT_FOUND"
    failure = await tools.refusal("query_items", operation="overview", itemId="x")
    assert failure.message.startswith("itemId: must be a UUID")
