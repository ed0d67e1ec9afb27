"""What has ended holds nothing: the record of its claim is there until that would have ended, and matters to nobody."""

from __future__ import annotations

from typing import get_args

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.store.boards.claim_lists import ClaimList, read_claims
from tests.items.client import Client
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.selectors import take

pytestmark = pytest.mark.anyio


async def finished(tools: Client, agent: str, **fields: str) -> str:
    """An item that an agent has claimed and completed."""
    item = await tools.add(**fields)
    await tools.claim(agent, item)
    await tools.advance(item, "complete", agent)
    return item


async def kinds(tools: Client) -> list[bytes]:
    entries = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    return [fields[fields.index(b"k") + 1] for _, fields in entries]


async def test_the_record_stays_as_the_contract_has_it(tools: Client) -> None:
    root = await tools.add()
    item = await finished(tools, "ann", parentId=root)
    assert (await tools("get_context", itemId=item))["claimDetail"]["claimedBy"] == "ann"
    assert (await tools("get_context"))["claimSummary"] == {"active": 1, "expired": 0}
    (shown,) = (await tools("query_items", operation="overview"))["items"]
    assert shown["claimSummary"] == {"active": 1, "expired": 0, "unclaimed": 0}
    assert (await tools.advance(item, "reopen", "bob"))["errorCode"] == "not_claim_holder"
    assert (await tools.release("ann", item))["outcome"] == "success"
    assert (await tools("get_context"))["claimSummary"] == {"active": 0, "expired": 0}
    assert not (await audit(tools.store, tools.project)).differences


async def test_its_end_by_time_is_no_expiry(tools: Client) -> None:
    root = await tools.add()
    item = await finished(tools, "ann", parentId=root)
    before = await kinds(tools)
    await lapse(tools, item)
    assert await kinds(tools) == before, "no event tells of it"
    assert "claimDetail" not in await tools("get_context", itemId=item)
    assert (await tools("get_context"))["claimSummary"] == {"active": 0, "expired": 0}
    (shown,) = (await tools("query_items", operation="overview"))["items"]
    assert shown["claimSummary"] == {"active": 0, "expired": 0, "unclaimed": 1}
    assert (await tools.release("ann", item))["outcome"] == "not_claimed_by_you"
    assert (await tools.advance(item, "reopen", "bob"))["applied"]
    assert not (await audit(tools.store, tools.project)).differences


async def test_children_are_offered_at_once_and_the_longest_waiting_call_is_served(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    root = await tools.add()
    await tools.claim("ann", root)
    child, second = await tools.add_many(2, parentId=root)
    calls = [await (tools, other)[number].park(f"agent-{number}") for number in range(2)]
    third = await tools.park("late")
    await tools.advance(root, "complete", "ann")
    assert [await call.item() for call in calls] == [child, second]
    assert third.waits
    assert (await take(tools, "ann"))["outcome"] == "no_match", "who has waited longer has got it"


async def test_an_agent_that_goes_away_with_its_last_item_leaves_nothing_held(tools: Client) -> None:
    root = await tools.add()
    await tools.claim("gone", root)
    child = await tools.add(parentId=root)
    await tools.advance(root, "complete", "gone")
    assert await tools.next(limit=9) == [child]
    assert (await take(tools, "agent"))["itemId"] == child


async def test_no_list_of_agents_and_claims_has_it(tools: Client) -> None:
    item = await finished(tools, "ann")
    agents = (await tools("get_context", agents=True))["agents"]
    assert [(one["id"], one["state"]) for one in agents] == [("ann", "idle")]
    assert await tools.store.command("ZCOUNT", keys.leases.key(tools.project), "-inf", 2**42) == 0
    await tools.claim("ann", await tools.add())
    assert not (await tools("get_context", itemId=item)).get("claimDetail"), "the next claim releases it"


async def test_reopened_by_its_holder_it_is_held_again(tools: Client) -> None:
    root = await tools.add()
    await tools.claim("ann", root)
    child = await tools.add(parentId=root)
    await tools.advance(root, "complete", "ann")
    assert (await tools.advance(root, "reopen", "ann"))["applied"]
    assert await tools.next(limit=9) == []
    assert (await take(tools, "bob"))["outcome"] == "no_match"
    assert not (await audit(tools.store, tools.project)).differences
    await lapse(tools, root)
    assert (await take(tools, "bob"))["itemId"] == child
    assert b"expire" in await kinds(tools)
    assert not (await audit(tools.store, tools.project)).differences


async def test_an_item_ended_by_its_children_holds_nothing(tools: Client) -> None:
    """A cascade ends it in spite of its claim."""
    root = await tools.add()
    parent = await tools.add(parentId=root)
    await tools.claim("ann", parent)
    child = await tools.add(parentId=parent)
    other = await tools.add(parentId=root)
    assert (await tools.advance(child, "complete"))["cascadeEvents"][0]["itemId"] == parent
    assert await tools.store.command("ZCOUNT", keys.leases.key(tools.project), "-inf", 2**42) == 0
    assert (await take(tools, "bob"))["itemId"] == other
    assert not (await audit(tools.store, tools.project)).differences


@pytest.mark.parametrize("name", get_args(ClaimList))
async def test_no_list_of_claims_has_it(tools: Client, name: ClaimList) -> None:
    await finished(tools, "ann")
    other = await tools.add()
    await tools.claim("bob", other)
    found = await read_claims(tools.store, tools.project, name)
    assert found.live == 1
    assert {dashed(claim.row.id) for claim in found.claims} <= {other}


async def test_a_lease_without_an_item_goes_with_the_others(tools: Client) -> None:
    """A damaged store does not keep front-ends from putting back what has ended."""
    item, other = await finished(tools, "ann"), await finished(tools, "bob")
    await tools.store.command("HDEL", keys.agents.key(tools.project), "ann")
    await lapse(tools, item)
    await lapse(tools, other)
    assert await tools.store.command("ZCARD", keys.leases.key(tools.project)) == 0
    assert "claimDetail" not in await tools("get_context", itemId=other)
