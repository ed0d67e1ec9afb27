"""Claims by selector: answers, refusals and retries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.toolsets.metrics import RESTARTS_OF_OPERATIONS
from coordinator.toolsets.timestamp import iso
from tests.items.client import Client, Json, counts, fresh_id
from tests.items.moments import lapse, ms, set_state
from tests.items.parked import Fronts
from tests.items.selectors import call_of, take
from tests.support.counts import counted

pytestmark = pytest.mark.anyio

NO_MATCH = {"outcome": "no_match", "kind": "transient", "code": "no_match", "retryAfterMs": 1000}


@pytest.mark.every_store
async def test_the_best_item_is_found_and_claimed(tools: Client) -> None:
    await tools.add(priority="low")
    item = await tools.add(priority="high")
    answer = await tools("claim_item", **call_of("agent", {}, claimRef="mine", ttlSeconds=60))
    (claim,) = answer["claimResults"]
    assert claim == {
        "itemId": item,
        "outcome": "success",
        "selectorResolved": True,
        "role": "queue",
        "claimRef": "mine",
        "claimedBy": "agent",
        "claimedAt": claim["claimedAt"],
        "claimExpiresAt": claim["claimExpiresAt"],
        "originalClaimedAt": claim["claimedAt"],
        "fenceToken": claim["fenceToken"],
    }
    assert ms(claim["claimExpiresAt"]) - ms(claim["claimedAt"]) == 60_000
    assert answer["releaseResults"] == []
    assert answer["summary"] == {
        "claimsTotal": 1,
        "claimsSucceeded": 1,
        "claimsFailed": 0,
        "releasesTotal": 0,
        "releasesSucceeded": 0,
        "releasesFailed": 0,
    }
    assert (await tools.claim("rival", item))["outcome"] == "already_claimed"


async def test_no_match(tools: Client) -> None:
    await tools.add(tags="ui")
    answer = await tools("claim_item", **call_of("agent", {"tags": "api"}, claimRef="mine"))
    assert answer["claimResults"] == [{**NO_MATCH, "claimRef": "mine"}]
    assert answer["summary"]["claimsFailed"] == 1


async def test_held_items_are_not_offered_even_to_their_holder(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("agent", item)
    assert (await take(tools, "agent"))["outcome"] == "no_match"
    assert (await take(tools, "rival"))["outcome"] == "no_match"
    assert (await tools.release("agent", item))["outcome"] == "success", "nothing was released"


async def test_the_earlier_claim_is_released(tools: Client) -> None:
    first, second = await tools.add(priority="high"), await tools.add()
    assert (await take(tools, "agent"))["itemId"] == first
    assert (await take(tools, "agent"))["itemId"] == second
    assert await tools.next(limit=9) == [first]


async def test_an_item_without_an_unsatisfied_dependency_is_found(tools: Client) -> None:
    blocker, item = await tools.add(role="work"), await tools.add()
    await tools.link(blocker, item)
    assert await take(tools, "agent") == {**NO_MATCH, "heldBack": counts(dependencies=1)}
    await tools.move(blocker, "complete")
    assert (await take(tools, "agent"))["itemId"] == item


@pytest.mark.parametrize("swept", [True, False])
async def test_an_expired_claim_is_no_obstacle(tools: Client, swept: bool) -> None:
    item = await tools.add()
    first = await tools.claim("holder", item)
    await lapse(tools, item)
    if swept:
        await tools.next()
    claim = await take(tools, "agent")
    assert claim["itemId"] == item
    assert claim["fenceToken"] > first["fenceToken"]
    assert claim["originalClaimedAt"] == claim["claimedAt"]


@pytest.mark.parametrize(("expired", "tags"), [(20, 0), (40, 0), (80, 32)])
async def test_an_item_behind_many_expired_claims_is_found(tools: Client, expired: int, tags: int) -> None:
    """Expired claims are put back in batches, before it is known which one matches."""
    ids = await tools.add_many(expired, type="other", tags=",".join(f"t{n}" for n in range(tags)))
    wanted = await tools.add(type="wanted")
    for number, item in enumerate((*ids, wanted)):
        await tools.claim(f"agent-{number}", item)
    for item in (*ids, wanted):
        await lapse(tools, item)
    assert (await take(tools, "agent", {"type": "wanted"}))["itemId"] == wanted


async def test_an_item_behind_hundreds_of_candidates_is_found(tools: Client) -> None:
    held = await tools.add()
    await tools.claim("holder", held)
    for _ in range(5):
        await tools.add_many(100, parentId=held, priority="high")
    item = await tools.add(priority="low")
    assert (await take(tools, "agent"))["itemId"] == item
    assert await tools.next() == []


@pytest.mark.parametrize("prefix", [4, 8, 32])
async def test_the_parent_may_be_a_prefix(tools: Client, prefix: int) -> None:
    parent = await tools.add(role="work")
    item = await tools.add(parentId=parent)
    await tools.add(priority="high")
    short = parent.replace("-", "")[:prefix].upper()
    assert (await take(tools, "agent", {"parentId": short}))["itemId"] == item


async def test_an_item_released_by_the_same_call_is_not_found(tools: Client) -> None:
    own, free = await tools.add(priority="high"), await tools.add()
    await tools.claim("agent", own)
    answer = await tools("claim_item", **call_of("agent", {}, releases=[own, fresh_id()]))
    assert answer["claimResults"][0]["itemId"] == free
    assert [entry["outcome"] for entry in answer["releaseResults"]] == ["success", "not_found"]
    assert await tools.next(limit=9) == [own]


async def test_the_found_item_may_be_released_in_the_same_call(tools: Client) -> None:
    item = await tools.add("found", tags="q")
    call = call_of("agent", {"tags": "q"}, releases=[item])
    answer = await tools("claim_item", **call)
    assert answer["claimResults"][0]["outcome"] == "success"
    assert answer["claimResults"][0]["fenceToken"] > 0
    assert answer["releaseResults"] == [{"itemId": item, "outcome": "success"}]
    assert await tools("claim_item", **call) == answer
    assert (await take(tools, "other", {"tags": "q"}))["itemId"] == item


async def test_releases_are_carried_out_without_a_match(tools: Client) -> None:
    own = await tools.add()
    await tools.claim("agent", own)
    answer = await tools("claim_item", **call_of("agent", {}, releases=[own]))
    assert answer["claimResults"] == [NO_MATCH]
    assert answer["releaseResults"] == [{"itemId": own, "outcome": "success"}]
    assert await tools.next() == [own]


async def test_a_release_with_a_stale_fence_is_rejected(tools: Client) -> None:
    own = await tools.add(role="work")
    fence = (await tools.claim("agent", own))["fenceToken"]
    call = call_of("agent", {})
    answer = await tools("claim_item", **call, releases=[{"itemId": own, "fenceToken": fence + 1}])
    assert answer["releaseResults"][0]["outcome"] == "stale_fence"
    assert (await tools.claim("rival", own))["outcome"] == "already_claimed"


async def test_the_fence_of_a_selected_claim_is_accepted_in_later_calls(tools: Client) -> None:
    item = await tools.add()
    fence = (await take(tools, "agent"))["fenceToken"]
    assert (await tools.advance(item, "start", "agent", fenceToken=fence))["applied"]
    assert (await tools.claim("agent", item, fenceToken=fence))["outcome"] == "success"
    await lapse(tools, item)
    assert (await take(tools, "agent", {"role": "work"}))["fenceToken"] > fence
    assert (await tools.advance(item, "start", "agent", fenceToken=fence))["errorCode"] == "stale_fence"
    assert (await tools.claim("agent", item, fenceToken=fence))["outcome"] == "stale_fence"


async def test_a_retry_gets_the_first_item(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    item = await tools.add()
    call = call_of("agent", {})
    answer = await tools("claim_item", **call)
    await tools.add(priority="high")
    assert await other("claim_item", **call) == answer
    await tools.advance(item, "complete", "agent")
    await tools.release("agent", item)
    await tools.delete(item)
    assert await other("claim_item", **call) == answer
    assert len(await tools.next(limit=9)) == 1


async def test_a_retry_of_a_search_without_match_finds_nothing(tools: Client) -> None:
    parent = await tools.add(role="work")
    call = call_of("agent", {"parentId": parent[:8]})
    answer = await tools("claim_item", **call)
    assert answer["claimResults"] == [NO_MATCH]
    await tools.add(parentId=parent)
    assert await tools("claim_item", **call) == answer
    await tools.delete(parent, recursive=True)
    assert await tools("claim_item", **call) == answer, "although the prefix means nothing any more"


@pytest.mark.parametrize("change", [{"role": "queue"}, {"tags": "api"}, {"orderBy": "oldest"}])
async def test_a_request_id_with_another_selector_is_rejected(tools: Client, change: Json) -> None:
    call = call_of("agent", {})
    await tools("claim_item", **call)
    failure = await tools.refusal("claim_item", **call_of("agent", change, request_id=call["requestId"]))
    assert failure.code == "request_id_reused"


async def test_many_callers_and_few_items(fronts: Fronts) -> None:
    pair = await fronts.pair()
    items = await pair[0].add_many(10)
    claims = await asyncio.gather(*(take(pair[number % 2], f"agent-{number}") for number in range(25)))
    assert sorted(claim["itemId"] for claim in claims if claim["outcome"] == "success") == sorted(items)
    assert [claim for claim in claims if claim["outcome"] != "success"] == [NO_MATCH] * 15


async def test_identical_concurrent_calls_have_one_answer(fronts: Fronts) -> None:
    pair = await fronts.pair()
    await pair[0].add_many(5)
    call = call_of("agent", {})
    answers = await asyncio.gather(*(pair[number % 2].answer("claim_item", **call) for number in range(20)))
    assert len(set(answers)) == 1
    assert len(await pair[0].next(limit=9)) == 4


SELECTOR = "claims[0].selector"
ID = fresh_id()


@pytest.mark.parametrize(
    ("claims", "more", "begins"),
    [
        ([{"itemId": ID, "selector": {}}], {}, "claims[0]: give exactly one of itemId and selector"),
        ([{}], {}, "claims[0]: give exactly one of itemId and selector"),
        ([{"itemId": ID}, {"selector": {}}], {}, "claims[1].selector: must be the only claim"),
        ([{"selector": {}}, {"selector": {}}], {}, "claims[0].selector: must be the only claim"),
        ([{"selector": {}, "fenceToken": 1}], {}, "claims[0].fenceToken: goes with itemId"),
        ([{"selector": {}, "claimRef": " "}], {}, "claims[0].claimRef: must be 1 to 64 characters"),
        ([{"selector": {}, "claimRef": "x" * 65}], {}, "claims[0].claimRef: must be 1 to 64 characters"),
        ([{"itemId": ID}], {"waitMs": 1}, "waitMs: needs a claim by selector"),
        ([], {"waitMs": 1, "releases": [{"itemId": ID}]}, "waitMs: needs a claim by selector"),
        *(([{"selector": {"role": role}}], {}, f"{SELECTOR}.role: ") for role in ("terminal", "done", "x" * 99)),
        ([{"selector": {"priority": "urgent"}}], {}, f"{SELECTOR}.priority: 'urgent' is not one of high, medium, low"),
        ([{"selector": {"orderBy": "random"}}], {}, f"{SELECTOR}.orderBy: 'random' is not one of priority, oldest"),
        ([{"selector": {"tags": "api, No"}}], {}, f"{SELECTOR}.tags: 'No' must be lower-case"),
        ([{"selector": {"type": "x" * 201}}], {}, f"{SELECTOR}.type: must be at most"),
        ([{"selector": {"parentId": "xyz"}}], {}, f"{SELECTOR}.parentId: must be a UUID"),
        ([{"selector": {"complexityMax": 0}}], {}, f"{SELECTOR}.complexityMax: must be 1 to 10, not 0"),
        ([{"selector": {"complexityMax": 11}}], {}, f"{SELECTOR}.complexityMax: must be 1 to 10, not 11"),
        *(
            ([{"selector": {name: bad}}], {}, f"{SELECTOR}.{name}: must be an ISO-8601 time with a zone")
            for name in ("createdAfter", "createdBefore", "roleChangedAfter", "roleChangedBefore")
            for bad in ("yesterday", "2026-01-01T00:00:00")
        ),
        *(
            (
                [{"selector": {f"{name}After": "2026-01-02T00:00:00Z", f"{name}Before": "2026-01-01T00:00:00Z"}}],
                {},
                f"{SELECTOR}.{name}After: must not be later than {SELECTOR}.{name}Before",
            )
            for name in ("created", "roleChanged")
        ),
    ],
)
async def test_a_malformed_call_is_rejected_with_the_place(
    tools: Client, claims: list[Json], more: Json, begins: str
) -> None:
    await tools.add()
    failure = await tools.refusal("claim_item", **{**call_of("agent"), "claims": claims, **more})
    assert failure.code == "VALIDATION_ERROR"
    assert failure.message.startswith(begins), failure.message
    assert len(await tools.next()) == 1


@pytest.mark.parametrize(
    ("claims", "more", "place"),
    [
        ([{"selector": {"colour": "red"}}], {}, "$.claims[0].selector"),
        ([{"selector": {"complexityMax": 2.5}}], {}, "$.claims[0].selector.complexityMax"),
        ([{"selector": "queue"}], {}, "$.claims[0].selector"),
        ([{"selector": {}}], {"waitMs": -1}, "$.waitMs"),
        ([{"selector": {}}], {"waitMs": 60_001}, "$.waitMs"),
        ([{"selector": {}}], {"waitMs": "soon"}, "$.waitMs"),
    ],
)
async def test_arguments_of_a_wrong_type_are_rejected(
    tools: Client, claims: list[Json], more: Json, place: str
) -> None:
    failure = await tools.refusal("claim_item", **{**call_of("agent"), "claims": claims, **more})
    assert failure.code == "VALIDATION_ERROR"
    assert place in failure.message


@pytest.mark.parametrize(
    ("filters", "begins"),
    [
        ({"parentId": ID}, "parentId: no such item"),
        ({"ancestorId": ID}, "ancestorId: no such item"),
        ({"ancestorId": "0000"}, "ancestorId: no item's id begins with '0000'"),
    ],
)
async def test_unknown_ancestors_and_parents_are_rejected(tools: Client, filters: Json, begins: str) -> None:
    failure = await tools.refusal("get_next_item", **filters)
    assert failure.code == "RESOURCE_NOT_FOUND"
    assert failure.message.startswith(begins)


async def test_an_unknown_parent_of_a_selector_is_rejected(tools: Client) -> None:
    for field in ("parentId", "ancestorId"):
        failure = await tools.refusal("claim_item", **call_of("agent", {field: ID}))
        assert (failure.code, failure.message) == ("RESOURCE_NOT_FOUND", f"{SELECTOR}.{field}: no such item")


@pytest.mark.parametrize(
    ("filters", "place"),
    [
        ({"complexityMax": 11}, "complexityMax: "),
        ({"createdAfter": "soon"}, "createdAfter: "),
        (
            {"roleChangedAfter": "2026-01-02T00:00:00Z", "roleChangedBefore": "2026-01-01T00:00:00Z"},
            "roleChangedAfter: ",
        ),
        ({"tags": "A"}, "tags: "),
        ({"orderBy": "best"}, "orderBy: "),
        ({"ancestorId": "xyz"}, "ancestorId: "),
    ],
)
async def test_get_next_item_names_the_filter_at_fault(tools: Client, filters: Json, place: str) -> None:
    failure = await tools.refusal("get_next_item", **filters)
    assert failure.code == "VALIDATION_ERROR"
    assert failure.message.startswith(place)


@pytest.mark.parametrize(
    "filters", [{"tags": " , "}, {"tags": ""}, {"createdAfter": " "}, {"parentId": ""}, {"type": ""}]
)
async def test_blank_filters_count_as_absent(tools: Client, filters: dict[str, Any]) -> None:
    item = await tools.add()
    assert await tools.next(**filters) == [item]
    assert (await take(tools, "agent", filters))["itemId"] == item


@pytest.mark.parametrize("order", ["priority", "oldest", "newest"])
async def test_times_before_the_first_item_are_valid_bounds(tools: Client, order: str) -> None:
    item = await tools.add()
    for early in ("1960-01-01T00:00:00Z", "1970-01-01T00:00:00Z"):
        assert await tools.next(createdAfter=early, orderBy=order) == [item]
        assert await tools.next(createdBefore=early, orderBy=order) == []
        assert await tools.next(roleChangedBefore=early, orderBy=order) == []


@pytest.mark.parametrize(
    ("selector", "outcome"),
    [({"roleChangedBefore": 59_999}, "no_match"), ({"roleChangedBefore": 60_000}, "success"),
     ({"roleChangedAfter": 60_000}, "success"), ({"roleChangedAfter": 60_001}, "no_match")],
)  # fmt: skip
async def test_selectors_filter_by_the_time_of_role_changes(
    tools: Client, selector: dict[str, int], outcome: str
) -> None:
    """Here a minute after creation; the bounds are ms after that."""
    item = await tools.add()
    created = ms((await tools.get(item))["createdAt"])
    await set_state(tools, item, role_changed=created + 60_000)
    claim = await take(tools, "agent", {name: iso(created + after) for name, after in selector.items()})
    assert claim["outcome"] == outcome


async def test_bounds_are_exact_below_a_millisecond(tools: Client) -> None:
    item = await tools.add()
    at = (await tools.get(item))["createdAt"]
    later = at.replace("Z", "001Z")
    for name in ("created", "roleChanged"):
        assert await tools.next(**{f"{name}After": at, f"{name}Before": later}) == [item]
        assert await tools.next(**{f"{name}After": later}) == []


@pytest.mark.parametrize("tool", ["claim_item", "get_next_item"])
async def test_a_restarted_search_is_counted(tools: Client, tool: str) -> None:
    """Expired claims are put back in bounded batches: their items may rank before the cursor."""
    items = [item for _ in range(5) for item in await tools.add_many(50, tags="other")]
    agents = [f"agent-{number}" for number in range(len(items))]
    await asyncio.gather(*(tools.claim(agent, item) for agent, item in zip(agents, items, strict=True)))
    await asyncio.gather(*(lapse(tools, item) for item in items))
    before = counted(RESTARTS_OF_OPERATIONS, tool)
    for again in (1, 0):
        if tool == "claim_item":
            assert (await take(tools, "agent", {"tags": "none-such"}))["outcome"] == "no_match"
        else:
            assert await tools.next(tags="none-such") == []
        assert counted(RESTARTS_OF_OPERATIONS, tool) == before + 1, "once, for both" if not again else "the first"


async def test_an_item_that_rises_behind_a_long_search_is_recommended(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item is ready all the time, and rises behind the cursor of a search of several runs."""
    held = await tools.add()
    await tools.claim("holder", held)
    await tools.add_many(1000, parentId=held, priority="high", tags="a")
    item = await tools.add(priority="low", tags="a")
    runs = 0
    run = tools.store.run

    async def with_a_rise_in_between(script: Any, project: str, *args: Any, **more: Any) -> Any:
        nonlocal runs
        reply = await run(script, project, *args, **more)
        if script.name == "next_items":
            runs += 1
            if runs == 1:
                await tools.update(item, priority="high", complexity=1)
        return reply

    monkeypatch.setattr(tools.store, "run", with_a_rise_in_between)
    assert await tools.next(tags="a") == [item]
    assert runs > 2
