"""Pauses of claims: what may go on, what waits, and in which order it is served afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.agents.drains import begin_drain
from coordinator.toolsets.items.store.pauses import pause_claims, resume_claims
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse
from tests.items.parked import Fronts

pytestmark = pytest.mark.anyio

EVENTS = Settings().events_max


async def pause(tools: Client, why: str = "the lab is closed") -> None:
    begun, _ = await pause_claims(tools.store, tools.project, EVENTS, "ops@here", why)
    assert begun


async def resume(tools: Client) -> None:
    assert await resume_claims(tools.store, tools.project, EVENTS) is not None


async def seek(tools: Client, agent: str, **fields: Any) -> Json:
    """A claim by selector; the entry's result."""
    call = {"actor": actor(agent), "claims": [{"selector": {}}], "requestId": fresh_id(), **fields}
    result: Json = (await tools("claim_item", **call))["claimResults"][0]
    return result


def refused(result: Json) -> bool:
    """Whether a claim was refused because of a pause."""
    assert result["outcome"] == "project_paused", result
    assert (result["kind"], result["code"]) == ("transient", "project_paused")
    assert (result["paused"]["reason"], result["paused"]["by"]) == ("the lab is closed", "ops@here")
    assert result["error"] == "the project is paused by ops@here: the lab is closed"
    return 0 < result["retryAfterMs"] <= 60_000


async def test_nothing_begins_and_what_was_begun_goes_on(tools: Client) -> None:
    held, free = await tools.add_many(2)
    first = await tools.claim("a", held)
    await pause(tools)
    for agent in ("a", "b"):
        assert refused(await tools.claim(agent, free))
        assert refused(await seek(tools, agent))
    renewed = await tools.claim("a", held, fenceToken=first["fenceToken"])
    assert renewed["outcome"] == "success"
    assert "stop" not in renewed
    assert (await tools.advance(held, "start", "a"))["applied"]
    note = {"itemId": held, "key": "k", "role": "work", "body": "b", "actor": actor("a")}
    assert (await tools("manage_notes", operation="upsert", notes=[note]))["upserted"] == 1
    assert (await tools.advance(held, "complete", "a"))["applied"]
    assert (await tools.release("a", held))["outcome"] == "success"
    await resume(tools)
    assert (await seek(tools, "b"))["itemId"] == free
    assert (await audit(tools.store, tools.project)).differences == []


async def test_a_pause_is_kept_and_ends_once(tools: Client) -> None:
    await tools.add()
    await pause(tools)
    begun, (_, who, why) = await pause_claims(tools.store, tools.project, EVENTS, "else", "another reason")
    assert (begun, who, why) == (False, "ops@here", "the lab is closed")
    await resume(tools)
    assert await resume_claims(tools.store, tools.project, EVENTS) is None


async def test_the_order_of_outcomes(tools: Client) -> None:
    done, taken, free, own, over = await tools.add_many(5)
    await tools.move(done, "cancel")
    await tools.claim("b", taken)
    await tools.claim("c", over)
    await tools.claim("a", own)
    await pause(tools)
    entries: list[Json] = [{"itemId": item} for item in (done, taken, free, own, fresh_id())]
    results = (await tools.claims("a", entries))["claimResults"]
    outcomes = [result["outcome"] for result in results]
    assert outcomes == ["terminal_item", "already_claimed", "project_paused", "success", "not_found"]
    await lapse(tools, over)  # a claim that is over is no renewal
    assert refused(await tools.claim("c", over))
    await begin_drain(tools.store, tools.project, EVENTS, "a")
    assert (await tools.claim("a", free))["outcome"] == "agent_draining"


async def test_an_answer_is_repeated_after_the_pause(tools: Client) -> None:
    item = await tools.add()
    entries: list[Json] = [{"itemId": item}, {"selector": {}}]
    for entry in entries:
        await pause(tools)
        call = {"actor": actor("a"), "claims": [entry], "requestId": fresh_id()}
        first = await tools("claim_item", **call)
        assert refused(first["claimResults"][0])
        await resume(tools)
        assert await tools("claim_item", **call) == first


async def test_calls_that_wait_are_served_in_their_order(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    before = [await one.park("a"), await other.park("b")]
    await pause(one)
    during = [await one.park("c"), await other.park("d"), await one.park("e")]
    items = await one.add_many(4)
    await other.move(items[0], "block")
    await other.move(items[0], "resume")
    for call in (*before, *during):
        assert call.waits
    await resume(other)
    served = [await call.item() for call in (*before, *during[:2])]
    assert served == items
    assert during[2].waits
    await one.add()
    await during[2].item()


async def test_a_wait_that_ends_during_a_pause_says_so(fronts: Fronts) -> None:
    front = await fronts.make()
    await front.add()
    await pause(front)
    assert refused(await seek(front, "a", waitMs=50))


async def test_many_that_wait_are_all_served(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    await pause(one)
    calls = [(one, other)[n % 2].begin(f"agent-{n}", wait_ms=60_000) for n in range(150)]
    calls += [one.begin(f"kind-{n}", {"type": f"t{n}"}, wait_ms=60_000) for n in range(350)]
    await one.add_many(150)
    for n in range(350):
        await other.add(type=f"t{n}")
    await resume(other)
    found = {await call.item() for call in calls}
    assert len(found) == 500
