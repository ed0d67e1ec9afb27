"""Parked claims whose clients have hung up when an item comes: undelivered items are given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import ServerError
from coordinator.toolsets.tool import Delivery
from tests.items.client import Json
from tests.items.parked import LONG_MS, Front, Fronts, Parked
from tests.items.selectors import call_of, take
from tests.support.between import before

pytestmark = pytest.mark.anyio


async def park(front: Front, agent: str, **more: Any) -> tuple[Parked, Delivery]:
    """Parks a call; the test decides whether its answer is delivered."""
    delivery = front.delivery = Delivery()
    call = await front.park(agent, **more)
    front.delivery = None
    return call, delivery


async def recorded(front: Front, call: Parked) -> bytes | None:
    record: bytes | None = await front.store.command("GET", keys.request.key(front.project, call.name))
    return record


async def holder(front: Front, item: str) -> str | None:
    claim = (await front("get_context", itemId=item)).get("claimDetail") or {}
    return claim.get("claimedBy") if not claim.get("isExpired") else None


async def test_an_undelivered_item_is_given_back(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "gone")
    item = await other.add()
    assert await call.item() == item
    assert await holder(other, item) == "gone"
    await delivery.end()
    assert await holder(other, item) is None
    assert await recorded(other, call) is None
    assert await other.next() == [item]


async def test_an_item_handed_to_an_ended_request_is_given_back(fronts: Fronts) -> None:
    """The transport has ended the request, and the call has not noticed yet."""
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "gone")
    await delivery.end()
    item = await other.add()
    await call.answer()
    assert await holder(other, item) is None


async def test_a_retry_claims_again(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "agent")
    first = await other.add()
    await call.answer()
    await delivery.end()
    better = await other.add(priority="high")
    again = await other("claim_item", **call_of("agent", request_id=call.request_id, wait_ms=LONG_MS))
    assert again["claimResults"][0]["itemId"] == better
    assert await other.next() == [first]


async def test_a_retry_that_overtakes_the_give_back_keeps_the_item(
    fronts: Fronts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the server lacks the script that gives back, which has to be loaded first."""
    tools = await fronts.make()
    call, delivery = await park(tools, "agent")
    item = await tools.add()
    assert await call.item() == item
    answers = []

    async def repeat() -> None:
        answers.append(await tools("claim_item", **call_of("agent", request_id=call.request_id, wait_ms=LONG_MS)))

    before(monkeypatch, tools.store, "leave_wait", repeat)
    await delivery.end()
    assert answers == [await call.answer()]
    assert await holder(tools, item) == "agent"


async def test_a_call_ended_by_a_defect_does_not_count_as_waiting(
    fronts: Fronts, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = await fronts.make()

    async def fail() -> None:
        raise ServerError("ERR a defect")

    before(monkeypatch, tools.store, "claim_next", fail)
    broken = tools.begin("agent", wait_ms=LONG_MS)
    with pytest.raises(ServerError):
        await broken.answer()
    call, delivery = await park(tools, "agent", request_id=broken.request_id)
    item = await tools.add()
    await call.answer()
    await delivery.end()
    assert await tools.next() == [item]


async def test_a_given_back_item_goes_to_the_next_waiter(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "gone")
    item = await other.add()
    await call.answer()
    waiting = await other.park("waiting")
    await delivery.end()
    assert await waiting.item() == item
    assert (await waiting.claim())["fenceToken"] > (await call.claim())["fenceToken"]


async def test_a_delivered_item_stays(fronts: Fronts) -> None:
    tools = await fronts.make()
    call, delivery = await park(tools, "agent")
    item = await tools.add()
    await call.answer()
    delivery.arrived = True
    await delivery.end()
    assert await holder(tools, item) == "agent"
    again = await tools("claim_item", **call_of("agent", request_id=call.request_id, wait_ms=LONG_MS))
    assert again == await call.answer()


async def test_an_item_found_at_once_is_given_back(fronts: Fronts) -> None:
    tools = await fronts.make()
    item = await tools.add()
    delivery = tools.delivery = Delivery()
    call = tools.begin("gone", wait_ms=LONG_MS)
    assert await call.item() == item
    tools.delivery = None
    await delivery.end()
    assert await tools.next() == [item]
    assert await recorded(tools, call) is None


async def test_a_call_that_is_cancelled_as_its_item_comes(fronts: Fronts) -> None:
    """The item is handed over in the store, and the notification is still in transit."""
    tools, other = await fronts.pair()
    call = await tools.park("gone")
    item = await other.add()
    await call.leave()
    await tools.wait_for_nobody()
    assert await other.next() == [item]
    assert await recorded(other, call) is None


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("same", [True, False], ids=["here", "elsewhere"])
async def test_another_call_with_the_request_keeps_the_item(fronts: Fronts, same: bool, arrives: bool) -> None:
    """Both waited. The one that hung up takes nothing from the other, and the last one gives it back."""
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "agent")
    again, repeated = await park(tools if same else other, "agent", request_id=call.request_id)
    item = await other.add()
    assert [await call.item(), await again.item()] == [item, item]
    await delivery.end()
    assert await holder(other, item) == "agent"
    repeated.arrived = arrives
    await repeated.end()
    assert await holder(other, item) == ("agent" if arrives else None)
    assert (await recorded(other, call) is not None) == arrives


