"""Lists of resources, and what keeps items from being claimed, for people."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.settings.sections.resources import Limit
from coordinator.store import keys
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.usage.shares import Share, budget_of_agent, share_of, shares_of
from coordinator.toolsets.items.store.boards.rows import rows_by_ids
from coordinator.toolsets.items.store.obstacles import FREE, Obstacle, read_obstacles
from coordinator.toolsets.items.store.resources import ResourcePage, ResourceRow, read_resources
from coordinator.toolsets.items.store.usage import agent_sums, last_days, read_usage, stored_sum
from tests.items.client import Client, actor, fresh_id
from tests.items.resources import demand, with_limits

pytestmark = pytest.mark.anyio


def inner(item: str) -> str:
    return item.replace("-", "")


def terms(tools: Client) -> bytes:
    return schema_config(tools.services.settings).terms(tools.project)


async def listed(tools: Client, offset: int = 0, limit: int = 100) -> ResourcePage:
    return await read_resources(tools.store, tools.project, terms(tools), offset, limit)


async def row_of(tools: Client, key: str) -> ResourceRow:
    return next(row for row in (await listed(tools)).rows if row.key == key)


async def kept(tools: Client, *items: str) -> list[Obstacle]:
    ids = [inner(item) for item in items]
    found = await read_obstacles(tools.store, tools.project, terms(tools), ids)
    return [found[item] for item in ids]


async def test_resources_are_listed_with_who_holds_them_and_how_many_wait(tools: Client) -> None:
    limited = with_limits(tools, resources={"gpu": 2, "m": Limit(capacity=3, per_minute=60), "idle": 1})
    first = await limited.add(title="Train", resources=[demand("gpu/0"), demand("m", units=2)])
    busy = await limited.add(resources=[demand("gpu", units=2)])
    reader = await limited.add(resources=[demand("docs", "shared")])
    await limited.add(resources=[demand("docs")])
    await limited.claim("a", first)
    await limited.claim("b", reader)
    await limited.claim("c", busy)  # who does not get it
    found = await listed(limited)
    assert [(row.key, row.demanded, row.waiting) for row in found.rows] == [
        ("docs", 2, 0), ("gpu", 2, 1), ("gpu/0", 1, 0), ("m", 1, 0), ("idle", 0, 0)
    ]  # fmt: skip
    assert (found.total, found.more, found.live, found.looked) == (5, False, 2, 2)
    docs, gpu, _, m, idle = found.rows
    assert (gpu.capacity, gpu.exclusive, gpu.shared, gpu.holding, gpu.holders) == (
        2, 1, 0, 1, [(inner(first), "Train", "a")],
    )  # fmt: skip
    assert (docs.exclusive, docs.shared, [use.agent for use in docs.holders]) == (0, 1, ["b"])
    assert (idle.capacity, idle.holders, idle.per_minute) == (1, [], 0)
    assert (m.capacity, m.per_minute, m.exclusive) == (3, 60, 2)
    assert 1 <= m.left < 3
    await limited.release("a", first)
    gpu = await row_of(limited, "gpu")
    assert (gpu.exclusive, gpu.waiting, gpu.holders) == (0, 0, [])
    assert [row.key for row in (await listed(limited, 3, 1)).rows] == ["m"]


async def test_what_a_claim_has_taken_beside_its_items_demands_is_listed(tools: Client) -> None:
    item = await tools.add()
    await tools("claim_item", actor=actor("a"), requestId=fresh_id(),
                claims=[{"itemId": item, "resources": [demand("repo/app")]}])  # fmt: skip
    row = await row_of(tools, "repo/app")
    assert (row.exclusive, row.demanded, row.holding) == (1, 0, 1)
    assert [row.key for row in (await listed(tools)).rows] == ["repo/app"]  # nobody demands repo itself


async def test_what_is_reserved_is_listed(tools: Client) -> None:
    big = await tools.add(title="Big", resources=[demand("a"), demand("b")])
    now = (await listed(tools)).now
    await tools.store.command("HSET", keys.reserved.key(tools.project), inner(big), f"{now} x1:a,x1:b")
    row = await row_of(tools, "a")
    assert [(use.title, use.agent) for use in row.reserved] == [("Big", "")]


async def test_a_project_without_resources_has_an_empty_list(tools: Client) -> None:
    await tools.add()
    assert (await listed(tools)).rows == []


async def test_what_is_busy_is_told_of_items_that_are_ready(tools: Client) -> None:
    limited = with_limits(tools, resources={"gpu": 2})
    holder = await limited.add(resources=[demand("gpu/0")])
    other = await limited.add(resources=[demand("gpu", units=2), demand("free")])
    suits = await limited.add(resources=[demand("gpu")])
    later = await limited.add(resources=[demand("gpu", units=2)], notBefore="+1h")
    await limited.claim("a", holder)
    found = await kept(limited, holder, other, suits, later)
    assert [one.busy for one in found] == ["", "x2:gpu", "", ""]
    ids = [inner(holder), inner(other)]
    _, rows = await rows_by_ids(limited.store, limited.project, ids)
    assert [(row.resources, row.holds) for row in rows] == [("x1:gpu/0", "x1:gpu/0"), ("x2:gpu,x1:free", "")]
    await limited.release("a", holder)
    assert await kept(limited, other) == [FREE]
    gone = await read_obstacles(limited.store, limited.project, terms(limited), ["0" * 32])
    assert gone == {}


async def test_which_budget_stops_claims_and_keeps_items(tools: Client) -> None:
    budgets = Budgets(agents={"a*": Periods(day=Limits(tokens=100))})
    capped = with_limits(tools, budgets=budgets)
    root = await capped.add(budget={"tokens": 1000})
    item, free, other = await capped.add(parentId=root), await capped.add(), await capped.add()
    await capped.claim("a1", free)
    note = {"itemId": free, "key": "k", "role": "work", "actor": actor("a1"), "usage": {"inputTokens": 100}}
    await capped("manage_notes", operation="upsert", notes=[note])
    found = await kept(capped, free, item, other)
    assert isinstance(found[0].spent, dict)
    assert (found[0].spent["of"], found[0].spent["name"], found[0].spent["day"]) == ("agent", "a*", True)
    assert found[1:] == [FREE, FREE]  # of nobody in particular
    note = {**note, "itemId": item, "usage": {"inputTokens": 1000}, "actor": actor("b")}
    await capped("manage_notes", operation="upsert", notes=[note])
    (told,) = await kept(capped, item)
    assert isinstance(told.spent, dict)
    assert (told.spent["of"], told.spent["name"], told.spent["used"]) == ("item", inner(root), 1000)
    _, (above, below) = await rows_by_ids(capped.store, capped.project, [inner(root), inner(item)])
    assert (above.spent, below.spent, above.budget, above.usage) == (inner(root), inner(root), ",1000,", "")
    assert (stored_sum(above.usage, above.used_below).tokens, stored_sum(below.usage).tokens) == (1000, 1000)


async def test_days_without_usage_are_shown_too(tools: Client) -> None:
    item = await tools.add(budget={"tokens": 5})
    note = {"itemId": item, "key": "k", "role": "work", "actor": actor("a"), "usage": {"inputTokens": 7}}
    await tools("manage_notes", operation="upsert", notes=[note])
    found = await read_usage(tools.store, tools.project, "day", 10)
    days = last_days(found, 3)
    assert [sums.tokens for _, sums in days] == [0, 0, 7]
    assert (days[-1][0], found.spent_budgets) == (found.today, 1)


def test_shares_of_budgets() -> None:
    used = stored_sum("60,40,0,500,0")
    assert shares_of(Limits(tokens=400, cost_micro_usd=1000), used) == [
        Share("costMicroUsd", 500, 1000), Share("tokens", 100, 400)
    ]  # fmt: skip
    assert share_of(Limits(tokens=400, cost_micro_usd=1000), used) == ("costMicroUsd", 500, 1000)
    assert (share_of(None, used), shares_of(UNSET, used), shares_of(Limits(wall_ms=9), UNSET)[0].percent) == (
        None,
        [],
        0,
    )
    assert Share("tokens", 1999, 1000).percent == 199
    every, some, one = Periods(day=Limits(tokens=1)), Periods(day=Limits(tokens=2)), Periods(day=Limits(tokens=3))
    budgets = Budgets(agents={"*": every, "cla*": some, "claude": one})
    assert [budget_of_agent(budgets, name) for name in ("x", "clara", "claude", "claude-1")] == [
        ("*", every), ("cla*", some), ("claude", one), ("cla*", some)
    ]  # fmt: skip
    assert (budget_of_agent(None, "x"), budget_of_agent(Budgets(), "x")) == (None, None)


def test_the_sums_of_an_agent_are_of_all_time_and_of_today() -> None:
    entry, day = "5,6,0,0,0 20000:1,2,0,0,0", 20_000 * 86_400_000
    total, today = agent_sums(entry, day + 5)
    assert (total.tokens, today and today.tokens) == (11, 3)
    assert agent_sums(entry, day + 86_400_000)[1] is UNSET
