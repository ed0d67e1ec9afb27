"""Usage that reports carry: added once for each meaning, to the agent that holds the item."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.store import Store
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.usage import read_usage
from tests.items.client import SETTINGS, Json
from tests.items.moments import lapse
from tests.worker.client import Agent, Tools

pytestmark = pytest.mark.anyio

USED: Json = {"inputTokens": 100, "outputTokens": 20, "costMicroUsd": 3000, "model": "m"}
ENDS: list[tuple[str, Json]] = [
    ("work_done", {"result": "r"}),
    ("work_failed", {"reason": "f"}),
    ("work_failed", {"reason": "h", "handBack": True}),
    ("work_ask", {"question": "q"}),
]


async def used(tools: Tools, item: str) -> int:
    """How often USED was added."""
    found = (await tools.get(item)).get("usage", {}).get("own", {})
    assert found.get("tokens", 0) % 120 == 0
    return int(found.get("tokens", 0)) // 120


@pytest.mark.parametrize(("tool", "given"), ENDS)
async def test_an_end_of_the_work_adds_once(pair: tuple[Tools, Tools], tool: str, given: Json) -> None:
    tools, other = pair
    item = await tools.add()
    await tools.worker("a").take()
    await tools.worker("a")(tool, usage=USED, **given)
    again = await other.worker("a")(tool, itemId=item, usage={**USED, "outputTokens": 30}, **given)
    assert (again["repeated"], await used(tools, item)) == (True, 1)
    report = await read_usage(tools.store, tools.project, "agent", 9)
    assert [(row.name, row.sum.tokens) for row in report.rows] == [("a", 120)]


async def test_a_note_adds_once_for_what_it_says_under_one_claim(pair: tuple[Tools, Tools]) -> None:
    tools, other = pair
    item = await tools.add(retryBackoffSeconds=0)
    await tools.worker("a").take(ttlSeconds=600)
    for front in (tools, other, tools):
        await front.worker("a").note("k", "one", usage=USED)
    assert await used(tools, item) == 1
    await tools.worker("a").note("k", "two", usage=USED)
    await other.worker("a").note("k", "one", usage=USED)  # late
    assert await used(tools, item) == 2
    # The claim ends and is taken up again by its agent: it is the same one.
    await lapse(tools, item)
    await tools.worker("a").note("k", "two", usage=USED)
    await other.worker("a").note("k", "two", usage=USED)
    assert await used(tools, item) == 2
    await tools.worker("a").failed(handBack=True)
    await tools.worker("a").take()
    await tools.worker("a").note("k", "two", usage=USED)
    assert await used(tools, item) == 3
    assert (await audit(tools.store, tools.project)).differences == []


async def test_what_is_refused_adds_nothing(tools: Tools, agent: Agent) -> None:
    item, blocker = await tools.add(priority="high"), await tools.add()
    assert await agent.take() == item
    await tools.link(blocker, item)
    assert (await agent.refused("work_done", usage=USED)).code == "not_ready"
    failure = await tools.worker("b").refused("work_note", itemId=item, key="k", body="b", usage=USED)
    assert (failure.code, await used(tools, item)) == ("not_claim_holder", 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"inputTokens": -1}, "usage.inputTokens"),
        ({"cachedTokens": 5}, "usage.cachedTokens: must be at most inputTokens"),
        ({"model": "m" * 201}, "usage.model: must be at most 200 characters"),
    ],
)
async def test_wrong_usage_is_refused_by_name(tools: Tools, agent: Agent, given: Json, said: str) -> None:
    item = await tools.add()
    await agent.take()
    for tool, more in (("work_note", {"key": "k", "body": "b"}), *ENDS):
        failure = await agent.refused(tool, usage=given, **more)
        assert failure.code == "VALIDATION_ERROR"
        assert said in failure.message
    assert (await tools.role(item), await tools.notes(item)) == ("work", {})


async def test_a_note_says_that_its_agent_is_to_stop(tools: Tools, agent: Agent) -> None:
    item = await tools.add(budget={"tokens": 240})
    await agent.take()
    assert "stop" not in await agent.note("k", "1", usage=USED)
    spent = await agent.note("k", "2", usage=USED)
    assert (spent["stop"], spent["stopReason"]) == (True, f"the budget of item {item} is spent: 240 of 240 tokens")
    assert (await agent.done(usage=USED))["role"] == "terminal"
    assert await used(tools, item) == 3


@pytest.mark.parametrize(("period", "waits"), [("day", True), ("total", False)])
async def test_an_agent_whose_budget_is_spent_is_told_when_to_ask_again(
    store: Store, project: str, period: Any, waits: bool
) -> None:
    budgets = Budgets(agents={"bot*": Periods(**{period: Limits(tokens=100)})})
    tools = Tools(store, project, SETTINGS.__class__(budgets=budgets))
    await tools.add(), await tools.add()
    await tools.worker("bot-1").take()
    assert (await tools.worker("bot-1").note("k", "b", usage=USED))["stop"]
    await tools.worker("bot-1").done()
    told = await tools.worker("bot-1").next(waitMs=30_000)
    assert (told["outcome"], "retryAfterMs" in told) == ("stop", waits)
    assert "the budget of the agents 'bot*'" in told["stopReason"]
    assert (await tools.worker("other").next())["outcome"] == "item"
