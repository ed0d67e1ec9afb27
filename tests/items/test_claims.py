"""claim_item: who may claim and release what, one claim per agent, heartbeats, fences, expiry."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, actor, fresh_id
from tests.items.moments import claim_for, lapse, ms, set_state
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@pytest.mark.every_store
async def test_a_claim_shows_its_own_metadata(tools: Client) -> None:
    item = await tools.add()
    result = await tools.claims("worker-7", [{"itemId": item, "ttlSeconds": 60}])
    (claim,) = result["claimResults"]
    at = claim["claimedAt"]
    assert claim == {
        "itemId": item,
        "outcome": "success",
        "claimedBy": "worker-7",
        "claimedAt": at,
        "claimExpiresAt": claim["claimExpiresAt"],
        "originalClaimedAt": at,
        "fenceToken": claim["fenceToken"],
    }
    assert ms(claim["claimExpiresAt"]) - ms(at) == 60_000
    assert result["releaseResults"] == []
    assert result["summary"] == {
        "claimsTotal": 1,
        "claimsSucceeded": 1,
        "claimsFailed": 0,
        "releasesTotal": 0,
        "releasesSucceeded": 0,
        "releasesFailed": 0,
    }


async def test_a_claim_lasts_fifteen_minutes_by_default(tools: Client) -> None:
    claim = await tools.claim("agent", await tools.add())
    assert ms(claim["claimExpiresAt"]) - ms(claim["claimedAt"]) == 900_000


@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked"])
async def test_items_of_any_open_role_can_be_claimed(tools: Client, role: str) -> None:
    item = await tools.add(role=role)
    assert (await tools.claim("agent", item))["outcome"] == "success"
    assert await tools.role(item) == role


async def test_a_waiting_item_can_be_claimed_and_still_waits_when_released(tools: Client) -> None:
    blocker, item = await tools.add(), await tools.add()
    await tools.link(blocker, item)
    assert (await tools.claim("agent", item))["outcome"] == "success"
    await tools.release("agent", item)
    assert await tools.next(limit=9) == [blocker]


@pytest.mark.every_store
async def test_a_held_item_is_refused_without_naming_its_holder(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("the-holder", item, ttlSeconds=420)
    answer = (
        await tools.answer("claim_item", actor=actor("b"), claims=[{"itemId": item}], requestId=fresh_id())
    ).decode()
    result = await tools.claim("b", item)
    left = result.pop("retryAfterMs")
    assert 400_000 < left <= 420_000
    assert result == {"itemId": item, "outcome": "already_claimed", "kind": "transient", "contendedItemId": item}
    assert "the-holder" not in answer
    assert "claimedBy" not in answer


async def test_a_terminal_item_cannot_be_claimed(tools: Client) -> None:
    item = await tools.add(role="terminal")
    assert await tools.claim("agent", item) == {"itemId": item, "outcome": "terminal_item"}


async def test_terminal_comes_before_ownership(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("agent", item)
    assert (await tools.advance(item, "complete", "agent"))["applied"]
    assert (await tools.claim("agent", item))["outcome"] == "terminal_item"
    assert (await tools.claim("other", item))["outcome"] == "terminal_item"
    assert (await tools.release("agent", item))["outcome"] == "success"


async def test_an_unknown_item_is_not_found(tools: Client) -> None:
    unknown = fresh_id()
    assert await tools.claim("agent", unknown) == {"itemId": unknown, "outcome": "not_found"}
    assert await tools.release("agent", unknown) == {"itemId": unknown, "outcome": "not_found"}


async def test_a_second_claim_releases_the_first(tools: Client) -> None:
    first, second = await tools.add(), await tools.add()
    await tools.claim("agent", first)
    await tools.claim("agent", second)
    assert await tools.next(limit=9) == [first]
    assert (await tools.release("agent", first))["outcome"] == "not_claimed_by_you"
    assert (await tools.release("agent", second))["outcome"] == "success"


@pytest.mark.parametrize("why", ["already_claimed", "terminal_item", "not_found", "stale_fence"])
async def test_a_failed_claim_keeps_the_agents_own(tools: Client, why: str) -> None:
    own, other = await tools.add(), await tools.add(role="terminal" if why == "terminal_item" else "queue")
    await tools.claim("agent", own)
    if why == "already_claimed":
        await tools.claim("rival", other)
    wanted = fresh_id() if why == "not_found" else other
    fields = {"fenceToken": 5} if why == "stale_fence" else {}
    assert (await tools.claim("agent", wanted, **fields))["outcome"] == why
    assert (await tools.release("agent", own))["outcome"] == "success"


async def test_a_lapsed_claim_goes_when_its_agent_claims_another_item(tools: Client) -> None:
    first, second = await tools.add(), await tools.add()
    await tools.claim("agent", first)
    await lapse(tools, first)
    await tools.claim("agent", second)
    assert await tools.next(limit=2) == [first]
    assert (await tools.release("agent", first))["outcome"] == "not_claimed_by_you"


async def test_the_last_claimable_of_several_claims_is_held(tools: Client) -> None:
    """One claim per agent: only the reported success is held after the call."""
    first, second, third = await tools.add_many(3)
    done = await tools.add(role="terminal")
    result = await tools.claims("agent", [{"itemId": item} for item in (first, second, third, done)])
    assert [entry["outcome"] for entry in result["claimResults"]] == [
        "superseded",
        "superseded",
        "success",
        "terminal_item",
    ]
    assert (result["summary"]["claimsSucceeded"], result["summary"]["claimsFailed"]) == (1, 3)
    assert set(await tools.next(limit=9)) == {first, second}


async def test_an_item_listed_twice_is_held(tools: Client) -> None:
    item = await tools.add()
    result = await tools.claims("agent", [{"itemId": item}, {"itemId": item}])
    assert [entry["outcome"] for entry in result["claimResults"]] == ["superseded", "success"]
    assert (await tools.release("agent", item))["outcome"] == "success"


async def test_claims_come_before_releases(tools: Client) -> None:
    item = await tools.add()
    result = await tools.claims("agent", [{"itemId": item}], [{"itemId": item}])
    assert result["claimResults"][0]["outcome"] == "success"
    assert result["releaseResults"] == [{"itemId": item, "outcome": "success"}]
    assert await tools.next() == [item]


async def test_a_heartbeat_extends_and_keeps_the_beginning(tools: Client) -> None:
    item = await tools.add()
    first = await tools.claim("agent", item, ttlSeconds=10)

    async def beat() -> Any:
        claim = await tools.claim("agent", item, ttlSeconds=20)
        return claim if claim["claimedAt"] > first["claimedAt"] else None

    again = await wait_until(beat, what="the clock to move")
    assert again["originalClaimedAt"] == first["claimedAt"]
    assert again["fenceToken"] == first["fenceToken"]
    assert ms(again["claimExpiresAt"]) == ms(again["claimedAt"]) + 20_000


async def test_a_heartbeat_may_shorten(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("agent", item)
    await claim_for(tools, "agent", item, 30)

    async def taken() -> bool:
        return bool((await tools.claim("rival", item))["outcome"] == "success")

    assert await wait_until(taken, what="the shorter claim to expire")


async def test_the_same_agent_after_expiry_keeps_the_beginning_but_not_the_fence(tools: Client) -> None:
    item = await tools.add()
    first = await tools.claim("agent", item)
    before = await lapse(tools, item)
    again = await tools.claim("agent", item)
    assert again["originalClaimedAt"] == before
    assert again["fenceToken"] > first["fenceToken"]


@pytest.mark.parametrize("swept", [False, True])
async def test_another_agent_after_expiry_starts_a_new_claim(tools: Client, swept: bool) -> None:
    item = await tools.add()
    first = await tools.claim("agent", item)
    await lapse(tools, item)
    if swept:
        await tools.next()
    taken = await tools.claim("rival", item)
    assert taken["claimedBy"] == "rival"
    assert taken["fenceToken"] > first["fenceToken"]
    assert taken["originalClaimedAt"] == taken["claimedAt"]
    assert (await tools.claim("agent", item))["outcome"] == "already_claimed"
    assert (await tools.release("agent", item))["outcome"] == "not_claimed_by_you"
    assert not (await audit(tools.store, tools.project)).differences


async def test_the_fence_rises_with_every_new_claim(tools: Client) -> None:
    item = await tools.add()
    fences = []
    for agent in ("a", "b", "a", "a"):
        fences.append((await tools.claim(agent, item))["fenceToken"])
        await tools.release(agent, item)
    assert fences == sorted(set(fences))


async def test_a_fence_is_the_time_or_the_number_after_the_last_one(tools: Client) -> None:
    """So it also rises above fences that a restored server has lost, unless its clock steps back."""
    item = await tools.add()
    before = await tools.store.time()
    claim = await tools.claim("a", item)
    assert before <= claim["fenceToken"] <= await tools.store.time()
    ahead = 2**47
    await set_state(tools, item, fence=ahead)
    await tools.release("a", item)
    assert (await tools.claim("b", item))["fenceToken"] == ahead + 1
    assert (await tools.advance(item, "start", "b", fenceToken=ahead + 1))["applied"]
    events: Any = await tools.store.client.xrange(keys.events.key(tools.project))
    fences = [int(fields[b"f"]) for _, fields in events if fields[b"k"] == b"claim"]
    assert fences == [claim["fenceToken"], ahead + 1]


async def test_a_stale_fence_is_rejected(tools: Client) -> None:
    item = await tools.add()
    old = (await tools.claim("agent", item))["fenceToken"]
    assert (await tools.claim("agent", item, fenceToken=old))["outcome"] == "success"
    await tools.release("agent", item)
    new = (await tools.claim("agent", item))["fenceToken"]
    for result in (
        await tools.claim("agent", item, fenceToken=old),
        await tools.release("agent", item, fenceToken=old),
    ):
        assert result == {
            "itemId": item,
            "outcome": "stale_fence",
            "error": "fenceToken is not that of a claim you hold now",
        }
    assert (await tools.release("agent", item, fenceToken=new))["outcome"] == "success"


async def test_the_fence_of_ones_own_lapsed_claim_is_still_accepted(tools: Client) -> None:
    item = await tools.add()
    fence = (await tools.claim("agent", item))["fenceToken"]
    await lapse(tools, item)
    assert (await tools.claim("agent", item, fenceToken=fence))["fenceToken"] > fence
    assert (await tools.claim("agent", item, fenceToken=fence))["outcome"] == "stale_fence"


async def test_another_agents_fence_is_rejected(tools: Client) -> None:
    item = await tools.add()
    fence = (await tools.claim("agent", item))["fenceToken"]
    await lapse(tools, item)
    assert (await tools.claim("rival", item, fenceToken=fence))["outcome"] == "stale_fence"


async def test_releases(tools: Client) -> None:
    own, others, free = await tools.add_many(3)
    await tools.claim("agent", own)
    await tools.claim("rival", others)
    result = await tools.claims("agent", releases=[{"itemId": item} for item in (own, others, free, own)])
    assert [entry["outcome"] for entry in result["releaseResults"]] == [
        "success",
        "not_claimed_by_you",
        "not_claimed_by_you",
        "not_claimed_by_you",
    ]
    assert (result["summary"]["releasesSucceeded"], result["summary"]["releasesFailed"]) == (1, 3)
    assert "rival" not in str(result)


@pytest.mark.parametrize("swept", [True, False])
async def test_a_lapsed_claim_can_be_released(tools: Client, swept: bool) -> None:
    item = await tools.add()
    await tools.claim("agent", item)
    await lapse(tools, item)
    if swept:
        await tools.next()
    assert (await tools.release("agent", item))["outcome"] == "success"
    assert (await tools.release("agent", item))["outcome"] == "not_claimed_by_you"


async def test_a_claim_does_not_modify_the_item(tools: Client) -> None:
    item = await tools.add()
    before = await tools.get(item)
    await tools.claim("agent", item)
    await tools.release("agent", item)
    assert await tools.get(item) == before


async def test_the_agent_named_in_an_entry_is_ignored(tools: Client) -> None:
    item = await tools.add()
    assert (await tools.claim("agent", item, agentId="somebody-else"))["claimedBy"] == "agent"


@pytest.mark.parametrize(
    "arguments",
    [
        {"claims": [], "releases": []},
        {},
        {"claims": [{"itemId": fresh_id()}], "requestId": "not-a-uuid"},
        {"claims": [{"itemId": fresh_id()}], "requestId": None},
        {"claims": [{"itemId": fresh_id()}], "actor": None},
        {"claims": [{"itemId": fresh_id()}], "actor": {"id": " ", "kind": "user"}},
        {"claims": [{"itemId": fresh_id()}], "actor": {"id": "x" * 501, "kind": "user"}},
        {"claims": [{"itemId": fresh_id()}], "actor": {"id": "x", "kind": "robot"}},
        {"claims": [{"itemId": fresh_id()}], "actor": {"id": "x", "kind": "user", "parent": "x" * 501}},
        {"claims": [{"itemId": fresh_id()}], "actor": {"id": "x", "kind": "user", "proof": "x" * 10_001}},
        {"claims": [{"itemId": "xyz"}]},
        {"releases": [{"itemId": "xyz"}]},
        {"claims": [{"itemId": fresh_id()}] * 101},
        *({"claims": [{"itemId": fresh_id(), "ttlSeconds": ttl}]} for ttl in (0, -1, 86_401, 1.5, "x", None)),
        {"claims": [{"itemId": fresh_id(), "fenceToken": 0}]},
    ],
)
async def test_a_malformed_call_is_rejected_as_a_whole(tools: Client, arguments: dict[str, Any]) -> None:
    call = {"actor": actor("agent"), "requestId": fresh_id(), **arguments}
    failure = await tools.refusal("claim_item", **{name: value for name, value in call.items() if value is not None})
    assert failure.code == "VALIDATION_ERROR"


@pytest.mark.parametrize("ttl", [1, 86_400])
async def test_the_bounds_of_the_ttl_are_inclusive(tools: Client, ttl: int) -> None:
    claim = await tools.claim("agent", await tools.add(), ttlSeconds=ttl)
    assert ms(claim["claimExpiresAt"]) - ms(claim["claimedAt"]) == ttl * 1000


async def test_kinds_are_case_insensitive(tools: Client) -> None:
    item = await tools.add()
    call = {"actor": {"id": "a", "kind": "SubAgent"}, "claims": [{"itemId": item}], "requestId": fresh_id()}
    assert (await tools("claim_item", **call))["claimResults"][0]["outcome"] == "success"


async def test_all_changes_of_claims_are_events(tools: Client) -> None:
    items = await tools.add_many(2)
    claims = [await tools.claim("agent", items[0], ttlSeconds=ttl) for ttl in (100, 200)]
    await tools.release("agent", items[0])
    claims.append(await tools.claim("agent", items[0]))
    await lapse(tools, items[0])
    claims.append(await tools.claim("other", items[1]))
    await tools.delete(items[1])
    entries: Any = await tools.store.client.xrange(keys.events.key(tools.project))
    seen = [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in entries]
    inner = [item.replace("-", "") for item in items]
    ends = [str(ms(claim["claimExpiresAt"])) for claim in claims]
    fences = [str(claim["fenceToken"]) for claim in claims]
    assert [event for event in seen if event["k"] not in ("create", "transition")] == [
        {"k": "claim", "i": inner[0], "a": "agent", "f": fences[0], "x": ends[0]},
        {"k": "renew", "i": inner[0], "a": "agent", "f": fences[0], "x": ends[1]},
        {"k": "release", "i": inner[0], "a": "agent", "f": fences[0]},
        {"k": "claim", "i": inner[0], "a": "agent", "f": fences[2], "x": ends[2]},
        {"k": "expire", "i": inner[0], "a": "agent", "f": fences[2]},
        {"k": "claim", "i": inner[1], "a": "other", "f": fences[3], "x": ends[3]},
        {"k": "delete", "i": inner[1]},
    ]


async def test_a_claim_and_its_release_of_another_are_one_event(tools: Client) -> None:
    first, second = await tools.add_many(2)
    await tools.claim("other", first)
    await tools.release("other", first)
    fences = [str((await tools.claim("agent", item))["fenceToken"]) for item in (first, second)]
    entries: Any = await tools.store.client.xrevrange(keys.events.key(tools.project), count=2)
    latest, before = ({name.decode(): value.decode() for name, value in fields.items()} for _, fields in entries)
    inner = [item.replace("-", "") for item in (first, second)]
    assert {name: before[name] for name in ("k", "i", "a", "f")} == {
        "k": "claim",
        "i": inner[0],
        "a": "agent",
        "f": fences[0],
    }
    assert int(latest.pop("x")) > 0
    assert latest == {"k": "claim", "i": inner[1], "a": "agent", "f": fences[1], "o": inner[0], "p": fences[0]}


async def test_a_waiting_item_is_claimed_with_the_reason_why_it_cannot_start(tools: Client) -> None:
    item, done = await tools.add(), await tools.add(role="terminal")
    first, second = await tools.add(), await tools.add(role="work")
    await tools.link(first, item)
    await tools.link(item, second, type="IS_BLOCKED_BY", unblockAt="review")
    await tools.link(done, item)
    request = fresh_id()
    answer = await tools.claims("ann", [{"itemId": item}], request_id=request)
    (claim,) = answer["claimResults"]
    assert (claim["outcome"], claim["claimedBy"], claim["ready"]) == ("success", "ann", False)
    assert claim["reason"] == "2 blocking dependencies are not satisfied"
    expected = {(first, "queue", "terminal"), (second, "work", "review")}
    assert {tuple(blocker.values()) for blocker in claim["blockers"]} == expected
    assert await tools.claims("ann", [{"itemId": item}], request_id=request) == answer
    await tools.move(first, "complete")
    renewed = await tools.claim("ann", item)
    assert (renewed["ready"], len(renewed["blockers"])) == (False, 1)
    await tools.move(second, "complete")
    assert not {"ready", "reason", "blockers"} & (await tools.claim("ann", item)).keys()
    assert (await tools.advance(item, "start", "ann"))["applied"]


async def test_a_blocked_item_is_claimed_with_a_hint_to_resume(tools: Client) -> None:
    item, other = await tools.add(role="blocked"), await tools.add()
    claims = [{"itemId": other}, {"itemId": fresh_id()}, {"itemId": item}]
    results = (await tools.claims("ann", claims))["claimResults"]
    assert ["ready" in result for result in results] == [False, False, True]
    assert (results[2]["reason"], results[2]["blockers"]) == ("it is in role blocked: apply 'resume' first", [])
    assert (await tools.advance(item, "resume", "ann"))["newRole"] == "queue"


async def test_the_list_of_blockers_is_bounded(tools: Client) -> None:
    item, *blockers = await tools.add_many(31)
    await tools.link_all((blocker, item) for blocker in blockers)
    claim = await tools.claim("ann", item)
    assert claim["reason"] == "30 blocking dependencies are not satisfied"
    assert len(claim["blockers"]) == 20
    assert {blocker["fromItemId"] for blocker in claim["blockers"]} <= set(blockers)
