"""Releases of the item that a claim of another one gives up."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from tests.items.attempts import attempts, begun, must_be_sound
from tests.items.client import LONG_MS, Client, Json, actor, fresh_id
from tests.items.parked import Fronts
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("how", ["itemId", "selector", "waits"])
async def test_what_is_said_of_the_item_that_a_claim_gives_up_counts(fronts: Fronts, how: str) -> None:
    """The same for a claim that gets another item at once, and for one that has waited for it."""
    front = await fronts.make(
        settings=Settings(request_deadline_ms=LONG_MS, attempts=Attempts(max=3, backoff_seconds=600))
    )
    item = await begun(front)
    other = "" if how == "waits" else await front.add("other")
    said = {"itemId": item, "reason": "failed", "detail": "broken", "usage": {"inputTokens": 7}}
    claim: Json = {"itemId": other} if how == "itemId" else {"selector": {}}
    again = {**said, "reason": "gave_up"}
    call: Json = {"actor": actor("lost"), "requestId": fresh_id(), "claims": [claim], "releases": [said, again]}
    calling = asyncio.create_task(front("claim_item", **call, waitMs=60_000 if how == "waits" else 0))
    if how == "waits":

        async def counted() -> bool:
            return "attempts" in await front.get(item)

        await wait_until(counted, what="the call to have made its releases")
        other = await front.add("other")
    answer = await calling
    assert answer["claimResults"][0]["itemId"] == other
    assert [one["outcome"] for one in answer["releaseResults"]] == ["success", "not_claimed_by_you"]
    record = await attempts(front, item)
    assert (record["count"], record["last"][0]["ended"], record["last"][0]["detail"]) == (1, "released", "broken")
    assert (await front.get(item))["usage"]["own"]["inputTokens"] == 7
    assert (await front("claim_item", **call, waitMs=60_000 if how == "waits" else 0)) == answer
    await must_be_sound(front)


async def test_a_renewal_and_a_claim_that_fails_come_before_releases(tools: Client) -> None:
    item, held = await begun(tools, "lost"), await begun(tools, "holder")
    for claim in ({"itemId": item}, {"itemId": held}):
        answer = await tools.claims("lost", [claim], [{"itemId": item, "reason": "failed"}])
        outcomes = answer["claimResults"][0]["outcome"], answer["releaseResults"][0]["outcome"]
        assert outcomes == ("success" if claim["itemId"] == item else "already_claimed", "success")
        await tools.claim("lost", item)
    assert (await attempts(tools, item))["count"] == 2
