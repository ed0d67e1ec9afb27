"""advance_item: only the holder moves an item with a live claim; fence tokens."""

from __future__ import annotations

import pytest

from tests.items.client import Client
from tests.items.moments import fence_of, lapse

pytestmark = pytest.mark.anyio

TRIGGERS = {
    "start": "queue",
    "complete": "work",
    "block": "work",
    "hold": "work",
    "resume": "blocked",
    "cancel": "queue",
    "reopen": "terminal",
}


async def held(tools: Client, trigger: str) -> str:
    """An item that can take the trigger, claimed by 'holder'."""
    item = await tools.add()
    await tools.claim("holder", item, ttlSeconds=600)
    way = {"queue": [], "work": ["start"], "blocked": ["block"], "terminal": ["complete"]}[TRIGGERS[trigger]]
    for step in way:
        assert (await tools.advance(item, step, "holder"))["applied"]
    return item


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("agent", ["", "rival", "HOLDER"])
async def test_every_trigger_of_another_agent_is_refused(tools: Client, trigger: str, agent: str) -> None:
    item = await held(tools, trigger)
    before = await tools.get(item)
    result = await tools.advance(item, trigger, agent)
    error = result.pop("error")
    assert result == {
        "itemId": item,
        "trigger": trigger,
        "applied": False,
        "errorKind": "permanent",
        "errorCode": "not_claim_holder",
        "contendedItemId": item,
    }
    problem = "it is claimed by a different agent" if agent else "actor is required"
    assert error.startswith(f"Cannot apply '{trigger}': {problem}; the claim expires at 2")
    assert error.endswith("Z")
    assert "holder" not in error
    assert await tools.get(item) == before


@pytest.mark.every_store
@pytest.mark.parametrize("trigger", TRIGGERS)
async def test_the_holder_may(tools: Client, trigger: str) -> None:
    item = await held(tools, trigger)
    assert (await tools.advance(item, trigger, "holder"))["applied"]


@pytest.mark.parametrize("agent", ["", "rival"])
@pytest.mark.parametrize("end", ["expired", "released"])
async def test_without_a_live_claim_any_agent_may(tools: Client, agent: str, end: str) -> None:
    item = await held(tools, "complete")
    if end == "expired":
        await lapse(tools, item)
    else:
        await tools.release("holder", item)
    assert (await tools.advance(item, "complete", agent))["applied"]


async def test_completing_does_not_end_the_claim(tools: Client) -> None:
    item = await held(tools, "reopen")
    assert (await tools.advance(item, "reopen", "rival"))["errorCode"] == "not_claim_holder"
    assert (await tools.advance(item, "reopen", "holder"))["applied"]
    assert await tools.next() == []


async def test_ownership_comes_before_other_refusals(tools: Client) -> None:
    item = await held(tools, "start")
    assert (await tools.advance(item, "reopen", "rival"))["errorCode"] == "not_claim_holder"


async def test_a_rejected_element_does_not_stop_the_others(tools: Client) -> None:
    item, free = await held(tools, "start"), await tools.add()
    transitions = [{"itemId": each, "trigger": "start"} for each in (item, free)]
    answer = await tools("advance_item", transitions=transitions)
    assert [result["applied"] for result in answer["results"]] == [False, True]


@pytest.mark.parametrize("trigger", TRIGGERS)
async def test_a_stale_fence_is_rejected(tools: Client, trigger: str) -> None:
    item = await held(tools, trigger)
    await lapse(tools, item)
    fence = await fence_of(tools, item)
    if trigger != "reopen":  # terminal items cannot be claimed
        assert (await tools.claim("holder", item))["fenceToken"] > fence
        stale, fence = fence, await fence_of(tools, item)
    else:
        stale = fence - 1
    before = await tools.get(item)
    result = await tools.advance(item, trigger, "holder", fenceToken=stale)
    assert "fenceToken is not that of the item's present claim" in result.pop("error")
    assert result == {
        "itemId": item,
        "trigger": trigger,
        "applied": False,
        "errorKind": "permanent",
        "errorCode": "stale_fence",
        "contendedItemId": item,
    }
    assert await tools.get(item) == before
    assert (await tools.advance(item, trigger, "holder", fenceToken=fence))["applied"]


async def test_a_fence_without_any_claim_is_rejected(tools: Client) -> None:
    item = await tools.add()
    assert (await tools.advance(item, "start", fenceToken=1))["errorCode"] == "stale_fence"


async def test_the_fence_of_a_lapsed_claim_is_accepted_until_a_takeover(tools: Client) -> None:
    item = await held(tools, "complete")
    fence = await fence_of(tools, item)
    await lapse(tools, item)
    assert (await tools.advance(item, "complete", "holder", fenceToken=fence))["applied"]
