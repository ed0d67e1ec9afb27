"""How a parked claim ends: by timeout, hang-up or an item, with the same answer for every retry."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import count, islice
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import keys
from coordinator.toolsets.items.metrics.claims import CLAIM_WAIT
from tests.items.client import Client, Json, fresh_id
from tests.items.moments import lapse
from tests.items.parked import LONG_MS, Fronts, Parked
from tests.items.selectors import call_of, take
from tests.support.between import before
from tests.support.counts import by_bucket
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

NO_MATCH = {"outcome": "no_match", "kind": "transient", "code": "no_match", "retryAfterMs": 0}


async def refusal(call: Parked) -> str:
    """The code that a waiting call ended with."""
    with pytest.raises(ToolFailure) as caught:
        await call.answer()
    return caught.value.code


async def test_a_wait_times_out(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    began = time.monotonic()
    call = tools.begin("agent", wait_ms=300, claimRef="ref-1")
    answer = await call.answer()
    assert time.monotonic() - began >= 0.3
    assert answer == {
        "claimResults": [{**NO_MATCH, "claimRef": "ref-1"}],
        "releaseResults": [],
        "summary": {
            "claimsTotal": 1,
            "claimsSucceeded": 0,
            "claimsFailed": 1,
            "releasesTotal": 0,
            "releasesSucceeded": 0,
            "releasesFailed": 0,
        },
    }
    item = await tools.add()
    assert await tools.next() == [item], "nobody waits for it"
    again = call_of("agent", request_id=call.request_id, wait_ms=300, claimRef="ref-1")
    assert await other("claim_item", **again) == answer


async def test_a_wait_is_answered_before_hosts_time_out(fronts: Fronts) -> None:
    """For any waitMs."""
    tools = await fronts.make(settings=Settings(request_deadline_ms=LONG_MS, longest_wait_ms=200))
    began = time.monotonic()
    async with asyncio.timeout(30):
        answer = await tools.begin("agent", wait_ms=60_000).answer()
    assert time.monotonic() - began >= 0.2
    assert answer["claimResults"] == [NO_MATCH]
    for wait_ms in (60_001, -1):
        assert (await tools.refusal("claim_item", **call_of("agent", wait_ms=wait_ms))).code == "VALIDATION_ERROR"


async def test_a_ready_item_is_claimed_at_once(fronts: Fronts) -> None:
    tools = await fronts.make()
    item = await tools.add()
    assert await tools.begin("agent", wait_ms=60_000).item() == item
    assert tools.runs["claim_next"] == 1


async def test_a_ready_item_costs_one_sweep_and_no_script_that_is_given_up(fronts: Fronts) -> None:
    tools = await fronts.make()
    outcomes = Counter[tuple[str, str]]()
    tools.store.observe = lambda name, _seconds, outcome, *_: outcomes.update([(name, outcome)])
    items = await tools.add_many(20)
    assert {await tools.begin(f"agent-{n}", wait_ms=60_000).item() for n in range(20)} == set(items)
    assert {outcomes[one] for one in (("claim_next", "new"), ("sweep_claims", "ok"))} == {20}
    assert {outcome for _, outcome in outcomes} == {"ok", "new"}


@pytest.mark.parametrize("position", [0, 1, 2])
async def test_a_caller_that_hung_up_gets_nothing(fronts: Fronts, position: int) -> None:
    tools, other = await fronts.pair()
    calls = [await front.park(f"agent-{n}") for n, front in enumerate((tools, other, tools))]
    gone = calls.pop(position)
    await gone.leave()

    async def noticed() -> bool:
        return not await tools.is_parked(gone)

    await wait_until(noticed, what="the place to be free")
    items = await tools.add_many(3)
    assert {await call.item() for call in calls} < set(items)
    assert len(await tools.next(limit=9)) == 1


async def test_ending_a_parked_call_returns_its_waiter(fronts: Fronts) -> None:
    tools = await fronts.make()
    call = await tools.park("agent")
    assert tools.idle == []
    await call.leave()
    assert len(tools.idle) == 1


async def test_a_caller_that_hung_up_may_retry(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call = await tools.park("agent", {"tags": "api"})
    await call.leave()
    again = await other.park("agent", {"tags": "api"}, request_id=call.request_id)
    item = await tools.add(tags="api")
    assert await again.item() == item


async def test_a_retry_keeps_its_place(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    first, second = await tools.park("first"), await other.park("second")
    again = await other.park("first", request_id=first.request_id)
    items = [await tools.add(), await tools.add()]
    assert [await again.item(), await second.item()] == items


async def test_a_retry_that_frees_items_gets_the_item_of_its_call(fronts: Fronts) -> None:
    tools = await fronts.make()
    first, second = [await tools.add(priority="high"), await tools.add()]
    for item in (first, second):
        await tools.claim(f"holder of {item}", item)
    call = await tools.park("agent")
    for item in (first, second):
        await lapse(tools, item)
    again = tools.begin("agent", request_id=call.request_id, wait_ms=LONG_MS)
    assert [await again.item(), await call.item()] == [first, first]
    assert await tools.next(limit=2) == [second]


async def test_the_first_call_can_hang_up(fronts: Fronts) -> None:
    """Its connection was lost, the retry came over another one, and only then the loss was noticed."""
    tools, other = await fronts.pair()
    call = await tools.park("agent")
    again = await other.park("agent", request_id=call.request_id)
    await call.leave()
    assert await other.is_parked(again)
    item = await tools.add()
    assert await again.item() == item


async def test_the_retry_can_hang_up(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call = await tools.park("agent")
    ends = await tools.store.command("HGET", keys.waiter.key(tools.project, call.name), "u")
    again = await other.park("agent", request_id=call.request_id, wait_ms=LONG_MS // 2)
    await again.leave()
    assert await tools.is_parked(call)
    assert await tools.store.command("HGET", keys.waiter.key(tools.project, call.name), "u") == ends
    item = await tools.add()
    async with asyncio.timeout(LONG_MS / 4000):
        assert await call.item() == item


@pytest.mark.parametrize("wait_ms", [LONG_MS, 300])
async def test_an_answer_ends_the_call_on_every_front_end(fronts: Fronts, wait_ms: int) -> None:
    """With an item, or after the timeout of one of the calls."""
    tools, other = await fronts.pair()
    call = await tools.park("agent")
    again = await other.park("agent", request_id=call.request_id, wait_ms=wait_ms)
    outcome = "no_match"
    if wait_ms == LONG_MS:
        await tools.add()
        outcome = "success"
    async with asyncio.timeout(LONG_MS / 4000):
        answers = await asyncio.gather(call.answer(), again.answer())
    assert answers[0] == answers[1]
    assert answers[0]["claimResults"][0]["outcome"] == outcome


async def test_a_retry_on_a_front_end_that_dies_keeps_the_calls_place(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call = await tools.park("agent")
    await other.park("agent", request_id=call.request_id)
    repeated = await tools.store.command("HGET", keys.waiter.key(tools.project, call.name), "p")
    await tools.store.command("DEL", keys.alive.key(tools.project, repeated[32:].decode()))
    item = await tools.add()
    async with asyncio.timeout(LONG_MS / 4000):
        assert await call.item() == item


async def test_the_first_call_can_hang_up_on_one_front_end(fronts: Fronts) -> None:
    tools = await fronts.make()
    call = await tools.park("agent")
    again = await tools.park("agent", request_id=call.request_id)
    await call.leave()
    assert await tools.is_parked(again)
    item = await tools.add()
    assert await again.item() == item


async def test_a_request_id_in_two_projects_is_two_calls(fronts: Fronts, elsewhere: Client) -> None:
    tools = await fronts.make()
    here = await tools.park("agent")
    project, tools.project = tools.project, elsewhere.project
    there = await tools.park("agent", request_id=here.request_id)
    item = await elsewhere.add()
    assert await there.item() == item
    tools.project = project
    item = await tools.add()
    assert await here.item() == item


async def test_retries_on_one_front_end_have_one_answer(fronts: Fronts) -> None:
    tools = await fronts.make()
    call = await tools.park("agent")
    again = [await tools.park("agent", request_id=call.request_id) for _ in range(3)]
    item = await tools.add()
    assert [await each.item() for each in (call, *again)] == [item] * 4


async def test_a_handed_over_item_is_returned_to_a_retry(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call = await tools.park("agent")
    await tools.add()
    answer = await call.answer()
    await other.add_many(3)
    again = call_of("agent", request_id=call.request_id, wait_ms=60_000)
    assert await other("claim_item", **again) == answer


async def test_a_retry_without_waiting_ends_all_calls(fronts: Fronts) -> None:
    """One request has one answer: a retry that does not wait determines it for the others."""
    tools, other = await fronts.pair()
    call = await tools.park("agent")
    answer = await other("claim_item", **call_of("agent", request_id=call.request_id))
    assert answer["claimResults"] == [{**NO_MATCH, "retryAfterMs": 1000}]
    assert await call.answer() == answer


async def test_the_end_of_the_first_wait_ends_its_retries(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call = await tools.park("agent", wait_ms=3_000)
    again = await other.park("agent", request_id=call.request_id)
    answer = await call.answer()
    assert answer["claimResults"] == [NO_MATCH]
    assert await again.answer() == answer


async def test_a_retry_may_wait_longer_than_a_first_call_that_hung_up(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    call = await tools.park("agent", wait_ms=2_000)
    again = await other.park("agent", request_id=call.request_id)
    await call.leave()
    began = time.monotonic()

    async def over() -> bool:
        return time.monotonic() - began > 2.1

    await wait_until(over, what="the first wait's time to be over")
    item = await tools.add()
    assert await again.item() == item


@pytest.mark.parametrize("change", [{"tags": "api"}, {"orderBy": "oldest"}])
async def test_the_request_id_of_a_parked_call_cannot_be_reused(fronts: Fronts, change: Json) -> None:
    tools, other = await fronts.pair()
    call = await tools.park("agent")
    for wait_ms in (0, 1000):
        failure = await other.refusal(
            "claim_item", **call_of("agent", change, request_id=call.request_id, wait_ms=wait_ms)
        )
        assert failure.code == "request_id_reused"
    item = await other.add()
    assert await call.item() == item


async def test_a_retry_waits_below_the_current_match_of_its_prefix(
    fronts: Fronts, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, other = await fronts.pair()
    with monkeypatch.context() as chosen:
        upcoming = iter(["abcdef" + digit * 26 for digit in "12"])
        chosen.setattr("coordinator.toolsets.items.tools.items.new_ids", lambda count: list(islice(upcoming, count)))
        gone = await tools.add(role="work")
        call = await tools.park("agent", {"parentId": "abcdef"})
        await tools.delete(gone)
        parent = await tools.add(role="work")
    again = await other.park("agent", {"parentId": "abcdef"}, request_id=call.request_id)
    item = await tools.add(parentId=parent)
    assert await again.item() == item


async def test_another_agents_request_id_is_another_request(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    one = await tools.park("one")
    two = await other.park("two", request_id=one.request_id)
    items = [await tools.add(), await tools.add()]
    assert [await one.item(), await two.item()] == items


async def test_a_draining_front_end_ends_its_parked_calls(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    leaving = [await tools.park(f"agent-{number}") for number in range(5)]
    staying = await other.park("staying")
    assert tools.drain is not None
    await tools.drain()
    assert [await refusal(call) for call in leaving] == ["draining"] * 5
    assert (await tools.refusal("claim_item", **call_of("late", wait_ms=1000))).code == "draining"
    assert (await take(tools, "agent-9"))["outcome"] == "no_match", "calls that do not wait are served"
    back = await other.park("agent-0", request_id=leaving[0].request_id)
    items = [await other.add(), await other.add()]
    assert [await staying.item(), await back.item()] == items
    assert not [call for call in leaving if await other.is_parked(call)]


async def test_a_call_during_the_start_of_draining_is_rejected(fronts: Fronts, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, other = await fronts.pair()
    assert tools.drain is not None
    before(monkeypatch, tools.store, "sweep_claims", tools.drain)
    call = tools.begin("agent", wait_ms=LONG_MS)
    assert await refusal(call) == "draining"
    assert not await other.is_parked(call)


async def test_releases_of_a_parked_call_take_effect_at_once(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    item = await tools.add(role="work")
    unknown = fresh_id()
    await tools.claim("agent", item)
    call = await tools.park("agent", {"tags": "api"}, releases=[item, unknown])
    assert (await take(other, "rival", {"role": "work"}))["itemId"] == item
    again = await other.park("agent", {"tags": "api"}, releases=[item, unknown], request_id=call.request_id)
    await call.leave()
    wanted = await tools.add(tags="api")
    answer = await again.answer()
    assert answer["claimResults"][0]["itemId"] == wanted
    assert [entry["outcome"] for entry in answer["releaseResults"]] == ["success", "not_found"]
    assert (await tools.claim("third", item))["outcome"] == "already_claimed", "it belongs to the rival despite retries"


async def test_a_call_may_get_the_item_that_it_releases(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    item = await tools.add()
    own = await tools.claim("agent", item)
    call = other.begin("agent", {}, wait_ms=60_000, releases=[item])
    assert await call.item() == item
    assert (await call.claim())["fenceToken"] > own["fenceToken"]


async def test_a_timed_out_wait_reports_its_releases(fronts: Fronts) -> None:
    tools = await fronts.make()
    item = await tools.add(role="work")
    await tools.claim("agent", item)
    selector = {"role": "queue"}  # without it, the released item would be offered as abandoned
    answer = await tools.begin("agent", selector, wait_ms=300, releases=[item, fresh_id()]).answer()
    assert answer["claimResults"] == [NO_MATCH]
    assert [entry["outcome"] for entry in answer["releaseResults"]] == ["success", "not_found"]


@pytest.mark.parametrize("selectors", [({"priority": "high"}, {"priority": "low"}), ({}, {})])
async def test_a_call_may_get_its_released_item_after_another_is_served(
    fronts: Fronts, selectors: tuple[Json, Json]
) -> None:
    """The script that parks the caller first puts back an expired claim, whose item goes to another waiter."""
    tools, other = await fronts.pair()
    own, expired = await tools.add(priority="low"), await tools.add(priority="high")
    await tools.claim("agent", own)
    await tools.claim("holder", expired)
    waiter = await other.park("waiter", selectors[0])
    await lapse(tools, expired)
    call = other.begin("agent", selectors[1], wait_ms=60_000, releases=[own])
    assert [await waiter.item(), await call.item()] == [expired, own]


async def test_a_waiting_agent_keeps_its_item_until_it_gets_another(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    own = await tools.add(role="work")
    await tools.claim("agent", own)
    call = await other.park("agent")
    assert (await tools.claim("rival", own))["outcome"] == "already_claimed"
    item = await tools.add()
    assert await call.item() == item
    assert (await tools.claim("rival", own))["outcome"] == "success"


async def test_an_unknown_parent_of_a_parked_call_is_rejected(fronts: Fronts) -> None:
    tools = await fronts.make()
    for parent, code in (
        (fresh_id(), "RESOURCE_NOT_FOUND"),
        ("0000", "RESOURCE_NOT_FOUND"),
        ("xyz", "VALIDATION_ERROR"),
    ):
        failure = await tools.refusal("claim_item", **call_of("agent", {"parentId": parent}, wait_ms=60_000))
        assert failure.code == code


@pytest.mark.parametrize("wait_ms", [60_000, pytest.param(0, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("risen", [False, True], ids=["new", "risen"])
async def test_an_item_that_rises_behind_a_long_search_is_found(
    fronts: Fronts, monkeypatch: pytest.MonkeyPatch, wait_ms: int, risen: bool
) -> None:
    """A search of several runs has passed the item's place before it is ready, and the call is not parked yet."""
    tools, other = await fronts.pair()
    held = await tools.add()
    await tools.claim("holder", held)
    await tools.add_many(1000, parentId=held, priority="high", tags="a")
    added = [await tools.add(priority="low", tags="a")] if risen else []
    came_up = False
    run = other.store.run

    async def with_an_item_in_between(script: Any, project: str, *args: Any, **more: Any) -> Any:
        nonlocal came_up
        reply = await run(script, project, *args, **more)
        if script.name == "claim_next" and not came_up:
            came_up = True
            if risen:
                await tools.update(added[0], priority="high", complexity=1)
            else:
                added.append(await tools.add(priority="high", complexity=1, tags="a"))
        return reply

    monkeypatch.setattr(other.store, "run", with_an_item_in_between)
    call = other.begin("agent", {"tags": "a"}, wait_ms=wait_ms)
    assert await call.item() == added[0]
    assert other.runs["claim_next"] > 2


