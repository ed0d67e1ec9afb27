"""Claims that an operator ends: the item, its late holder, parked calls, history, attempts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.store import keys
from coordinator.store.idempotency import NO_KEY, IdempotencyKey, idempotency_key
from coordinator.toolsets.actor import ActorEcho, Trusted, Verification, attribution
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.end_claim import ClaimEnder, EndedClaim
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse
from tests.items.parked import Fronts

pytestmark = pytest.mark.anyio

STRICT = Settings(attempts=Attempts(max=2, backoff_seconds=0))
ADA = attribution(Trusted("ada", ActorEcho("ada", "user"), Verification("verified", "bearer", None)))


def inner(item: str) -> str:
    return item.replace("-", "")


async def end(tools: Client, item: str, request: IdempotencyKey = NO_KEY, **more: Any) -> EndedClaim:
    ender = ClaimEnder(tools.store, STRICT, SchemaSource(schema_config(STRICT)))
    return await ender.end_claim(tools.project, request, inner(item), ADA, "it hangs", **more)


async def claimed(tools: Client, agent: str, item: str, **fields: Any) -> Json:
    call = {"actor": actor(agent), "claims": [{"itemId": item}], "requestId": fresh_id(), **fields}
    result: Json = (await tools("claim_item", **call))["claimResults"][0]
    return result


async def in_work(tools: Client) -> tuple[str, int]:
    """An item in work that agent a holds, and the fence of the claim."""
    item = await tools.add()
    claim = await claimed(tools, "a", item)
    await tools.advance(item, "start", actor=actor("a"))
    return item, claim["fenceToken"]


async def test_the_claim_ends_and_its_holder_cannot_write(clients: list[Client]) -> None:
    tools, elsewhere, _ = clients
    item, fence = await in_work(tools)
    assert await end(elsewhere, item) == ("ended", "a", fence, 1)
    late = {"itemId": item, "trigger": "complete", "actor": actor("a"), "fenceToken": fence}
    (refused,) = (await tools("advance_item", transitions=[late], requestId=fresh_id()))["results"]
    assert (refused["applied"], "fence" in refused["error"]) == (False, True)
    assert await tools.role(item) == "work"
    renewal = [{"itemId": item, "fenceToken": fence}]
    call = {"actor": actor("a"), "claims": renewal, "requestId": fresh_id()}
    assert (await tools("claim_item", **call))["claimResults"][0]["outcome"] == "stale_fence"
    released = await tools("claim_item", actor=actor("a"), releases=renewal, requestId=fresh_id())
    assert released["releaseResults"][0]["outcome"] == "not_claimed_by_you"
    taken = await claimed(elsewhere, "b", item)
    assert (taken["outcome"], taken["takeover"], taken["role"]) == ("success", True, "work")
    assert taken["fenceToken"] > fence + 1
    assert (await audit(tools.store, tools.project)).differences == []


async def test_the_history_and_the_feed_tell_of_it(tools: Client) -> None:
    item, fence = await in_work(tools)
    await end(tools, item)
    full = await tools.get(item)
    first, start = full["transitions"]
    assert {**first, "at": ""} == {
        "fromRole": "work", "toRole": "work", "trigger": "end_claim", "at": "", "summary": "it hangs",
        "actor": {"id": "ada", "kind": "user"}, "verification": first["verification"],
    }  # fmt: skip
    assert first["verification"]["status"] == "verified"
    assert start["trigger"] == "start"
    assert full["roleChangedAt"] == start["at"]
    assert "attempts" not in full
    stream = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    flat = [word.decode() for word in stream[-1][1]]
    released = dict(zip(flat[::2], flat[1::2], strict=True))
    assert released == {"k": "release", "i": inner(item), "a": "a", "f": str(fence), "r": "handed_back", "b": "user"}


async def test_as_a_failure_it_counts_and_quarantines(tools: Client) -> None:
    strict = Client(tools.store, tools.project, settings=STRICT)
    item, _ = await in_work(strict)
    assert (await end(strict, item, failed=True)).outcome == "ended"
    attempts = (await strict.get(item))["attempts"]
    assert (attempts["count"], attempts["last"][0]["reason"], attempts["last"][0]["detail"]) == (
        1,
        "failed",
        "it hangs",
    )
    await claimed(strict, "b", item)
    ended = await end(strict, item, failed=True)
    assert (ended.outcome, ended.agent, ROLE_NAMES[ended.role]) == ("ended", "b", "blocked")
    full = await strict.get(item)
    assert (full["role"], full["statusLabel"]) == ("blocked", "quarantined")
    assert [change["trigger"] for change in full["transitions"]][:2] == ["quarantine", "end_claim"]
    assert (await audit(tools.store, tools.project)).differences == []


async def test_a_parked_call_gets_the_item_in_the_same_step(fronts: Fronts, tools: Client) -> None:
    front = await fronts.make()
    item, fence = await in_work(tools)
    waiting = await front.park("b")
    await end(tools, item)
    claim = await waiting.claim()
    assert (claim["itemId"], claim["takeover"]) == (item, True)
    assert claim["fenceToken"] > fence


async def test_only_the_claim_that_was_meant(tools: Client) -> None:
    item, fence = await in_work(tools)
    assert await end(tools, item, fence=fence - 1) == ("stale_fence", "a", fence, 1)
    assert (await end(tools, item, fence=fence)).outcome == "ended"
    assert (await end(tools, item)).outcome == "not_claimed"
    assert (await end(tools, await tools.add())).outcome == "not_claimed"
    assert (await end(tools, fresh_id())).outcome == "not_found"
    item, _ = await in_work(tools)
    await lapse(tools, item)
    assert (await end(tools, item)).outcome == "not_claimed"
    assert [change["trigger"] for change in (await tools.get(item))["transitions"]] == ["start"]


@pytest.mark.parametrize("role", ["queue", "work", "review", "terminal", "blocked"])
@pytest.mark.parametrize("failed", [False, True])
async def test_in_any_role(tools: Client, role: str, failed: bool) -> None:
    """Also of an item that waits for another one, that was taken over, and with claims on items below it."""
    strict = Client(tools.store, tools.project, settings=STRICT)
    blocker, parent = await strict.add(), await strict.add()
    item = await strict.add(role=role, parentId=parent, tags="t")
    await strict.add(parentId=item)
    if role != "terminal":
        await strict.link(blocker, item)
        assert (await claimed(strict, "a", item))["outcome"] == "success"
        await lapse(strict, item)
        fence = (await claimed(strict, "b", item))["fenceToken"]
    else:
        await strict.advance(item, "reopen")
        fence = (await claimed(strict, "b", item))["fenceToken"]
        await strict.advance(item, "cancel", actor=actor("b"))
    ended = await end(strict, item, failed=failed)
    assert (ended.outcome, ended.agent, ended.fence) == ("ended", "b", fence)
    assert (await end(strict, item)).outcome == "not_claimed"
    context = await strict("get_context", itemId=item)
    assert "claimedBy" not in context
    assert (await audit(tools.store, tools.project)).differences == []


async def test_one_of_two_operators_ends_it(clients: list[Client]) -> None:
    tools, elsewhere, _ = clients
    item, _ = await in_work(tools)
    both = await asyncio.gather(end(tools, item), end(elsewhere, item))
    assert sorted(one.outcome for one in both) == ["ended", "not_claimed"]
    assert [change["trigger"] for change in (await tools.get(item))["transitions"]] == ["end_claim", "start"]


async def test_a_repeated_request_has_no_second_effect(tools: Client) -> None:
    item, _ = await in_work(tools)
    request = idempotency_key("ada", fresh_id(), "end_claim", item)
    first = await end(tools, item, request)
    await claimed(tools, "b", item)
    assert await end(tools, item, request) == first
    assert (await end(tools, item)).agent == "b"
