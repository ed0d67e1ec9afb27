"""The end of an item and the next one in one call: ``next`` of work_done, work_failed and work_ask."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.store import Store
from coordinator.toolsets.items.store.agents.drains import begin_drain
from tests.items.client import SETTINGS, Json, counts
from tests.items.moments import lapse
from tests.worker.client import Agent, Tools, parked

pytestmark = pytest.mark.anyio

AT_ONCE: Json = {"waitMs": 0}
ENDS: list[tuple[str, Json, str]] = [
    ("work_done", {"result": "r"}, "terminal"),
    ("work_failed", {"reason": "f"}, "work"),
    ("work_failed", {"reason": "h", "handBack": True}, "work"),
    ("work_ask", {"question": "q"}, "blocked"),
]
EVERY_END = pytest.mark.parametrize(("tool", "given", "role"), ENDS)


async def triggers(tools: Tools, *items: str) -> list[list[str]]:
    return [[one["trigger"] for one in (await tools.get(item)).get("transitions", ())] for item in items]


async def test_each_item_takes_one_call(tools: Tools, agent: Agent) -> None:
    items = await tools.add_many(3)
    for before, after in pairwise(items):
        await tools.link(before, after)
    got = await agent.next()
    for number, item in enumerate(items):
        assert (got["outcome"], got["item"]["id"], "held" in got) == ("item", item, False)
        assert (await tools.role(item), await tools.holder(item)) == ("work", agent.name)
        blocker = {"itemId": items[number - 1], "title": str(number - 1), "result": number - 1}
        assert got.get("results", []) == ([blocker] if number else [])
        ended = await agent.done(itemId=item, result=number, next=AT_ONCE)
        got = ended.pop("next")
        assert ended == {"itemId": item, "role": "terminal"}
    assert got == {"outcome": "none", "retryAfterMs": 1000}
    assert await triggers(tools, *items) == [["complete", "start"]] * 3


@EVERY_END
async def test_what_was_ended_is_not_what_is_taken(
    tools: Tools, agent: Agent, tool: str, given: Json, role: str
) -> None:
    first, second = await tools.add_many(2, retryBackoffSeconds=0)
    assert await agent.take() == first
    got = await agent(tool, itemId=first, next=AT_ONCE, **given)
    assert (got["itemId"], got["role"], got["next"]["item"]["id"]) == (first, role, second)
    got = await agent(tool, itemId=second, next=AT_ONCE, **given)
    assert got["next"].get("item", {}).get("id") == (first if role == "work" else None)
    alone = await tools.add(tags="alone", retryBackoffSeconds=0)
    other = tools.worker("other")
    assert await other.take(tags="alone") == alone
    got = await other(tool, itemId=alone, next={"tags": "alone", "waitMs": 30}, **given)
    assert got["next"]["outcome"] == "none"
    if role == "work":  # it may have it again by another call
        assert await other.take(tags="alone") == alone


@EVERY_END
async def test_a_repeated_call_answers_as_before(pair: tuple[Tools, Tools], tool: str, given: Json, role: str) -> None:
    tools, other = pair
    items = await tools.add_many(3, retryBackoffSeconds=0)
    first, second, third = items
    await tools.worker("a").take()
    call = {**given, "itemId": first, "next": AT_ONCE}
    got = await tools.worker("a")(tool, **call)
    before = await triggers(tools, *items)
    for front in (other, tools, other):
        again = await front.worker("a")(tool, **call)
        assert (again["itemId"], again["role"], again["repeated"]) == (first, role, True)
        assert again["next"].pop("held") is True
        assert {**again["next"], "claimExpiresAt": ""} == {**got["next"], "claimExpiresAt": ""}
        assert await triggers(tools, *items) == before
    assert (await tools.holder(second), await tools.holder(third)) == ("a", "")
    # Another end is that of the item that it has now.
    assert (await other.worker("a").done(result="other", itemId=second, next=AT_ONCE))["itemId"] == second
    assert (await tools.worker("a").done())["itemId"] == (first if role == "work" else third)


@EVERY_END
async def test_the_item_has_to_be_named(tools: Tools, agent: Agent, tool: str, given: Json, role: str) -> None:
    """Else the same words could be a repetition, or the end of the next item."""
    item = (await tools.add_many(2))[0]
    await agent.take()
    failure = await agent.refused(tool, next=AT_ONCE, **given)
    assert (failure.code, failure.message) == (
        "VALIDATION_ERROR", "itemId: give it with next: by that a call is known that is repeated"
    )  # fmt: skip
    assert await tools.holder(item) == agent.name


async def test_a_report_without_next_may_be_repeated_with_it(tools: Tools, agent: Agent) -> None:
    first, second = await tools.add_many(2)
    await agent.take()
    await agent.done(result="r")
    for _ in range(2):
        got = await agent.done(itemId=first, result="r", next=AT_ONCE)
        assert (got["itemId"], got["repeated"], got["next"]["item"]["id"]) == (first, True, second)
    await lapse(tools, second, whole=True)
    assert await tools.worker("b").take() == second
    assert (await agent.refused("work_done", itemId=second, next=AT_ONCE)).code == "not_claim_holder"
    assert await tools.holder(second) == "b"


@EVERY_END
async def test_a_refused_end_takes_nothing(tools: Tools, agent: Agent, tool: str, given: Json, role: str) -> None:
    item, _ = await tools.add(priority="high"), await tools.add()
    assert await agent.take() == item
    other = tools.worker("b")
    failure = await other.refused(tool, itemId=item, next={}, **given)
    assert failure.code == "not_claim_holder"
    assert await tools.holder(item) == agent.name
    if tool == "work_done":
        blocker = await tools.add(priority="low")
        await tools.link(blocker, item)
        failure = await agent.refused(tool, itemId=item, next={}, **given)
        assert (failure.code, len(failure.body()["blockers"])) == ("not_ready", 1)
        assert (await agent.next())["item"]["id"] == item
    report = await tools("get_context", agents=True)
    assert [one["id"] for one in report["agents"] if one["state"] == "holding"] == [agent.name]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"tags": "a b c !"}, "next.tags"),
        ({"capabilities": ["Two Words"]}, "next.capabilities"),
        ({"parentId": "no id"}, "next.parentId"),
        ({"parentId": "00000000-0000-4000-8000-000000000000"}, "next.parentId"),
        ({"waitMs": 60_001}, "next.waitMs"),
        ({"ttlSeconds": 0}, "next.ttlSeconds"),
        ({"offset": 3}, "offset"),
    ],
)
async def test_wrong_arguments_of_next_end_nothing(tools: Tools, agent: Agent, wanted: Json, field: str) -> None:
    item = await tools.add()
    await agent.take()
    failure = await agent.refused("work_done", itemId=item, next=wanted)
    assert failure.code in ("VALIDATION_ERROR", "RESOURCE_NOT_FOUND")
    assert field in failure.message
    assert (await tools.role(item), await tools.holder(item)) == ("work", agent.name)


async def test_next_selects_as_work_next_does(tools: Tools, agent: Agent) -> None:
    parent = await tools.add("parent", tags="x")
    child = await tools.add("child", parentId=parent, type="task", tags="b", requires=["gpu"])
    first = await tools.add("first", priority="high")
    assert await agent.take() == first
    wanted = {"parentId": parent[:8], "tags": "a,b", "type": "task", "ttlSeconds": 50}
    got = await agent.done(itemId=first, next={**AT_ONCE, **wanted})
    assert got["next"]["heldBack"] == counts(capabilities=1)
    got = await agent.done(itemId=first, next={**AT_ONCE, **wanted, "capabilities": ["gpu"]})
    assert (got["repeated"], got["next"]["item"]["id"]) == (True, child)
    assert (await agent.done(itemId=child, next=AT_ONCE))["role"] == "terminal"


async def test_capabilities_are_none_if_the_list_is_empty(tools: Tools, agent: Agent) -> None:
    item, _ = await tools.add(priority="high"), await tools.add(requires=["gpu"])
    assert await agent.take(capabilities=["gpu"]) == item
    assert (await agent.done(itemId=item, next={**AT_ONCE, "capabilities": []}))["next"]["outcome"] == "none"


@pytest.mark.parametrize("wait_ms", [0, 30_000])
async def test_the_end_of_a_drained_agent_is_recorded_and_it_is_told_to_stop(
    pair: tuple[Tools, Tools], wait_ms: int
) -> None:
    tools = pair[0]
    item, _ = await tools.add_many(2)
    await tools.worker("a").take()
    await begin_drain(tools.store, tools.project, 1000, "a")
    got = await pair[1].worker("a").done(itemId=item, next={"waitMs": wait_ms})
    assert (got["itemId"], got["role"], got["next"]["outcome"]) == (item, "terminal", "stop")
    assert "drains 'a'" in got["next"]["stopReason"]


@pytest.mark.parametrize("wait_ms", [0, 30_000])
async def test_what_the_end_has_used_counts_for_the_next(store: Store, project: str, wait_ms: int) -> None:
    budgets = Budgets(agents={"bot*": Periods(day=Limits(tokens=100))})
    tools = Tools(store, project, SETTINGS.__class__(budgets=budgets))
    first, second = await tools.add_many(2)
    agent = tools.worker("bot-1")
    await agent.take()
    got = await agent.done(itemId=first, usage={"inputTokens": 120}, next={"waitMs": wait_ms})
    assert (got["itemId"], got["next"]["outcome"], "retryAfterMs" in got["next"]) == (first, "stop", True)
    assert "the budget of the agents 'bot*' for today" in got["next"]["stopReason"]
    assert await tools.holder(second) == ""


async def test_what_the_end_frees_goes_to_who_waits_for_it_first(pair: tuple[Tools, Tools]) -> None:
    tools, other = pair
    first, second = await tools.add(priority="high"), await tools.add()
    await tools.link(first, second)
    await tools.worker("a").take()
    waiting = await parked(other.worker("b"))
    got = await tools.worker("a").done(itemId=first, next=AT_ONCE)
    assert (got["role"], got["next"]["outcome"]) == ("terminal", "none")
    assert (await waiting)["item"]["id"] == second


async def ends_and_waits(agent: Agent, item: str, **more: Any) -> asyncio.Task[Json]:
    """Ends an item by a call that waits for the next one."""
    return await parked(agent, "work_done", next={"waitMs": 60_000}, itemId=item, **more)


async def test_where_there_is_none_the_end_counts_and_the_call_waits(pair: tuple[Tools, Tools]) -> None:
    tools, other = pair
    first = await tools.add()
    await tools.worker("a").take()
    calls = [await ends_and_waits(tools.worker("a"), first, result="r")]
    assert (await tools.role(first), await tools.holder(first)) == ("terminal", "")
    calls.append(await ends_and_waits(other.worker("a"), first, result="r"))
    second = await other.add()
    got = await asyncio.gather(*calls)
    assert [one["next"]["item"]["id"] for one in got] == [second, second]
    assert ["repeated" in one for one in got] == [False, True]
    again = await other.worker("a").done(result="r", next={"waitMs": 60_000}, itemId=first)
    assert (again["itemId"], again["next"]["item"]["id"], again["next"]["held"]) == (first, second, True)
    assert await triggers(tools, first, second) == [["complete", "start"], ["start"]]


async def test_a_wait_after_the_end_ends_with_none(tools: Tools, agent: Agent) -> None:
    item = await tools.add()
    await agent.take()
    assert await agent.done(itemId=item, next={"waitMs": 1}) == {
        "itemId": item,
        "role": "terminal",
        "next": {"outcome": "none"},
    }


async def test_who_hangs_up_has_ended_its_item_and_gets_no_other(pair: tuple[Tools, Tools]) -> None:
    tools, other = pair
    first = await tools.add()
    await tools.worker("a").take()
    call = await ends_and_waits(tools.worker("a"), first)
    call.cancel()
    await asyncio.wait([call])
    second = await other.add()
    assert (await tools.role(first), await other.holder(second), await other.role(second)) == ("terminal", "", "queue")
    got = await other.worker("a").done(itemId=first, next=AT_ONCE)
    assert (got["repeated"], got["next"]["item"]["id"]) == (True, second)


async def test_a_front_end_that_stops_has_the_call_repeated_elsewhere(pair: tuple[Tools, Tools]) -> None:
    tools, other = pair
    first = await tools.add()
    await tools.worker("a").take()
    call = await ends_and_waits(tools.worker("a"), first)
    await tools.claiming.parking.hold(True)
    with pytest.raises(ToolFailure) as failure:
        await call
    assert failure.value.code == "draining"
    second = await other.add()
    got = await other.worker("a").done(next={"waitMs": 60_000}, itemId=first)
    assert (got["itemId"], got["repeated"], got["next"]["item"]["id"]) == (first, True, second)


async def test_sessions_that_share_a_name_end_each_item_once(pair: tuple[Tools, Tools]) -> None:
    """Calls of one agent at once, on two front-ends: nothing is done twice or lost."""
    items = [await pair[n % 2].add(str(n)) for n in range(40)]
    done: list[str] = []

    async def session(number: int) -> None:
        agent = pair[number % 2].worker(f"agent-{number % 3}")
        got: Json = await agent.next(waitMs=200)
        while len(done) < len(items):
            if got["outcome"] != "item":
                got = await agent.next(waitMs=200)
                continue
            agent.tools.agent = agent.name
            ended = await agent.tools.attempt("work_done", itemId=got["item"]["id"], next={"waitMs": 200})
            if isinstance(ended, ToolFailure):
                assert ended.code == "not_claim_holder"
                got = {"outcome": "none"}
                continue
            if "repeated" not in ended:
                done.append(ended["itemId"])
            got = ended["next"]

    await asyncio.gather(*(session(number) for number in range(9)))
    assert sorted(done) == sorted(items)
    assert await triggers(pair[0], *items) == [["complete", "start"]] * len(items)
