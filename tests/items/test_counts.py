"""Counters count each event once, for any number of retries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.metrics.catalogue import CLAIM_CONFLICTS, CLAIMS
from tests.items.client import Client, actor, fresh_id
from tests.items.parked import LONG_MS, Fronts
from tests.items.selectors import call_of
from tests.support.counts import counted
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


def claims(outcome: str = "success") -> float:
    return counted(CLAIMS, outcome)


def conflicts(kind: str) -> float:
    return counted(CLAIM_CONFLICTS, kind)


def claim(agent: str, item: str, **more: Any) -> dict[str, Any]:
    return {"actor": actor(agent), "requestId": fresh_id(), "claims": [{"itemId": item, **more}]}


async def test_a_repeated_claim_counts_once(tools: Client) -> None:
    before = claims()
    call = claim("agent", await tools.add())
    for _ in range(3):
        await tools("claim_item", **call)
    call = call_of("agent")
    await tools.add()
    for _ in range(3):
        await tools("claim_item", **call)
    assert claims() == before + 2
    await tools("claim_item", **{**call, "requestId": fresh_id(), "claims": [{"selector": {"tags": "none"}}]})
    assert claims() == before + 2


async def test_a_repeated_collision_counts_once(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("holder", item)
    busy, losers, stale = conflicts("busy"), claims("already_claimed"), conflicts("stale_fence")
    call = claim("other", item)
    for _ in range(3):
        await tools("claim_item", **call)
    assert (conflicts("busy"), claims("already_claimed")) == (busy + 1, losers + 1)
    transition = {"itemId": item, "trigger": "start", "actor": actor("holder"), "fenceToken": 1}
    moving = {"transitions": [transition], "requestId": fresh_id()}
    for _ in range(3):
        (result,) = (await tools("advance_item", **moving))["results"]
        assert result["errorCode"] == "stale_fence"
    assert conflicts("stale_fence") == stale + 1


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_claim_that_waited_counts_once_for_all_its_calls(fronts: Fronts, elsewhere: bool) -> None:
    tools, other = await fronts.pair()
    before = claims()
    call = await tools.park("agent")
    again = [await (other if elsewhere else tools).park("agent", request_id=call.request_id) for _ in range(2)]
    item = await tools.add()
    assert await asyncio.gather(call.item(), *(one.item() for one in again)) == [item] * 3
    await wait_until(lambda: claims() > before, what="the claim to be counted")
    late = await other("claim_item", **call_of("agent", request_id=call.request_id, wait_ms=LONG_MS))
    assert late["claimResults"][0]["itemId"] == item
    there = await tools.add()
    assert await other.begin("another", wait_ms=LONG_MS).item() == there
    assert claims() == before + 2
