"""Who waits for resources gets them: parked calls wake, and an item passed over for long reserves what it demands."""

from __future__ import annotations

import time

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.resources import reserved, wait_as_if
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

FORGOTTEN_MS = 60_000


def demand(key: str, mode: str = "exclusive") -> Json:
    return {"key": key, "mode": mode}


async def consistent(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


async def test_waiting_calls_wake_when_keys_free_up(fronts: Fronts) -> None:
    front, other = await fronts.pair()
    items = await front.add_many(3, resources=[demand("a/b")])
    low = await front.add(resources=[demand("a")], priority="low")
    assert (await take(other, "holder"))["itemId"] == items[0]
    calls = [await front.park("one"), await other.park("two")]
    began = time.perf_counter()
    await other.advance(items[0], "complete", "holder")  # terminal: the claim is still there
    assert await calls[0].item() == items[1]
    assert time.perf_counter() - began < 20
    assert calls[1].waits
    await other.release("one", items[1])
    await other.claim("x", await other.add(role="work"))
    assert await calls[1].item() in items[1:]
    await front.advance(items[1], "cancel", "two")
    await front.advance(items[2], "cancel", "two")
    await consistent(front)
    assert (await take(front, "three"))["itemId"] == low


async def test_a_call_that_holds_what_an_item_demands_gets_it(fronts: Fronts) -> None:
    front = await fronts.make()
    await front.claim("one", await front.add(resources=[demand("a")]))
    calls = [await front.park("two"), await front.park("one")]
    item = await front.add(resources=[demand("a")])
    assert await calls[1].item() == item
    assert calls[0].waits


@pytest.mark.parametrize("many", [False, True])
async def test_an_exclusive_demand_is_served_under_steady_shared_churn(tools: Client, many: bool) -> None:
    number = 45 if many else 6
    await tools.create(*({"title": "x", "resources": [demand("repo/docs", "shared")]} for _ in range(number)))
    exclusive = await tools.add(tags="all", resources=[demand("repo")], priority="high")
    if many:
        await tools.create(*({"title": "y", "tags": "all", "resources": [demand("repo")]} for _ in range(40)))
    churn = {"priority": "medium"}
    held = [(await take(tools, f"c{n}", churn if not n else {}))["itemId"] for n in range(2)]
    assert exclusive not in held

    async def turn(n: int) -> Json:
        """One of two agents gives back and takes again, while the other one holds."""
        await tools.release(f"c{n % 2}", held[n % 2])
        claim = await take(tools, f"c{n % 2}", churn)
        held[n % 2] = claim.get("itemId", "")
        return claim

    for n in range(4):
        assert (await turn(n))["outcome"] == "success"
        assert (await take(tools, "e", {"tags": "all"}))["outcome"] == "no_match"
    await wait_as_if(tools)
    assert (await take(tools, "e", {"tags": "all"}))["outcome"] == "no_match"
    assert await reserved(tools) == {exclusive.replace("-", "")}
    await consistent(tools)
    # Nobody gets anything of it any more, and as soon as the last claim has ended it is the item's.
    assert (await turn(0))["outcome"] == "no_match"
    assert (await take(tools, "e", {"tags": "all"}))["outcome"] == "no_match"
    await lapse(tools, held[1])
    assert (await take(tools, "c1", churn))["outcome"] == "no_match"
    assert (await take(tools, "e", {"tags": "all"}))["itemId"] == exclusive
    assert await reserved(tools) == set()
    await tools.advance(exclusive, "complete", "e")
    assert (await take(tools, "c1", churn))["outcome"] == "success"
    await consistent(tools)


async def test_a_claim_by_id_that_is_refused_for_long_reserves_too(tools: Client) -> None:
    shared, both = await tools.add(resources=[demand("a", "shared")]), await tools.add(resources=[demand("a")])
    other = await tools.add(resources=[demand("a", "shared")])
    await tools.claim("x", shared)
    assert (await tools.claim("y", both))["outcome"] == "resource_busy"
    await wait_as_if(tools)
    assert (await tools.claim("y", both))["outcome"] == "resource_busy"
    assert (await tools.claim("z", other))["outcome"] == "resource_busy"
    await consistent(tools)
    # Forgotten, if nobody wants the item: then it keeps nothing.
    await wait_as_if(tools, FORGOTTEN_MS + 1)
    await tools.store.command("DEL", keys.passed_over.key(tools.project))
    assert (await tools.claim("z", other))["outcome"] == "resource_busy"
    await tools.store.command("DEL", keys.passed_over.key(tools.project))
    assert (await tools.claim("z", other))["outcome"] == "success"
    assert await reserved(tools) == set()
    await consistent(tools)


async def test_reservations_end_with_what_they_are_for(tools: Client) -> None:
    holder = await tools.add(resources=[demand("a", "shared")])
    await tools.claim("x", holder)
    for end in ("cancel", "block", "delete", "update"):
        item = await tools.add(resources=[demand("a")])
        await tools.claim("y", item)
        await wait_as_if(tools)
        await tools.claim("y", item)
        assert await reserved(tools) == {item.replace("-", "")}
        if end == "delete":
            await tools.delete(item)
        elif end == "update":
            await tools.update(item, resources=[])
        else:
            await tools.advance(item, end)
        assert await reserved(tools) == set(), end
        await consistent(tools)
