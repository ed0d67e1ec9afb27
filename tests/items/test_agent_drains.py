"""Drains of agents: what a drained one may still do, by name and by prefix, while it waits and while it claims."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Script, keys
from coordinator.toolsets.actor import Actor, Distrusted, Trusted, Verification, echo
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.agents.drains import begin_drain, drain_name, end_drain
from coordinator.toolsets.items.store.base import LIBRARY
from coordinator.toolsets.items.store.measures.items import MeasureStore
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse
from tests.items.parked import Front, Fronts
from tests.items.selectors import call_of
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

EVENTS = Settings().events_max


async def drain(tools: Client, name: str) -> int:
    """Drains; returns how many parked claims were answered."""
    begun, answered = await begin_drain(tools.store, tools.project, EVENTS, name)
    assert begun
    return answered


async def undrain(tools: Client, name: str) -> list[str]:
    ended, left = await end_drain(tools.store, tools.project, EVENTS, name)
    assert ended
    return left


async def seek(tools: Client, agent: str, selector: Json | None = None, **fields: Any) -> Json:
    """A claim by selector; the entry's result."""
    call = {"actor": actor(agent), "claims": [{"selector": selector or {}}], "requestId": fresh_id(), **fields}
    result: Json = (await tools("claim_item", **call))["claimResults"][0]
    return result


def refused(result: Json) -> bool:
    """Whether a claim was refused because of a drain."""
    assert result["outcome"] == "agent_draining", result
    assert (result["kind"], result["code"]) == ("permanent", "agent_draining")
    return "an operator drains" in result["error"]


async def test_a_drained_agent_keeps_what_it_has_and_gets_no_more(tools: Client) -> None:
    held, free = await tools.add_many(2)
    first = await tools.claim("a", held)
    assert "stop" not in first
    assert await drain(tools, "a") == 0
    assert refused(await tools.claim("a", free))
    assert refused(await seek(tools, "a"))
    renewed = await tools.claim("a", held, fenceToken=first["fenceToken"])
    assert (renewed["outcome"], renewed["stop"], renewed["fenceToken"]) == ("success", True, first["fenceToken"])
    assert renewed["reason"].startswith("an operator drains 'a'")
    # It finishes its work, and others are not concerned.
    assert (await tools.advance(held, "start", "a"))["applied"]
    assert (await tools.advance(held, "complete", "a"))["applied"]
    assert (await tools.release("a", held))["outcome"] == "success"
    assert (await tools.claim("b", free))["outcome"] == "success"
    found = await tools("get_context", agents=True)
    assert {one["id"]: one.get("draining", False) for one in found["agents"]} == {"a": True, "b": False}
    assert [one["name"] for one in found["drains"]] == ["a"]
    assert await undrain(tools, "a") == []
    await tools.release("b", free)
    assert (await seek(tools, "a"))["itemId"] == free
    assert "drains" not in await tools("get_context", agents=True)
    assert (await audit(tools.store, tools.project)).differences == []


async def test_the_order_of_outcomes(tools: Client) -> None:
    done, taken, free, own = await tools.add_many(4)
    await tools.move(done, "cancel")
    await tools.claim("b", taken)
    fence = (await tools.claim("a", own))["fenceToken"]
    await drain(tools, "a")
    entries: list[Json] = [{"itemId": item} for item in (done, taken, free, own, fresh_id())]
    results = (await tools.claims("a", entries))["claimResults"]
    outcomes = [result["outcome"] for result in results]
    assert outcomes == ["terminal_item", "already_claimed", "agent_draining", "success", "not_found"]
    assert results[3]["stop"] is True
    stale = await tools.claim("a", own, fenceToken=fence + 1)
    assert stale["outcome"] == "stale_fence"
    assert refused(await tools.claim("a", free, fenceToken=7))
    # A claim that is over is no renewal.
    await lapse(tools, own)
    assert refused(await tools.claim("a", own))
    # The policy comes before all.

    async def nobody(actor: Actor) -> Trusted:
        raise Distrusted("no", Trusted(actor.id, echo(actor), Verification("absent", "jwks", None)))

    strict = Client(tools.store, tools.project, resolve_actor=nobody)
    call = {"actor": actor("a"), "claims": [{"itemId": free}], "requestId": fresh_id()}
    assert (await strict.refusal("claim_item", **call)).code == "rejected_by_policy"