async def test_concurrent_calls_hang_ups_and_releases(fronts: Fronts) -> None:
    """Callers hang up, and items are created and released, over two front-ends."""
    pair = await fronts.pair()
    made = 30
    over = asyncio.Event()

    async def agent(front: Client, name: str) -> list[str]:
        done: list[str] = []
        for turn in count():
            claim = await take(front, name, wait_ms=400)
            if claim["outcome"] == "no_match":
                if over.is_set():
                    break
            elif turn % 4 == 1:
                await front.release(name, claim["itemId"])
            else:
                assert (await front.advance(claim["itemId"], "complete", name))["applied"]
                done.append(claim["itemId"])
        return done

    async def hasty(front: Client, name: str) -> None:
        """Hangs up at any moment of a call; releases its item in the end."""
        for turn in range(20):
            task = asyncio.create_task(front("claim_item", **call_of(name, wait_ms=50)))
            await asyncio.wait([task], timeout=turn * 0.0005)
            task.cancel()
            await asyncio.wait([task])
        await front.claim(name, await front.add(role="work"))

    async def source() -> None:
        for number in range(made):
            await pair[number % 2].add()

    agents = [asyncio.create_task(agent(pair[number % 2], f"agent-{number}")) for number in range(8)]
    await asyncio.gather(hasty(pair[0], "x"), hasty(pair[1], "y"), source())
    over.set()
    finished = [item for each in agents for item in await each]
    assert len(finished) == len(set(finished)) == made


def waits(end: str) -> int:
    """Parked claims of this process that ended this way."""
    return round(sum(by_bucket(CLAIM_WAIT, end)))


async def test_waits_are_counted_by_their_end(fronts: Fronts) -> None:
    front = await fronts.make()
    before = {end: waits(end) for end in ("served", "in_vain", "ended")}
    served = await front.park("served")
    item = await front.add()
    assert await served.item() == item
    nothing = front.begin("in vain", {"tags": "none-such"}, wait_ms=1)
    assert (await nothing.claim())["outcome"] == "no_match"
    gone = await front.park("gone", {"tags": "none-such"})
    await gone.leave()
    await wait_until(lambda: waits("ended") > before["ended"], what="the wait to be over")
    item = await front.add()
    assert await front.begin("at once", wait_ms=60_000).item() == item, "calls that do not wait are not counted"
    assert {end: waits(end) - count for end, count in before.items()} == {"served": 1, "in_vain": 1, "ended": 1}
