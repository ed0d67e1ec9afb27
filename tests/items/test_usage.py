"""Usage that agents report: where it is added, to which sums, and once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.store import Store, keys
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.measures.items import MeasureStore
from coordinator.toolsets.items.store.usage import read_usage
from tests.items.client import SETTINGS, Client, Json, actor, fresh_id
from tests.items.parked import Fronts
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

USED: Json = {"inputTokens": 100, "outputTokens": 20, "cachedTokens": 60, "costMicroUsd": 3000, "wallMs": 5000}


def times(count: int, used: Json = USED) -> Json:
    """The sum of some reports, as results show it."""
    found = {name: number * count for name, number in used.items()}
    return {**found, "tokens": found["inputTokens"] + found["outputTokens"]}


async def consistent(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


async def test_each_kind_of_call_adds_to_the_item_and_to_all_above_it(tools: Client) -> None:
    root = await tools.add()
    child = await tools.add(parentId=root)
    item = await tools.add(parentId=child)
    used = {**USED, "model": "m1"}
    who = actor("a")
    await tools("claim_item", actor=who, requestId=fresh_id(), claims=[{"itemId": item, "usage": used}])
    await tools("claim_item", actor=who, requestId=fresh_id(), claims=[{"itemId": item, "usage": used}])
    await tools("advance_item", transitions=[{"itemId": item, "trigger": "start", "actor": who, "usage": used}])
    note = {"itemId": item, "key": "k", "role": "work", "body": "x", "usage": used}
    await tools("manage_notes", operation="upsert", notes=[{**note, "actor": who}])
    await tools("manage_notes", operation="upsert", notes=[note], actor=who, requestId=fresh_id())
    await tools(
        "advance_item",
        transitions=[{"itemId": item, "trigger": "complete", "actor": who, "usage": used, "result": "done"}],
    )
    await tools("claim_item", actor=who, requestId=fresh_id(), releases=[{"itemId": item, "usage": used}])
    assert (await tools.get(item))["usage"] == {"own": times(7), "subtree": times(7)}
    for above in (root, child):
        assert (await tools.get(above))["usage"] == {"subtree": times(7)}
    assert (await tools("get_context", itemId=item))["usage"]["own"] == times(7)
    await consistent(tools)


async def test_only_what_succeeds_is_added_and_once_with_a_request_id(tools: Client) -> None:
    item, other = await tools.add(), await tools.add()
    request = fresh_id()
    for _ in range(3):
        entry = {"itemId": item, "usage": USED}
        await tools("claim_item", actor=actor("a"), requestId=request, claims=[entry])
    entry = {"itemId": item, "usage": {**USED, "wallMs": 1}}
    with pytest.raises(ToolFailure, match="other arguments"):
        await tools("claim_item", actor=actor("a"), requestId=request, claims=[entry])
    lost = await tools("claim_item", actor=actor("b"), requestId=fresh_id(), claims=[{"itemId": item, "usage": USED}])
    assert lost["claimResults"][0]["outcome"] == "already_claimed"
    two = [{"itemId": item, "usage": USED}, {"itemId": other, "usage": USED}]
    moved = await tools("claim_item", actor=actor("a"), requestId=fresh_id(), claims=two)
    assert [one["outcome"] for one in moved["claimResults"]] == ["superseded", "success"]
    refused = {"itemId": item, "trigger": "reopen", "actor": actor("a"), "usage": USED}
    assert not (await tools("advance_item", transitions=[refused]))["results"][0]["applied"]
    written = fresh_id()
    for _ in range(2):
        note = {"itemId": item, "key": "k", "role": "work", "usage": USED}
        await tools("manage_notes", operation="upsert", notes=[note], actor=actor("a"), requestId=written)
    assert (await tools.get(item))["usage"]["own"] == times(2)
    assert (await tools.get(other))["usage"]["own"] == times(1)
    await consistent(tools)


async def refusal(tools: Client, item: str, budget: Json) -> str:
    """Why an item does not get a budget."""
    try:
        return str(await tools("manage_items", operation="update", items=[{"id": item, "budget": budget}]))
    except ToolFailure as failure:
        return failure.message


async def test_bad_usage_and_bad_budgets_name_the_field(tools: Client) -> None:
    item = await tools.add()
    wrong: list[tuple[Json, str]] = [
        ({"inputTokens": -1}, "inputTokens"),
        ({"outputTokens": 10**13}, "outputTokens"),
        ({"inputTokens": 1.5}, "inputTokens"),
        ({"inputTokens": 1, "cachedTokens": 2}, "usage.cachedTokens"),
        ({"model": "x" * 201}, "usage.model"),
        ({"input_tokens": 1}, "input_tokens"),
    ]
    for used, named in wrong:
        with pytest.raises(Exception, match=named):
            await tools("claim_item", actor=actor("a"), requestId=fresh_id(), claims=[{"itemId": item, "usage": used}])
    for budget, named in (({"tokens": 0}, "tokens"), ({"dollars": 1}, "dollars"), ({}, "costMicroUsd, tokens and")):
        assert named in await refusal(tools, item, budget)
    assert "usage" not in await tools.get(item)


async def spend(tools: Client, item: str, agent: str = "spender", **used: Any) -> None:
    """Reports usage of an item."""
    note = {"itemId": item, "key": "k", "role": "work", "actor": actor(agent), "usage": {**USED, **used}}
    assert (await tools("manage_notes", operation="upsert", notes=[note]))["upserted"] == 1


async def test_a_renewal_that_spends_the_first_budget_of_a_project_says_stop(tools: Client) -> None:
    item = await tools.add(budget={"tokens": 10})
    await tools.claim("a", item)
    entry = {"itemId": item, "usage": {"outputTokens": 12}}
    answer = await tools("claim_item", actor=actor("a"), requestId=fresh_id(), claims=[entry])
    assert answer["claimResults"][0]["stopReason"] == f"the budget of item {item} is spent: 12 of 10 tokens"


async def test_a_spent_budget_refuses_claims_below_it_until_it_is_raised(tools: Client) -> None:
    root = await tools.add(budget={"tokens": 200, "costMicroUsd": 10**9})
    top, item = await tools.add(parentId=root), await tools.add(parentId=root, priority="high")
    outside = await tools.add(priority="low")
    assert (await tools.get(root))["budget"] == {"tokens": 200, "costMicroUsd": 10**9}
    running = await tools.claim("a", item)
    await spend(tools, item)
    renewed = await tools.claim("a", item)
    assert (renewed["outcome"], renewed.get("stop")) == ("success", None)
    await spend(tools, item)
    renewed = await tools.claim("a", item)
    assert (renewed["outcome"], renewed["fenceToken"], renewed["stop"]) == ("success", running["fenceToken"], True)
    assert renewed["stopReason"] == f"the budget of item {root} is spent: 240 of 200 tokens"
    named = {"scope": "item", "itemId": root, "period": "total", "measure": "tokens", "limit": 200, "used": 240}
    assert renewed["budget"] == named
    refused = await tools.claim("b", top)
    assert (refused["outcome"], refused["budget"], refused["kind"]) == ("budget_exhausted", named, "permanent")
    assert (await tools.claim("b", root))["outcome"] == "budget_exhausted"
    assert (await tools.claim("b", item))["outcome"] == "already_claimed"
    assert (await take(tools, "b"))["itemId"] == outside
    assert await tools.next() == []
    nothing = await take(tools, "c")
    assert (nothing["outcome"], nothing["heldBack"]["budget"]) == ("no_match", 1), "the root waits for its children"
    for below in ({"parentId": root}, {"ancestorId": root}):
        refused = await take(tools, "c", below)
        assert (refused["outcome"], refused["budget"]) == ("budget_exhausted", named)
    assert (await tools.get(root))["budgetSpent"] is True
    await consistent(tools)
    await tools("manage_items", operation="update", items=[{"id": root, "budget": {"tokens": 241}}])
    renewed = await tools.claim("a", item)
    assert (renewed["outcome"], renewed.get("stop")) == ("success", None)
    await tools.release("a", item)
    assert (await take(tools, "c"))["itemId"] == item
    await consistent(tools)


async def test_items_move_with_what_was_used_for_them_and_leave_it_behind_when_deleted(tools: Client) -> None:
    first = await tools.add(budget={"wallMs": 5000})
    second = await tools.add()
    item = await tools.add(parentId=first)
    below = await tools.add(parentId=item)
    await spend(tools, below)
    assert (await tools.claim("a", below))["outcome"] == "budget_exhausted"
    await tools("manage_items", operation="update", items=[{"id": item, "parentId": second}])
    assert (await tools.claim("a", below))["outcome"] == "success"
    assert (await tools.get(second))["usage"] == {"subtree": times(1)}
    assert (await tools.get(first))["usage"] == {"subtree": times(0)}
    await consistent(tools)
    await tools("manage_items", operation="delete", ids=[item], recursive=True)
    assert (await tools.get(second))["usage"] == {"subtree": times(1)}
    await consistent(tools)


def budgeted(store: Store, project: str, **budgets: Any) -> Client:
    """A client of a front-end with budgets in its settings."""
    return Client(store, project, msgspec.structs.replace(SETTINGS, budgets=Budgets(**budgets)))


async def test_budgets_of_agents_hold_for_each_agent_and_the_longest_name_counts(store: Store, project: str) -> None:
    night = Periods(day=Limits(tokens=120))
    big, one = Periods(total=Limits(cost_micro_usd=6001)), Periods(total=Limits(tokens=10**9))
    agents = {"night-*": night, "night-big*": big, "night-1": one}
    tools = budgeted(store, project, agents=agents)
    item, other = await tools.add(), await tools.add()
    for agent in ("night-1", "night-2", "night-big", "day"):
        await spend(tools, item, agent)
    refused = await tools.claim("night-2", other)
    assert (refused["outcome"], refused["kind"]) == ("budget_exhausted", "transient")
    assert 0 < refused["retryAfterMs"] <= 86_400_000
    assert refused["budget"] == {
        "scope": "agent", "name": "night-*", "period": "day", "measure": "tokens", "limit": 120, "used": 120,
    }  # fmt: skip
    assert (await take(tools, "night-2"))["outcome"] == "budget_exhausted"
    assert (await take(tools, "night-2", wait_ms=20_000))["outcome"] == "budget_exhausted"
    for agent in ("night-1", "night-big", "day", "night-3"):
        assert (await tools.claim(agent, other))["outcome"] == "success"
        await tools.release(agent, other)
    running = await tools.claim("night-big", other)
    assert running["outcome"] == "success"
    await spend(tools, item, "night-big")
    assert "stop" not in await tools.claim("night-big", other)
    await spend(tools, item, "night-big")
    renewed = await tools.claim("night-big", other)
    assert (renewed["stop"], renewed["budget"]["name"]) == (True, "night-big*")
    await consistent(tools)


async def test_a_slot_is_an_agent_with_a_budget_of_its_own(store: Store, project: str) -> None:
    spent = Periods(total=Limits(tokens=120))
    tools = budgeted(store, project, agents={"builder": spent, "pool/*": spent})
    item, other = await tools.add(), await tools.add()
    for agent in ("builder", "builder/1", "pool", "pool/1"):
        await spend(tools, item, agent)
    for agent, outcome in (
        ("builder", "budget_exhausted"), ("builder/1", "success"),
        ("pool", "success"), ("pool/1", "budget_exhausted"), ("pool/2", "success"),
    ):  # fmt: skip
        assert (await tools.claim(agent, other))["outcome"] == outcome, agent
        await tools.release(agent, other)


async def test_budgets_of_projects_hold_there_alone(store: Store, project: str, elsewhere: Client) -> None:
    projects = {project: Periods(day=Limits(tokens=240), total=Limits(wall_ms=15_000))}
    tools = budgeted(store, project, projects=projects)
    there = budgeted(store, elsewhere.project, projects=projects)
    item, other = await tools.add(), await there.add()
    await spend(tools, item)
    await spend(there, other, inputTokens=10**6)
    assert (await tools.claim("a", item))["outcome"] == "success"
    assert (await there.claim("a", other))["outcome"] == "success"
    await spend(tools, item)
    assert (await tools.claim("a", item))["budget"]["period"] == "day"
    await spend(tools, item)
    renewed = await tools.claim("a", item)
    assert (renewed["budget"]["measure"], renewed["budget"]["period"]) == ("wallMs", "total")
    assert (await take(tools, "b"))["budget"] == {**renewed["budget"], "name": project, "scope": "project"}


async def test_the_order_of_outcomes(store: Store, project: str) -> None:
    tools = budgeted(store, project, projects={project: Periods(total=Limits(tokens=1))})
    done, held, free = [await tools.add() for _ in range(3)]
    assert (await tools.claim("a", held))["outcome"] == "success"
    await tools.advance(done, "complete")
    await spend(tools, free)
    assert (await tools.claim("b", done))["outcome"] == "terminal_item"
    assert (await tools.claim("b", held))["outcome"] == "already_claimed"
    assert (await tools.claim("b", free))["outcome"] == "budget_exhausted"
    assert (await tools.claim("b", free, fenceToken=7))["outcome"] == "budget_exhausted"


async def test_raising_a_budget_needs_the_permission_and_wakes_waiting_calls(tools: Client, fronts: Fronts) -> None:
    root = await tools.add(budget={"tokens": 100})
    item = await tools.add(parentId=root)
    await spend(tools, root)
    front = await fronts.make()
    waiting = await front.park("b")
    tools.caller = Caller("somebody", permissions=frozenset(("items",)))
    for raised in ({"tokens": 101}, None, {"costMicroUsd": 5}):
        failed = await tools("manage_items", operation="update", items=[{"id": root, "budget": raised, "title": "x"}])
        assert "items.budget" in failed["failures"][0]["error"]
    lowered = await tools(
        "manage_items", operation="update", items=[{"id": root, "budget": {"tokens": 50, "wallMs": 9}}]
    )
    assert lowered["updated"] == 1
    assert (await tools.get(root))["title"] != "x"
    tools.caller = Caller("somebody", permissions=frozenset(("items", "items.budget")))
    raised = await tools("manage_items", operation="update", items=[{"id": root, "budget": {"tokens": 10**6}}])
    assert raised["updated"] == 1
    assert await waiting.item() in (root, item)
    await consistent(tools)


async def test_what_was_used_leaves_a_budget_only_with_the_permission(tools: Client) -> None:
    root = await tools.add(budget={"tokens": 100})
    middle = await tools.add(parentId=root)
    other = await tools.add(parentId=root)
    spender, idle = [await tools.add(parentId=middle) for _ in range(2)]
    await spend(tools, spender)

    async def moved(item: str, parent: str | None) -> Any:
        return await tools(
            "manage_items", operation="update", items=[{"id": item, "parentId": parent, "title": "moved"}]
        )

    tools.caller = Caller("somebody", permissions=frozenset(("items",)))
    for item in (spender, middle):
        (failed,) = (await moved(item, None))["failures"]
        assert failed["error"].startswith("parentId: the budget of an item above would no longer count")
        assert (await tools.get(item))["title"] != "moved"
    assert (await tools.claim("a", idle))["outcome"] == "budget_exhausted"
    # Below the same budget, and what has used nothing, anywhere.
    for item, parent in ((spender, other), (spender, root), (spender, middle), (idle, None)):
        assert (await moved(item, parent))["updated"] == 1
    assert (await tools.claim("a", spender))["outcome"] == "budget_exhausted"
    tools.caller = Caller("somebody", permissions=frozenset(("items", "items.budget")))
    assert (await moved(spender, None))["updated"] == 1
    assert (await tools.claim("a", spender))["outcome"] == "success"
    await consistent(tools)


async def test_metrics_have_what_was_used_by_project(tools: Client) -> None:
    item = await tools.add(budget={"tokens": 1})
    measure = MeasureStore(tools.store).measure
    assert ((await measure(tools.project)).usage, (await measure(tools.project)).spent) == ((), 0)
    await spend(tools, item)
    found = await measure(tools.project)
    assert (found.usage, found.spent) == (tuple(USED.values()), 1)


async def test_spent_budgets_are_those_of_open_items_and_hold_for_what_is_below_ended_ones(tools: Client) -> None:
    async def spent() -> tuple[int, int]:
        found = await read_usage(tools.store, tools.project, "day", 1)
        return (await MeasureStore(tools.store).measure(tools.project)).spent, found.spent_budgets

    async def apply(trigger: str, item: str) -> None:
        await tools.advance(item, trigger)
        await consistent(tools)

    root = await tools.add(budget={"tokens": 1})
    middle = await tools.add(parentId=root)
    leaf = await tools.add(parentId=middle)
    await spend(tools, leaf)
    assert await spent() == (1, 1)
    for trigger, count in (("cancel", 0), ("reopen", 1), ("cancel", 0)):
        await apply(trigger, root)
        assert await spent() == (count, count)
        assert await tools.store.command("EXISTS", keys.spent_budgets.key(tools.project)) == count
        assert (await tools.claim("a", leaf))["outcome"] == "budget_exhausted", "no way around the budget"
        assert (await take(tools, "a"))["outcome"] == "no_match"
    await tools("manage_items", operation="update", items=[{"id": root, "budget": {"tokens": 1000}}])
    assert (await take(tools, "a"))["itemId"] == leaf
    await tools("manage_items", operation="update", items=[{"id": root, "budget": {"tokens": 1}}])
    await consistent(tools)
    assert await spent() == (0, 0), "it was spent when it had ended"
    await apply("reopen", root)
    assert await spent() == (1, 1)
    await tools("manage_items", operation="delete", requestId=fresh_id(), ids=[root], recursive=True)
    await consistent(tools)
    own = await tools.add(budget={"tokens": 1})
    await tools.advance(own, "complete")
    await spend(tools, own)
    assert await spent() == (0, 0)
    await tools("manage_items", operation="delete", requestId=fresh_id(), ids=[own])
    assert await tools.store.command("EXISTS", keys.spent_ended.key(tools.project)) == 0
    await consistent(tools)


async def test_names_beyond_their_bound_are_summed_together(tools: Client) -> None:
    key, item = keys.usage.key(tools.project), await tools.add()
    await spend(tools, item, model="m")
    for part in range(20):
        names = (f"a{part}-{n}" for n in range(1000))
        await tools.store.command("HSET", key, *(word for name in names for word in (name, "0,0,0,0,0 1:0,0,0,0,0")))
    for agent in ("new", "newer", "spender"):
        await spend(tools, item, agent, model="m2" if agent == "newer" else "m")
    agents = {row.name: row.sum.tokens for row in (await read_usage(tools.store, tools.project, "agent", 9)).rows}
    assert {name: tokens for name, tokens in agents.items() if tokens} == {"spender": 240, "(others)": 240}
    models = (await read_usage(tools.store, tools.project, "model", 9)).rows
    assert [(row.name, row.sum.tokens) for row in models] == [("m", 360), ("(others)", 120)]
    await consistent(tools)


async def test_usage_is_listed_by_day_and_item_with_the_most_used_first(tools: Client) -> None:
    root = await tools.add("root")
    item = await tools.add("item", parentId=root)
    await spend(tools, item)
    await spend(tools, root)
    report = await read_usage(tools.store, tools.project, "item", 10)
    assert [(row.name, row.title, row.sum.tokens) for row in report.rows] == [(root, "root", 240), (item, "item", 120)]
    (day,) = (await read_usage(tools.store, tools.project, "day", 10)).rows
    assert (len(day.name), day.sum.tokens) == (10, 240)
    (agent,) = (await read_usage(tools.store, tools.project, "agent", 10)).rows
    assert (agent.name, agent.today) == ("spender", agent.sum)


@pytest.mark.parametrize("name", ["costRefused", "tokensRefused"])
async def test_what_was_refused_is_a_number_and_adds_nothing(tools: Client, name: str) -> None:
    item = await tools.add()
    note = {"itemId": item, "key": "run-1", "role": "work", "body": "b"}
    answer = await tools("manage_notes", operation="upsert", notes=[{**note, name: -1}, {**note, name: 10**12 + 1}])
    assert [one["error"] for one in answer["failures"]] == [
        f"notes[{number}].{name}: must be from 0 to 1000000000000" for number in range(2)
    ]
    assert (await tools("manage_notes", operation="upsert", notes=[{**note, name: 10**12}]))["upserted"] == 1
    assert "usage" not in await tools.get(item)