async def test_reasons_are_told_together(tools: Client) -> None:
    blocker, waits = await tools.add_many(2)
    await tools.link(blocker, waits)
    await tools.claim("a", waits)
    await drain(tools, "a")
    renewed = await tools.claim("a", waits)
    assert (renewed["stop"], renewed["ready"]) == (True, False)
    assert renewed["reason"].endswith("claim no other; 1 blocking dependencies are not satisfied")


@pytest.mark.parametrize(
    ("name", "drained", "others"),
    [
        ("bot", ["bot", "bot/1", "bot/1/x", "bot/"], ["bots", "bots/1", "robot", "x/bot", "Bot", "bo"]),
        ("bot/1", ["bot/1", "bot/1/x"], ["bot", "bot/2", "bot/11"]),
        ("a//b", ["a//b", "a//b/c"], ["a", "a/", "a//bc"]),
    ],
)
async def test_drains_go_by_prefix(tools: Client, name: str, drained: list[str], others: list[str]) -> None:
    await drain(tools, name)
    for agent in drained:
        assert refused(await tools.claim(agent, await tools.add()))
        assert refused(await seek(tools, agent))
    for agent in others:
        assert (await tools.claim(agent, await tools.add()))["outcome"] == "success", agent


async def test_an_answer_is_repeated_after_the_drain(tools: Client) -> None:
    item = await tools.add()
    cases: list[list[dict[str, Any]]] = [[{"itemId": item}], [{"selector": {}}]]
    await drain(tools, "a")
    for claims in cases:
        call = {"actor": actor("a"), "claims": claims, "requestId": fresh_id()}
        first = await tools("claim_item", **call)
        assert first["claimResults"][0]["outcome"] == "agent_draining"
        await undrain(tools, "a")
        assert await tools("claim_item", **call) == first
        await drain(tools, "a")


async def test_releases_still_count(tools: Client) -> None:
    held, free = await tools.add_many(2)
    await tools.claim("a", held)
    await drain(tools, "a")
    answer: dict[str, Any] = {}
    entries: list[dict[str, Any]] = [{"itemId": free}, {"selector": {}}]
    for claim in entries:
        call = {"actor": actor("a"), "claims": [claim], "releases": [{"itemId": held}], "requestId": fresh_id()}
        answer = await tools("claim_item", **call)
        assert refused(answer["claimResults"][0])
    assert answer["releaseResults"][0]["outcome"] == "not_claimed_by_you"
    assert (await tools.claim("b", held))["outcome"] == "success"


