"""Calls of ``work_next`` that wait, over two front-ends: handed an item, repeated, hung up, drained."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.toolsets.items.store.agents.drains import begin_drain
from coordinator.toolsets.items.store.pauses import pause_claims, resume_claims
from coordinator.toolsets.tool import Delivery
from tests.items.moments import server_time
from tests.support.wait import wait_until
from tests.worker.client import LONG_MS, Agent, Tools, parked

pytestmark = pytest.mark.anyio


async def test_whoever_has_waited_longest_gets_the_item_started(pair: tuple[Tools, Tools]) -> None:
    first, second = await parked(pair[0].worker("a")), await parked(pair[1].worker("b"))
    item = await pair[1].add("one")
    got = await first
    assert (got["outcome"], got["item"]["id"], "held" in got) == ("item", item, False)
    assert (await pair[1].role(item), await pair[1].holder(item)) == ("work", "a")
    assert not second.done()
    await pair[0].worker("a").failed()
    got = await second
    assert (got["item"]["id"], got["takeover"]) == (item, True)


async def test_a_repeated_call_waits_with_the_first_one_and_both_get_the_item(pair: tuple[Tools, Tools]) -> None:
    calls = [await parked(front.worker("a")) for front in pair]
    item = await pair[0].add()
    await pair[0].add()
    answers = await asyncio.gather(*calls)
    assert [got["item"]["id"] for got in answers] == [item, item]
    assert await pair[1].holder(item) == "a"


async def test_of_repeated_calls_the_later_one_says_what_is_wanted(pair: tuple[Tools, Tools]) -> None:
    calls = [await parked(pair[n].worker("a"), tags=tag) for n, tag in enumerate(("x", "y"))]
    await pair[0].add(tags="x")
    wanted = await pair[0].add(tags="y")
    assert [(await call)["item"]["id"] for call in calls] == [wanted, wanted]


async def test_a_call_that_does_not_wait_ends_the_wait_with_its_item(pair: tuple[Tools, Tools]) -> None:
    call = await parked(pair[0].worker("a"), tags="rare")
    item = await pair[1].add(tags="common")
    assert await pair[1].worker("a").take(tags="common") == item
    assert (await call)["item"]["id"] == item
    assert await pair[1].holder(item) == "a"


async def test_a_wait_ends_with_none(tools: Tools, agent: Agent) -> None:
    assert await agent.next(waitMs=1) == {"outcome": "none"}


async def test_who_hangs_up_gets_nothing(pair: tuple[Tools, Tools]) -> None:
    call = await parked(pair[0].worker("gone"))
    call.cancel()
    await asyncio.wait([call])
    item = await pair[1].add()
    assert await pair[1].holder(item) == ""
    assert (await pair[1].role(item)) == "queue"


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_item_whose_answer_does_not_arrive_is_given_back(pair: tuple[Tools, Tools], at_once: bool) -> None:
    tools, other = pair
    delivery = tools.delivery = Delivery()
    if at_once:
        item = await other.add()
        await tools.worker("gone").next(waitMs=LONG_MS)
    else:
        call = await parked(tools.worker("gone"))
        item = await other.add()
        await call
    tools.delivery = None
    assert await other.holder(item) == "gone"
    await delivery.end()
    assert await other.holder(item) == ""
    assert "attempts" not in await other.get(item)
    assert await other.worker("b").take() == item


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_item_that_a_repeated_call_has_got_is_kept(pair: tuple[Tools, Tools], at_once: bool) -> None:
    tools, other = pair
    delivery = tools.delivery = Delivery()
    if at_once:
        item = await other.add()
        await tools.worker("a").next(waitMs=LONG_MS)
    else:
        call = await parked(tools.worker("a"))
        item = await other.add()
        await call
    tools.delivery = None
    now = await server_time(tools.store)

    async def later() -> bool:
        return await server_time(tools.store) > now

    await wait_until(later, what="the renewal to have a time of its own")
    assert (await other.worker("a").next(waitMs=LONG_MS))["held"]
    await delivery.end()
    assert await other.holder(item) == "a"


async def test_a_drained_agent_keeps_its_item_and_gets_no_other(pair: tuple[Tools, Tools]) -> None:
    tools = pair[0]
    item = await tools.add()
    await tools.worker("a").take()
    waiting = await parked(pair[1].worker("b"))
    for name in ("a", "b"):
        await begin_drain(tools.store, tools.project, 1000, name)
    got = await tools.worker("a").next()
    assert (got["item"]["id"], got["stop"]) == (item, True)
    await tools.worker("a").done()
    await tools.add()
    assert (await tools.worker("a").next(waitMs=1))["outcome"] == "stop"
    assert (await waiting)["outcome"] == "stop"


async def test_many_agents_that_wait_work_each_item_off_once(pair: tuple[Tools, Tools]) -> None:
    done: list[str] = []

    async def work(agent: Agent) -> None:
        while len(done) < 60:
            got = await agent.next(waitMs=500)
            if got["outcome"] == "item":
                done.append(got["item"]["id"])
                await agent.done(result=got["item"]["title"])

    working = [asyncio.create_task(work(pair[n % 2].worker(f"agent-{n}"))) for n in range(10)]
    items = [await pair[n % 2].add(str(n)) for n in range(60)]
    await asyncio.gather(*working)
    assert sorted(done) == sorted(items)


async def test_calls_of_one_agent_at_once_work_on_one_item(pair: tuple[Tools, Tools]) -> None:
    """Sessions that share a name by mistake, each with calls that wait: nothing is done twice, held twice or lost."""
    items = [await pair[n % 2].add(str(n)) for n in range(40)]
    done: list[str] = []

    async def session(number: int) -> None:
        agent = pair[number % 2].worker(f"agent-{number % 3}")
        while len(done) < len(items):
            got = await agent.next(waitMs=200)
            if got["outcome"] != "item":
                continue
            agent.tools.agent = agent.name
            ended = await agent.tools.attempt("work_done", itemId=got["item"]["id"])
            if isinstance(ended, ToolFailure):
                assert ended.code == "not_claim_holder"
            elif "repeated" not in ended:
                done.append(ended["itemId"])

    await asyncio.gather(*(session(number) for number in range(9)))
    assert sorted(done) == sorted(items)
    for item in items:
        triggers = [one["trigger"] for one in (await pair[0].get(item))["transitions"]]
        assert triggers == ["complete", "start"]


async def test_a_paused_project_gives_nothing_new_and_serves_those_that_wait_afterwards(
    pair: tuple[Tools, Tools],
) -> None:
    one, other = pair
    begun, waiting = one.worker("a"), other.worker("b")
    held = await one.add()
    await begun.take()
    call = await parked(waiting)
    await pause_claims(one.store, one.project, Settings().events_max, "ops", "the lab is closed")
    item = await one.add()
    assert (await begun.next())["item"]["id"] == held
    assert not call.done()
    refused = await one.worker("c").next()
    assert (refused["outcome"], refused["paused"]["reason"]) == ("none", "the lab is closed")
    assert 0 < refused["retryAfterMs"] <= 60_000
    ended = await begun.done(itemId=held, next={"waitMs": 0})
    assert (ended["next"]["outcome"], ended["next"]["paused"]["by"]) == ("none", "ops")
    assert await other.role(held) == "terminal"
    await resume_claims(other.store, other.project, Settings().events_max)
    assert (await call)["item"]["id"] == item
