"""The order of service: longest waiting first, each once, over several front-ends and selectors."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from coordinator.store import keys
from tests.items.client import Client, Json
from tests.items.moments import lapse, ms
from tests.items.parked import Fronts, Parked
from tests.items.selectors import take
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

SUITABLE: Json = {"tags": "api", "priority": "high", "complexity": 2, "type": "bug"}
SELECTORS: list[Json] = [
    {},
    {"tags": "api"},
    {"priority": "high", "orderBy": "oldest"},
    {"type": "bug", "complexityMax": 2},
    {"orderBy": "newest"},
]
"""All of them match the item above."""


async def claims_made(tools: Client) -> int:
    """How many claims the project has ever seen."""
    entries = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    return sum(fields[fields.index(b"k") + 1] == b"claim" for _, fields in entries)


async def test_in_order_of_arrival_over_front_ends_and_selectors(fronts: Fronts) -> None:
    pair = await fronts.pair()
    calls = [await pair[number % 2].park(f"agent-{number}", SELECTORS[number % len(SELECTORS)]) for number in range(12)]
    for number, call in enumerate(calls):
        item = await pair[number % 2].add(**SUITABLE)
        assert await call.item() == item
        assert [other.agent for other in calls if not other.waits] == [other.agent for other in calls[: number + 1]]


async def test_one_item_wakes_one(fronts: Fronts) -> None:
    pair = await fronts.pair()
    calls = [await pair[number % 2].park(f"agent-{number}") for number in range(30)]
    before = [front.runs["claim_next"] for front in pair]
    for call in calls[:4]:
        item = await pair[0].add()
        assert await call.item() == item
    assert [call.agent for call in calls if not call.waits] == [call.agent for call in calls[:4]]
    assert [front.runs["claim_next"] for front in pair] == before, "nobody retried"
    assert await claims_made(pair[0]) == 4


async def test_items_without_a_waiting_match_go_to_later_calls(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    first = await tools.park("first", {"tags": "api"})
    second = await other.park("second")
    item = await tools.add(tags="ui")
    assert await second.item() == item
    assert first.waits
    assert await other.add(tags="api") == await first.item()


async def test_the_best_of_several_items_goes_to_the_first_waiter(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    calls = [await front.park(f"agent-{n}") for n, front in enumerate((tools, other, tools, other, tools))]
    made = await tools.create(*({"title": priority, "priority": priority} for priority in ("low", "high", "medium")))
    by_priority = {item["title"]: item["id"] for item in made["items"]}
    assert [await call.item() for call in calls[:3]] == [by_priority[name] for name in ("high", "medium", "low")]
    assert calls[3].waits
    assert calls[4].waits
    assert await tools.next() == []


async def test_the_first_of_equal_items_by_id_goes_to_the_first_waiter(fronts: Fronts) -> None:
    """As in searches."""
    tools, other = await fronts.pair()
    calls = [await front.park(f"agent-{n}") for n, front in enumerate((tools, other, tools, other))]
    items = await tools.add_many(4)
    assert [await call.item() for call in calls] == sorted(items)


async def test_a_call_that_does_not_wait_does_not_overtake(fronts: Fronts) -> None:
    """No item is left for it while somebody waits."""
    tools, other = await fronts.pair()
    call = await other.park("waiter")
    item, outcome = await asyncio.gather(tools.add(), take(tools, "hasty"))
    assert await call.item() == item
    assert outcome["outcome"] == "no_match"


@pytest.mark.parametrize("count", [1, 12])
async def test_a_call_that_sweeps_expired_claims_does_not_overtake(fronts: Fronts, count: int) -> None:
    """Also if one run cannot hand out all items with expired claims."""
    pair = await fronts.pair()
    items = await pair[0].add_many(count)
    for number, item in enumerate(items):
        await pair[0].claim(f"holder-{number}", item)
    calls = [await pair[number % 2].park(f"agent-{number}") for number in range(count)]
    for item in items:
        await lapse(pair[0], item)
    assert (await take(pair[0], "hasty"))["outcome"] == "no_match"
    assert {await call.item() for call in calls} == set(items)


async def test_an_item_is_handed_on_when_its_new_holder_releases_it(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    calls = [await front.park(f"agent-{n}") for n, front in enumerate((tools, other, tools))]
    item = await tools.add()
    for call in calls:
        assert await call.item() == item
        assert (await other.release(call.agent, item))["outcome"] == "success"
    assert await tools.next() == [item]


async def test_an_agent_that_waits_twice_ends_up_with_one_item(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    calls: list[Parked] = [
        await tools.park("twin"),
        await other.park("twin", {"tags": "api"}),
        await tools.park("next"),
    ]
    first = await tools.add()
    assert await calls[0].item() == first
    second = await other.add(tags="api")
    assert await calls[1].item() == second
    assert await calls[2].item() == first, "the twin released it"
    assert (await tools.release("twin", first))["outcome"] == "not_claimed_by_you"
    assert (await tools.release("twin", second))["outcome"] == "success"


async def test_many_items_for_twins_in_one_call(fronts: Fronts) -> None:
    """Items rotate within one script: each agent keeps the last one it got."""
    pair = await fronts.pair()
    calls = [await pair[number % 2].park(f"agent-{number % 3}") for number in range(8)]
    await pair[0].add_many(6)
    answers = [await call.item() for call in calls]
    last = {call.agent: item for call, item in zip(calls, answers, strict=True)}
    entries = (await pair[0]("get_next_item", limit=9, includeClaimed=True))["recommendations"]
    assert {entry["itemId"] for entry in entries if entry["isClaimed"]} == set(last.values())
    assert len(entries) == 6
    for agent, item in last.items():
        assert (await pair[0].release(agent, item))["outcome"] == "success"


async def test_a_handed_over_claim_is_a_normal_claim(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    parent = await tools.add(role="work")
    call = await other.park("waiter", {"parentId": parent}, ttlSeconds=77, claimRef="ref-1")
    item = await tools.add(parentId=parent)
    claim = await call.claim()
    assert ms(claim["claimExpiresAt"]) - ms(claim["claimedAt"]) == 77_000
    assert claim == {
        "itemId": item,
        "outcome": "success",
        "selectorResolved": True,
        "role": "queue",
        "claimRef": "ref-1",
        "claimedBy": "waiter",
        "claimedAt": claim["claimedAt"],
        "claimExpiresAt": claim["claimExpiresAt"],
        "originalClaimedAt": claim["claimedAt"],
        "fenceToken": claim["fenceToken"],
    }
    assert (await tools.advance(item, "start", "rival"))["errorCode"] == "not_claim_holder"
    assert (await tools.advance(item, "start", "waiter", fenceToken=claim["fenceToken"]))["applied"]


async def test_nobody_polls(fronts: Fronts) -> None:
    """A front-end maintains all its parked calls with one short script per second."""
    other = await fronts.make()
    for number in range(20):
        await other.park(f"agent-{number}", {"tags": "api"} if number % 2 else {})
    before, began = other.runs.copy(), time.monotonic()

    async def ticked() -> bool:
        return other.runs["sweep_claims"] >= before["sweep_claims"] + 2

    await wait_until(ticked, what="two looks at the clock")
    spent: dict[str, Any] = dict(other.runs - before)
    assert spent.keys() == {"sweep_claims"}
    assert spent["sweep_claims"] <= time.monotonic() - began + 1
