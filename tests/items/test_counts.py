"""Counters count each event once, for any number of retries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.metrics.claims import CLAIMS
from coordinator.toolsets.metrics import CLAIM_CONFLICTS
from tests.items.client import Client, actor, fresh_id
from tests.items.moments import lapse
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


KINDS = ("busy", "not_holder", "stale_fence")
LATE = {
    # What has followed the claim -> the answer to who shows its fence: to a renewal, a change, a completion, a release.
    "another agent": ("already_claimed", "not_claim_holder", "not_claim_holder", "not_claimed_by_you"),
    "the same agent": ("stale_fence",) * 4,
    "another agent's, and it ended": ("stale_fence", "stale_fence", "stale_fence", "not_claimed_by_you"),
    "the end of the item": ("terminal_item", "stale_fence", "stale_fence", "not_claimed_by_you"),
}


@pytest.mark.parametrize("after", LATE)
async def test_an_older_fence_counts_as_one_whatever_the_answer(clients: list[Client], after: str) -> None:
    tools, other = clients[:2]
    item = await tools.add()
    fence = (await tools.claim("late", item))["fenceToken"]
    await lapse(tools, item)
    next_one = "late" if after == "the same agent" else "next"
    assert (await other.claim(next_one, item))["outcome"] == "success"
    if "ended" in after:
        await other.release(next_one, item)
    elif "end of" in after:
        await other.advance(item, "complete", next_one)
        await other.release(next_one, item)

    async def renewal() -> str:
        return str((await tools.claim("late", item, fenceToken=fence))["outcome"])

    async def moved(trigger: str) -> str:
        return str((await tools.advance(item, trigger, "late", fenceToken=fence))["errorCode"])

    async def release() -> str:
        return str((await tools.release("late", item, fenceToken=fence, reason="failed"))["outcome"])

    lost = await tools.store.command("HGET", keys.item.key(tools.project, item.replace("-", "")), "lo")
    answers = []
    for number, call in enumerate((renewal(), moved("start"), moved("complete"), release()), start=1):
        before = [conflicts(kind) for kind in KINDS]
        answers.append(await call)
        now = [conflicts(kind) for kind in KINDS]
        assert now == [*before[:2], before[2] + 1], (number, answers)
    assert tuple(answers) == LATE[after]
    assert await tools.store.command("HGET", keys.item.key(tools.project, item.replace("-", "")), "lo") == lost


async def test_who_shows_no_older_fence_is_no_late_one(clients: list[Client]) -> None:
    """Nobody has claimed the item since the claim expired; or another agent holds it, and no fence is shown."""
    tools, other = clients[:2]
    item = await tools.add()
    fence = (await tools.claim("a", item))["fenceToken"]
    await lapse(tools, item)
    before = [conflicts(kind) for kind in KINDS]
    assert (await tools.advance(item, "start", "a", fenceToken=fence))["applied"]
    assert (await tools.release("a", item, fenceToken=fence))["outcome"] == "success"
    assert (await tools.release("a", item, fenceToken=fence))["outcome"] == "not_claimed_by_you"
    assert [conflicts(kind) for kind in KINDS] == before
    await other.claim("b", item)
    assert (await tools.claim("a", item))["outcome"] == "already_claimed"
    assert (await tools.advance(item, "start", "a"))["errorCode"] == "not_claim_holder"
    assert (await tools.release("a", item))["outcome"] == "not_claimed_by_you"
    assert [conflicts(kind) for kind in KINDS] == [before[0] + 1, before[1] + 1, before[2]]


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