@pytest.mark.parametrize("same", [True, False], ids=["here", "elsewhere"])
async def test_an_answered_call_keeps_its_item_despite_undelivered_retries(fronts: Fronts, same: bool) -> None:
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "agent")
    item = await other.add()
    await call.answer()
    delivery.arrived = True
    await delivery.end()
    front = tools if same else other
    repeated = front.delivery = Delivery()
    again = front.begin("agent", request_id=call.request_id, wait_ms=LONG_MS)
    assert await again.item() == item
    front.delivery = None
    await repeated.end()
    assert await holder(other, item) == "agent"


@pytest.mark.parametrize("wait_ms", [0, LONG_MS])
@pytest.mark.parametrize("same", [True, False], ids=["here", "elsewhere"])
async def test_a_retry_answered_first_keeps_the_item(fronts: Fronts, same: bool, wait_ms: int) -> None:
    """The client has lost its connection and retries the call before the loss is noticed."""
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "agent")
    item = await other.add()
    await call.answer()
    front = tools if same else other
    again = await front("claim_item", **call_of("agent", request_id=call.request_id, wait_ms=wait_ms))
    assert again == await call.answer()
    await delivery.end()
    assert await holder(other, item) == "agent"


async def test_a_renewed_claim_stays(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "agent")
    item = await other.add()
    granted = (await call.claim())["claimedAt"]
    while (await other.claim("agent", item))["claimedAt"] == granted:
        pass
    await delivery.end()
    assert await holder(other, item) == "agent"


async def test_an_item_claimed_by_another_agent_since_stays_there(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "agent")
    item = await other.add()
    await call.answer()
    await other.release("agent", item)
    assert (await take(other, "rival"))["itemId"] == item
    await delivery.end()
    assert await holder(other, item) == "rival"


async def test_a_store_outage_leaves_the_item_claimed(fronts: Fronts, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, other = await fronts.pair()
    call, delivery = await park(tools, "agent")
    item = await other.add()
    await call.answer()

    async def silent() -> None:
        raise ToolFailure("store_unavailable", "it does not answer")

    before(monkeypatch, tools.store, "leave_wait", silent)
    await delivery.end()
    assert await holder(other, item) == "agent"
    again: Json = await other("claim_item", **call_of("agent", request_id=call.request_id, wait_ms=LONG_MS))
    assert again == await call.answer()


async def test_a_claim_ends_with_its_client_s_input(fronts: Fronts) -> None:
    """The client still gets an answer. A call elsewhere with the same request goes on."""
    tools, other = await fronts.pair()
    tools.hung_up = asyncio.get_running_loop().create_future()
    call = await tools.park("agent")
    elsewhere = await other.park("agent", request_id=call.request_id)
    tools.hung_up.set_result(None)
    with pytest.raises(ToolFailure) as ended:
        await call.answer()
    assert ended.value.code == "draining"
    item = await other.add()
    assert await elsewhere.item() == item
    refused = await tools.refusal("claim_item", **call_of("agent", wait_ms=LONG_MS))
    assert refused.code == "draining"
    ready = await other.add()
    assert (await take(tools, "agent", wait_ms=LONG_MS))["itemId"] == ready


async def test_an_item_that_comes_as_the_input_ends_is_answered_with_or_free(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    for turns in range(30):
        tools.hung_up = asyncio.get_running_loop().create_future()
        call = await tools.park(f"gone-{turns}")
        adding = asyncio.create_task(other.add())
        if turns % 2:
            await adding
        for _ in range(turns // 2):
            await asyncio.sleep(0)
        tools.hung_up.set_result(None)
        item = await adding
        answered = not isinstance((await asyncio.gather(call.task, return_exceptions=True))[0], ToolFailure)
        assert await holder(other, item) == (f"gone-{turns}" if answered else None)
        if not answered:
            await take(other, f"rival-{turns}")


async def test_many_clients_that_hang_up(fronts: Fronts) -> None:
    """Callers hang up as items come, over two front-ends; each item ends with a connected one."""
    pair = await fronts.pair()
    gone = [await park(pair[n % 2], f"gone-{n}") for n in range(12)]
    staying = [await pair[n % 2].park(f"stays-{n}") for n in range(6)]

    async def hang_up(call: Parked, delivery: Delivery, late: bool) -> None:
        """At once, or when the answer would be sent."""
        if late:
            await asyncio.wait([call.task], timeout=5)
        await call.leave()
        await delivery.end()

    ends = [asyncio.create_task(hang_up(*one, late=number % 2 == 0)) for number, one in enumerate(gone)]
    items = await pair[0].add_many(6)
    await asyncio.gather(*ends)
    assert sorted([await call.item() for call in staying]) == sorted(items)