async def test_parked_claims_are_answered_at_once(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    held = await one.add()
    await one.claim("bot/1", held)
    theirs = [
        await one.park("bot/1"),
        await other.park("bot/2", {"type": "t"}),
        await other.park("bot", {"tags": "x,y"}),
    ]
    stays = await one.park("else")
    assert await drain(one, "bot") == 3
    for call in theirs:
        assert refused(await call.claim())
    assert stays.waits
    for call in theirs:  # and so are those that they park now
        late = other.begin(call.agent, wait_ms=60_000)
        assert refused(await late.claim())
    item = await other.add(type="t", tags="x")
    assert await stays.item() == item
    assert (await one.claim("bot/1", held))["stop"] is True


async def test_a_retry_of_a_parked_claim_gets_the_same_answer(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    call = await one.park("a")
    await drain(one, "a")
    first = await call.answer()
    await undrain(one, "a")
    again = call_of("a", request_id=call.request_id, wait_ms=60_000)
    assert await other("claim_item", **again) == first


async def test_many_parked_claims_are_answered(fronts: Fronts) -> None:
    front = await fronts.make()
    calls = [front.begin(f"bot/{n}", wait_ms=60_000) for n in range(250)]
    others = [front.begin(f"else/{n}", wait_ms=60_000) for n in range(20)]

    async def all_wait() -> bool:
        return (await front("get_context", agents=True, limit=1))["counts"]["waiting"] == 270

    await wait_until(all_wait, what="all to wait")
    assert await drain(front, "bot") == 250
    for call in calls:
        assert refused(await call.claim())
    assert all(call.waits for call in others)


async def test_an_operator_who_dies_after_beginning_a_drain(fronts: Fronts) -> None:
    """Only the first step of the command was made: front-ends do the rest."""
    front = await fronts.make()
    call = await front.park("a")
    begin: Script[Any] = Script(LIBRARY, "drain_agents")
    await front.store.run(begin, front.project, EVENTS, "a", 1)
    assert refused(await call.claim())


async def test_a_killed_front_end(fronts: Fronts) -> None:
    """Its parked claim is answered for the retry on another one."""
    one, other = await fronts.pair()
    call = await one.park("a")
    await one.kill()
    assert await drain(other, "a") == 1
    again = call_of("a", request_id=call.request_id, wait_ms=60_000)
    assert refused((await other("claim_item", **again))["claimResults"][0])


async def test_no_claim_is_placed_after_a_drain(fronts: Fronts) -> None:
    """Three front-ends: agents claim, wait and finish while they are drained."""
    trio = [await fronts.make() for _ in range(3)]
    await trio[0].add_many(60)
    placed: list[tuple[str, str]] = []

    async def work(front: Front, agent: str) -> int:
        """Claims one item after the other until it is told to stop; returns how often it succeeded."""
        won = 0
        while True:
            call = front.begin(agent, wait_ms=60_000) if won % 2 else None
            claim = await call.claim() if call else await seek(front, agent)
            if claim["outcome"] == "agent_draining":
                return won
            if claim["outcome"] == "success":
                won += 1
                placed.append((agent, claim["itemId"]))
                assert (await front.advance(claim["itemId"], "complete", agent))["applied"]
            else:
                await asyncio.sleep(0)

    tasks = [asyncio.create_task(work(trio[n % 3], f"bot/{n}")) for n in range(9)]
    await wait_until(lambda: len(placed) > 10, what="work to be in progress")
    more = asyncio.create_task(trio[1].add_many(60))
    await drain(trio[2], "bot")
    events = await trio[0].store.command("XRANGE", keys.events.key(trio[0].project), "-", "+")
    await more
    over_at = next(n for n, (_, fields) in enumerate(events) if b"agent_drain" in fields)
    await asyncio.gather(*tasks)
    later = await trio[0].store.command("XRANGE", keys.events.key(trio[0].project), "-", "+")
    kinds = [dict(zip(fields[::2], fields[1::2], strict=True))[b"k"] for _, fields in later]
    assert b"claim" not in kinds[over_at:]
    assert sum(task.result() for task in tasks) == len(placed) == kinds.count(b"claim")


async def test_events(tools: Client) -> None:
    await drain(tools, "a/b")
    assert await begin_drain(tools.store, tools.project, EVENTS, "a/b") == (False, 0)
    await undrain(tools, "a/b")
    assert await end_drain(tools.store, tools.project, EVENTS, "a/b") == (False, [])
    rows = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    told = [fields for _, fields in rows]
    assert told == [[b"k", b"agent_drain", b"i", b"a/b"], [b"k", b"agent_undrain", b"i", b"a/b"]]
    assert await tools.store.command("EXISTS", keys.agent_drains.key(tools.project)) == 0


async def test_measurements(tools: Client) -> None:
    measures = MeasureStore(tools.store)
    assert ((found := await measures.measure(tools.project)).agents, found.drains) == (0, 0)
    await tools.claim("a", await tools.add())
    await drain(tools, "a")
    await drain(tools, "b")
    assert ((found := await measures.measure(tools.project)).agents, found.drains) == (1, 2)
    await undrain(tools, "b")
    assert (await measures.measure(tools.project)).drains == 1


async def test_their_number_is_bounded(tools: Client) -> None:
    pairs = [word for n in range(1000) for word in (f"n{n}", "1764142459000")]
    await tools.store.command("HSET", keys.agent_drains.key(tools.project), *pairs, "", "1764142459000")
    with pytest.raises(ToolFailure, match="1000 drains"):
        await begin_drain(tools.store, tools.project, EVENTS, "one-more")
    assert await begin_drain(tools.store, tools.project, EVENTS, "n7") == (False, 0)


@pytest.mark.parametrize("name", ["", " ", "/", "x" * 501])
def test_impossible_names(name: str) -> None:
    with pytest.raises(ToolFailure, match="NAME: must be 1 to 500 characters"):
        drain_name(name)


def test_a_slash_at_the_end_changes_nothing() -> None:
    assert drain_name("bot/") == "bot"
