"""Searches that read the items: in bounded runs, one at a time, while the items change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.store import Script
from coordinator.toolsets.items.store.query import Best, Pace, ScannedItem
from tests.items.client import Client, Json
from tests.items.moments import ms
from tests.items.query_world import set_creation

pytestmark = pytest.mark.anyio

EVERY = {"operation": "search", "modifiedAfter": "2020-01-01T00:00:00Z"}
"""Matches everything, and has to read it."""


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "START", 10)
    monkeypatch.setattr(Pace, "MOST", 10)
    monkeypatch.setattr(Pace, "LEAST", 10)


def after_each_run(tools: Client, monkeypatch: pytest.MonkeyPatch, then: Callable[[Any], Awaitable[None]]) -> None:
    """Calls ``then`` with the reply of each slice of a search."""
    run = tools.store.run

    async def wrapped(script: Script[Any], project: str, *args: str | bytes | int, **more: Any) -> Any:
        reply = await run(script, project, *args, **more)
        if script.name == "scan_items":
            await then(reply)
        return reply

    monkeypatch.setattr(tools.store, "run", wrapped)


async def population(tools: Client, count: int) -> list[str]:
    """Items of all priorities, some with parents, some waiting for others."""
    rng = random.Random(7)
    roots = await tools.add_many(5, tags="x")
    created = await tools.create(
        *(
            {
                "title": f"item {n}",
                "priority": rng.choice(("high", "medium", "low")),
                "complexity": rng.choice((None, 1, 5)),
                "tags": rng.choice(("x", "x,y")),
                "parentId": rng.choice((None, *roots)),
            }
            for n in range(count - 5)
        )
    )
    return roots + [item["id"] for item in created["items"]]


async def churn(tools: Client, rng: random.Random, ids: list[str]) -> None:
    """Changes of role, claim and readiness, and of fields that a search for everything does not ask for."""
    item, other = rng.sample(ids, 2)
    await tools.advance(item, rng.choice(("start", "block", "resume", "complete", "reopen", "cancel")))
    await tools.claim(f"agent {rng.randrange(9)}", other)
    await tools.release(f"agent {rng.randrange(9)}", other)
    await tools.try_link(item, other)
    await tools.update(other, title=f"again {rng.random()}", type=rng.choice((None, "t")))


async def test_items_that_change_role_claim_and_readiness_are_found_exactly_once(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await population(tools, 180)
    rng = random.Random(3)
    changed: list[int] = []

    async def then(_: Any) -> None:
        changed.append(1)
        await churn(tools, rng, ids)

    after_each_run(tools, monkeypatch, then)
    result = await tools("query_items", **EVERY, limit=200)
    assert len(changed) > 5, "it took several runs"
    assert result["total"] == 180
    assert sorted(item["id"] for item in result["items"]) == sorted(ids)


async def test_an_item_whose_rank_changes_is_not_listed_twice(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await population(tools, 60)
    seen: list[str] = []

    async def then(reply: Any) -> None:
        seen.extend(item for item, _, _ in reply.listed)
        for item in seen[-3:]:  # to a place ahead of the walk, if there is one
            await tools.update(item, priority="low")

    after_each_run(tools, monkeypatch, then)
    result = await tools("query_items", **EVERY, limit=200)
    assert len(seen) > len(set(seen)), "the walk found some of them again"
    assert sorted(item["id"] for item in result["items"]) == sorted(ids)
    assert result["total"] == 60


async def test_items_that_stop_matching_before_the_page_is_read_are_left_out(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await tools.add_many(6, tags="x,y")
    parent = await tools.add("parent")
    changes: list[Callable[[], Awaitable[Json]]] = [
        lambda: tools.advance(ids[0], "start"),
        lambda: tools.update(ids[1], title="other"),
        lambda: tools.update(ids[2], priority="low"),
        lambda: tools.update(ids[3], tags="z"),
        lambda: tools.delete(ids[4]),
        lambda: tools.update(parent, summary="irrelevant"),
    ]

    async def then(reply: Any) -> None:
        while reply.done and changes:
            await changes.pop(0)()

    search = {"operation": "search", "role": "queue", "tags": "x,y", "priority": "medium"}
    await tools.update(ids[1], title="1 needle")
    after_each_run(tools, monkeypatch, then)
    result = await tools("query_items", **search)
    assert not changes
    assert [item["id"] for item in result["items"]] == [ids[1], ids[5]] or [item["id"] for item in result["items"]] == [
        ids[5],
        ids[1],
    ]
    assert result["returned"] == 2


async def test_new_and_deleted_items_do_not_disturb_the_others(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = await population(tools, 120)
    doomed = [item for item in ids[5:] if item not in ids[:5]][:40]
    added: list[str] = []

    async def then(_: Any) -> None:
        if doomed:
            await tools.delete(doomed.pop())
        added.append(await tools.add("new", priority="high"))

    after_each_run(tools, monkeypatch, then)
    result = await tools("query_items", **EVERY, limit=200)
    listed = [item["id"] for item in result["items"]]
    assert len(listed) == len(set(listed))
    deleted = 40 - len(doomed)
    kept = set(ids) - set(ids[5:45][::-1][:deleted])
    assert kept <= set(listed) | set(added)
    assert kept <= set(listed)


async def test_many_items_of_one_rank_are_found_exactly_once(tools: Client, redis_url: str) -> None:
    ids = [*await tools.add_many(40), *await tools.add_many(20, role="work")]
    set_creation(redis_url, tools.project, dict.fromkeys(ids, ms("2026-01-01T00:00:00Z")))
    result = await tools("query_items", **EVERY, limit=200)
    assert [item["id"] for item in result["items"]] == sorted(ids)
    assert result["total"] == 60


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_items_of_one_title_come_newest_first_at_any_offset(
    tools: Client, redis_url: str, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setattr(Best, "SLACK", 2)
    created = await tools.create(*({"title": title} for title in ("Same", "same", "same but longer") * 20))
    ids = [item["id"] for item in created["items"]]
    random.Random(2).shuffle(ids)
    first = ms("2026-01-01T00:00:00Z")
    times = {item: first + n // 2 for n, item in enumerate(ids)}
    set_creation(redis_url, tools.project, times)
    titles = {item["id"]: item["title"].lower() for item in created["items"]}
    expected = sorted(ids, key=lambda item: (-times[item], item))
    expected.sort(key=lambda item: titles[item], reverse=order == "desc")
    for limit in (5, 30):
        result = await tools("query_items", operation="search", sortBy="title", sortOrder=order, limit=limit)
        assert [item["id"] for item in result["items"]] == expected[:limit]
        assert result["total"] == 60


async def test_every_run_is_bounded(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await population(tools, 200)
    looked: list[int] = []

    async def then(reply: Any) -> None:
        looked.append(reply.looked)

    after_each_run(tools, monkeypatch, then)
    await tools("query_items", **EVERY)
    assert sum(looked) == 200
    assert max(looked) <= 10 + 10 + 14 * 4, "the budget, and what one step reads at most: at least four of each class"


async def test_a_narrow_filter_is_walked_instead_of_everything(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await population(tools, 150)
    parent = await tools.add("parent", type="rare")
    await tools.create(*({"title": f"needle {n}", "parentId": parent, "tags": "y"} for n in range(4)))
    looked: list[int] = []

    async def then(reply: Any) -> None:
        looked.append(reply.looked)

    after_each_run(tools, monkeypatch, then)
    for narrow, size in (({"parentId": parent}, 4), ({"type": "rare"}, 1), ({"tags": "unknown"}, 0)):
        looked.clear()
        await tools("query_items", **{"operation": "search", "query": "needle", "tags": "y,x", **narrow})
        assert sum(looked) == size


async def test_one_run_at_a_time(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await population(tools, 100)
    under_way: list[int] = []
    most: list[int] = []
    run = tools.store.run

    async def wrapped(script: Script[Any], project: str, *args: str | bytes | int, **more: Any) -> Any:
        if script.name != "scan_items":
            return await run(script, project, *args, **more)
        under_way.append(1)
        most.append(len(under_way))
        try:
            return await run(script, project, *args, **more)
        finally:
            under_way.pop()

    monkeypatch.setattr(tools.store, "run", wrapped)
    answers = await asyncio.gather(*(tools("query_items", **EVERY) for _ in range(6)))
    assert all(answer == answers[0] for answer in answers)
    assert set(most) == {1}


def test_the_pace_follows_the_duration_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pace = Pace()
    for _ in range(100):
        pace.took(Pace.TARGET / 2)
    assert pace.budget == Pace.MOST
    pace.took(Pace.TARGET * 2)
    assert pace.budget < Pace.MOST
    for _ in range(100):
        pace.took(1.0)
    assert pace.budget == Pace.LEAST


@pytest.mark.parametrize("descending", [True, False])
def test_only_the_best_are_kept(descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Best, "SLACK", 2)
    rng = random.Random(5)
    rows = [ScannedItem(f"{n:03}", rng.choice("abc"), rng.randrange(3)) for n in range(100)]
    expected = sorted(rows, key=lambda row: (-row.created, row.id))
    expected.sort(key=lambda row: row.key, reverse=descending)
    best = Best(7, descending)
    assert best.bound is None
    for row in rows:
        assert best.add([row]) == 0
    assert best.page(0) == [row.id for row in expected[:7]]
    assert best.page(4) == [row.id for row in expected[4:7]]
    assert best.bound is not None
    assert best.add([expected[0]]) == 1, "seen before"


async def test_a_page_at_a_large_offset_is_found_for_any_spread_of_creation(tools: Client, redis_url: str) -> None:
    ids = await tools.add_many(400)
    now = ms((await tools.get(ids[0]))["createdAt"])
    first = ms("2020-01-02T00:00:00Z")
    created = {item: first + 2 ** min(n, 37) + n for n, item in enumerate(ids[:40])}
    created |= {item: now + n // 100 for n, item in enumerate(ids[40:])}
    set_creation(redis_url, tools.project, created)
    expected = sorted(ids, key=lambda item: (created[item], item))
    for offset in (0, 65, 130, 200, 333, 397):
        result = await tools("query_items", operation="search", sortOrder="asc", offset=offset, limit=3)
        assert [item["id"] for item in result["items"]] == expected[offset : offset + 3]
