"""Ancestor protection: who may take items below a held one."""

from __future__ import annotations

import pytest

from coordinator.settings import Settings
from tests.items.client import Client, actor, fresh_id
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

ANY = {"parents": "any"}


@pytest.mark.parametrize("above", [0, 1, 2])
async def test_nothing_is_found_below_a_held_item(tools: Client, above: int) -> None:
    ids = await tools.chain(3)
    await tools.claim("holder", ids[above])
    assert set(await tools.next(limit=9)) == set(ids[:above])
    for other in ids[:above]:
        assert not {*await tools.next(limit=9, ancestorId=other)} & {*ids[above:]}
        await tools.advance(other, "cancel")
    assert (await take(tools, "agent"))["outcome"] == "no_match"


@pytest.mark.parametrize("above", [0, 1, 2])
async def test_a_named_scope_is_not_shielded(tools: Client, above: int) -> None:
    """By a claim at or above it; a claim within it shields the items below that."""
    ids = await tools.chain(3)
    await tools.claim("holder", ids[above])
    for scope in range(above, 3):
        assert set(await tools.next(limit=9, ancestorId=ids[scope])) == set(ids[scope + 1 :])
        assert await tools.next(limit=9, parentId=ids[scope]) == [ids[scope + 1]]
        assert (await take(tools, "agent", {"parentId": ids[scope], **ANY}))["itemId"] == ids[scope + 1]
        await tools.release("agent", ids[scope + 1])
        best = (await tools.next(ancestorId=ids[scope]))[0]
        assert (await take(tools, "agent", {"ancestorId": ids[scope], **ANY}))["itemId"] == best
        await tools.release("agent", best)
    assert set(await tools.next(limit=9)) == set(ids[:above])


async def test_a_scope_is_shielded_by_claims_within_it(tools: Client) -> None:
    ids = await tools.chain(3)
    await tools.claim("above", ids[0])
    await tools.claim("within", ids[2])
    assert await tools.next(limit=9, ancestorId=ids[0]) == [ids[1]]
    assert await tools.next(limit=9, parentId=ids[2], ancestorId=ids[0]) == [ids[3]], "the narrower scope counts"
    assert (await take(tools, "within", {"ancestorId": ids[1]}))["itemId"] == ids[3]


async def test_parked_calls_in_a_scope_are_served_for_any_holder(fronts: Fronts) -> None:
    """In order of arrival; a claim within the scope leaves the item to others."""
    tools, other = await fronts.pair()
    root = await tools.add(role="review")
    feature, busy = await tools.add_many(2, role="review", parentId=root)
    await tools.claim("boss", feature)
    await tools.claim("rival", busy)
    unscoped = await tools.park("unscoped")
    calls = [
        await front.park(f"agent-{n}", scope)
        for n, (front, scope) in enumerate(
            ((other, {"parentId": feature}), (tools, {"ancestorId": feature}), (other, {"ancestorId": root}))
        )
    ]
    items = await tools.add_many(2, parentId=feature)
    assert [await call.item() for call in calls[:2]] == items
    await tools.add(parentId=feature)
    await tools.add(parentId=busy)
    assert [unscoped.waits, calls[2].waits] == [True, True]
    direct = await tools.add(parentId=root)
    assert await unscoped.item() == direct, "nobody holds anything above it, and this call came first"
    await tools.release("boss", feature)
    assert (await tools.get(await calls[2].item()))["parentId"] == feature


async def test_a_waiting_call_is_served_from_below_its_ancestor_at_any_depth(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    ids = [await tools.add(role="review")]
    for _ in range(2):
        ids.append(await tools.add(parentId=ids[-1], role="review"))
    beside = await tools.add(role="review")
    calls = [await front.park(f"agent-{n}", {"ancestorId": ids[n]}) for n, front in enumerate((tools, other, tools))]
    await tools.add(parentId=beside)
    assert all(call.waits for call in calls)
    first, second = await tools.add(parentId=ids[2]), await tools.add(parentId=ids[0])
    assert await calls[0].item() == first, "it has waited longest"
    assert [call.waits for call in calls] == [False, True, True]
    await tools.update(second, parentId=ids[1])
    assert await calls[1].item() == second, "what is moved below it suits as well"


@pytest.mark.parametrize("above", [0, 1, 2])
async def test_ones_own_claim_above_does_not_shield(tools: Client, above: int) -> None:
    ids = await tools.chain(3)
    await tools.claim("agent", ids[above])
    claim = await take(tools, "agent", {"parentId": ids[2]})
    assert (claim["outcome"], claim["itemId"]) == ("success", ids[3])
    assert (await tools.claim("rival", ids[above]))["outcome"] == "success", "one claim per agent"


async def test_both_of_two_held_ancestors_must_be_ones_own(tools: Client) -> None:
    ids = await tools.chain(2)
    await tools.claim("agent", ids[0])
    await tools.claim("rival", ids[1])
    for name in ("agent", "rival", "third"):
        assert (await take(tools, name))["outcome"] == "no_match"


async def test_claims_by_id_are_not_shielded(tools: Client) -> None:
    ids = await tools.chain(1)
    await tools.claim("holder", ids[0])
    assert (await tools.claim("agent", ids[1]))["outcome"] == "success"


async def test_items_beside_and_above_are_found(tools: Client) -> None:
    root = await tools.add(role="work")
    held, beside = await tools.add_many(2, parentId=root)
    await tools.add(parentId=held, priority="high")
    await tools.claim("holder", held)
    assert (await take(tools, "agent"))["itemId"] == beside


@pytest.mark.parametrize("how", ["released", "expired", "expired and swept", "moved", "let go"])
async def test_the_shield_ends_with_the_claim(tools: Client, how: str) -> None:
    root = await tools.add(role="blocked")
    item = await tools.add(parentId=await tools.add(parentId=root, role="review"))
    await tools.claim("holder", root)
    assert await tools.next() == []
    if how == "released":
        await tools.release("holder", root)
    elif how == "let go":
        await tools.claim("holder", await tools.add(role="work"))
    elif how == "moved":
        await tools.update(item, parentId=None)
    else:
        await lapse(tools, root)
        if how == "expired and swept":
            await tools.next(role="work")
    assert await tools.next() == [item]
    assert (await take(tools, "agent"))["itemId"] == item


async def test_held_and_shielded_items_are_visible(tools: Client) -> None:
    """get_next_item with includeClaimed shows everything; isClaimed refers to the item itself."""
    held = await tools.add(priority="high")
    below = await tools.add(parentId=held)
    await tools.claim("holder", held)
    entries = (await tools("get_next_item", includeClaimed=True, limit=9))["recommendations"]
    assert [(entry["itemId"], entry["isClaimed"]) for entry in entries] == [(held, True), (below, False)]


@pytest.mark.parametrize("how", ["released", "expired", "moved"])
@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_parked_calls_get_items_freed_below_a_held_one(fronts: Fronts, how: str, depth: int) -> None:
    tools, other = await fronts.pair()
    ids = [await tools.add(role="review")]
    for _ in range(depth):
        ids.append(await tools.add(parentId=ids[-1], role="review"))
    held = ids[depth - 1]
    item = await tools.add(role="work") if depth == 3 else await tools.add(parentId=ids[-1], role="work")
    if depth == 3:
        await tools.update(item, parentId=held)
    holder = await tools.add(role="blocked")
    await tools.claim("holder", held if how != "moved" else ids[0])
    call = await other.park("agent", {"role": "work"})
    if how == "released":
        await tools.claim("holder", holder)
    elif how == "expired":
        await lapse(tools, held)
    else:
        await tools.update(ids[1] if depth > 1 else item, parentId=None)
    assert await call.item() == item


@pytest.mark.parametrize("count", [17, 90, 130])
async def test_a_parked_call_gets_any_of_many_items_below(fronts: Fronts, count: int) -> None:
    """Few are checked at once; with more the first caller is told to retry."""
    tools, other = await fronts.pair()
    root = await tools.add(role="review")
    for begin in range(0, count, 100):
        await tools.add_many(min(100, count - begin), parentId=root, priority="high")
    wanted = [await tools.add(parentId=root, priority="low", tags="rare") for _ in range(3)]
    await tools.claim("holder", root)
    calls = [await front.park(f"agent-{n}", {"tags": "rare"}) for n, front in enumerate((tools, other, tools, other))]
    await tools.release("holder", root)
    assert {await call.item() for call in calls[:3]} == set(wanted)
    assert calls[3].waits


@pytest.mark.parametrize("holds", ["above", "below", "beside"])
async def test_many_items_available_to_one_agent_wake_it_in_any_queue(fronts: Fronts, holds: str) -> None:
    """Items below two held ones are available only to the holder of the other one."""
    tools, other = await fronts.pair()
    root = await tools.add(role="review")
    middle = await tools.add(role="review", parentId=root)
    apart = await tools.add(role="review")
    await tools.claim("agent", {"above": root, "below": middle, "beside": apart}[holds])
    await tools.claim("holder", root if holds == "below" else middle)
    for above in (root, middle):
        for count in (99, 10):
            await tools.add_many(count, parentId=above, priority="high")
    item = await tools.add(parentId=middle, priority="low")
    waiting = (("a", tools), ("b", other), ("c", tools), ("agent", other), ("z", tools))
    first, *_, call, last = [await front.park(who, {"priority": "low"}) for who, front in waiting]
    await tools.release("holder", root if holds == "below" else middle)
    served = first if holds == "beside" else call
    assert await served.item() == item
    assert [one.waits for one in (first, call, last)] == [one is not served for one in (first, call, last)]


async def test_many_items_below_two_freed_ones_wake_the_holder_below_the_first(
    fronts: Fronts,
) -> None:
    tools, other = await fronts.pair()
    root = await tools.add(role="review")
    middle, side = await tools.add_many(2, role="review", parentId=root)
    for count in (99, 10):
        await tools.add_many(count, parentId=root, priority="high")
    item = await tools.add(parentId=side, priority="low")
    for who, held in (("one", root), ("two", middle), ("agent", side)):
        await tools.claim(who, held)
    first, call = await tools.park("a", {"priority": "low"}), await other.park("agent", {"priority": "low"})
    for held in (root, middle):
        await lapse(tools, held)
    await tools.next()
    assert await call.item() == item
    assert first.waits


async def test_a_caller_skipped_for_a_holder_gets_the_next_item(fronts: Fronts) -> None:
    """Within one script, if the holder of another item is queued behind a served caller."""
    tools, other = await fronts.pair()
    roots = [await tools.add(role="review") for _ in range(2)]
    calls = []
    for number, who in enumerate(("first", "one", "two", "last")):
        if who in ("one", "two"):
            await tools.claim(who, roots[number - 1])
        calls.append(await (tools, other)[number % 2].park(who))
    specs = [
        {"title": "for one", "priority": "high", "parentId": roots[0]},
        {"title": "for two", "priority": "medium", "parentId": roots[1]},
        {"title": "for anybody", "priority": "low"},
    ]
    made = [item["id"] for item in (await tools.create(*specs))["items"]]
    assert [await calls[number].item() for number in (1, 2, 0)] == made
    assert calls[3].waits


async def test_items_below_waiting_or_finished_children_are_found(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    root, blocker = await tools.add(role="review"), await tools.add(role="review")
    waits = await tools.add(parentId=root)
    done = await tools.add(parentId=root, role="terminal")
    items = {await tools.add(parentId=parent) for parent in (waits, done)}
    await tools.link(blocker, waits)
    await tools.claim("holder", root)
    calls = [await other.park("a"), await tools.park("b")]
    await tools.release("holder", root)
    assert {await call.item() for call in calls} == items


async def test_a_new_item_below_a_held_one_goes_only_to_its_holder(fronts: Fronts) -> None:
    """Even with many earlier waiters."""
    tools, other = await fronts.pair()
    root = await tools.add(role="review")
    await tools.claim("holder", root)
    calls = [await front.park(f"agent-{n}") for n in range(20) for front in (tools, other)][:40]
    own = await other.park("holder")
    item = await tools.add(parentId=root)
    assert await own.item() == item
    assert all(call.waits for call in calls)


async def test_a_new_item_below_two_held_ones_waits_until_one_is_released(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    root = await tools.add(role="review")
    middle = await tools.add(role="review", parentId=root)
    await tools.claim("above", root)
    await tools.claim("below", middle)
    calls = [await front.park(who) for who, front in (("third", tools), ("above", other), ("below", tools))]
    item = await tools.add(parentId=middle)
    assert all([await tools.is_parked(call) for call in calls])
    await tools.release("above", root)
    assert await calls[2].item() == item
    assert [call.waits for call in calls] == [True, True, False]


async def test_items_below_a_taken_over_one_are_available_to_the_new_holder(fronts: Fronts) -> None:
    """So many claims have expired that this one was not put back before."""
    tools, other = await fronts.pair()
    root = await tools.add(role="blocked")
    item = await tools.add(parentId=root)
    held = [*await tools.add_many(20, role="blocked"), root]
    for number, one in enumerate(held):
        await tools.claim(f"holder-{number}", one)
    call = await other.park("agent")
    for one in held:
        await lapse(tools, one)
    await tools.claim("agent", root)
    assert await call.item() == item


async def test_claims_placed_by_one_call_shield_later_items(fronts: Fronts) -> None:
    """A tree is handed out from its root, in one step: items below a taken one stay."""
    tools, other = await fronts.pair()
    calls = [await front.park(f"agent-{n}", ANY) for n, front in enumerate((tools, other, tools))]
    root = {"title": "root", "priority": "high"}
    children = [{"ref": ref, "title": ref, "priority": "low"} for ref in "ab"]
    tree = await tools("create_work_tree", root=root, children=children)
    assert await calls[0].item() == tree["root"]["id"]
    assert calls[1].waits
    assert calls[2].waits
    await tools.release("agent-0", tree["root"]["id"])
    assert {await calls[1].item()} <= {tree["root"]["id"], *(child["id"] for child in tree["children"])}


async def test_items_taken_in_between_shield_at_once(fronts: Fronts) -> None:
    """Child, root, child: the second child is checked again after the root was taken."""
    tools, other = await fronts.pair()
    calls = [await front.park(f"agent-{n}", ANY) for n, front in enumerate((tools, other, tools))]
    root = {"title": "root", "priority": "medium"}
    children = [{"ref": priority, "title": priority, "priority": priority} for priority in ("high", "low")]
    tree = await tools("create_work_tree", root=root, children=children)
    assert [await call.item() for call in calls[:2]] == [tree["children"][0]["id"], tree["root"]["id"]]
    assert calls[2].waits


async def test_an_item_released_for_one_below_it_no_longer_shields(fronts: Fronts) -> None:
    """The search that finds the one item knows that the other one shields it from others until then."""
    tools, other = await fronts.pair()
    root = await tools.add(role="review")
    await tools.claim("holder", root)
    first, second = [await tools.add(parentId=root, priority=priority) for priority in ("high", "low")]
    call = await other.park("waiter")
    assert (await take(tools, "holder"))["itemId"] == first
    assert await call.item() == second


async def test_items_released_in_between_no_longer_shield(fronts: Fronts) -> None:
    """The holder of the root gets another item in the same step; the skipped items below are handed out then."""
    tools, other = await fronts.pair()
    root = await tools.add(role="review")
    await tools.claim("holder", root)
    holder, waiter = await tools.park("holder", {"tags": "z"}), await other.park("waiter", {"tags": "c"})
    below = {"title": "c", "tags": "c", "parentId": root, "priority": "high"}
    made = (await tools.create(below, {"title": "z", "tags": "z"}))["items"]
    assert [await waiter.item(), await holder.item()] == [item["id"] for item in made]


async def test_a_timed_out_search_reports_that_nothing_was_claimed(tools: Client) -> None:
    """Before the deadline ends it; a waiting call has the time."""
    root = await tools.add()
    await tools.add_many(900, parentId=root, tags="docs")
    (outside,) = await tools.add_many(1, tags="docs", priority="low")
    await tools.claim("holder", root)
    hurried = Client(tools.store, tools.project, Settings(request_deadline_ms=1))
    claim = {"claims": [{"selector": {"tags": "docs"}}], "actor": actor("agent"), "requestId": fresh_id()}
    refused = await hurried.refusal("claim_item", **claim)
    assert (refused.code, refused.kind, refused.retry_after_ms) == ("deadline_exceeded", "transient", 1000)
    assert refused.message.startswith("claims[0].selector: the search did not finish in time")
    assert "nothing was claimed; give waitMs" in refused.message
    refused = await hurried.refusal("get_next_item", tags="docs")
    assert (refused.code, refused.message[:10]) == ("deadline_exceeded", "the search")
    assert "waitMs" not in refused.message
    assert (await hurried("claim_item", **claim, waitMs=1))["claimResults"][0]["itemId"] == outside
    assert await hurried.next(limit=9, tags="docs", parentId=root) != []


async def test_a_timed_out_search_recommends_what_it_has_found(tools: Client) -> None:
    root, best = await tools.add_many(2, tags="docs")
    await tools.add_many(900, parentId=root, tags="docs")
    (last,) = await tools.add_many(1, tags="docs", priority="low")
    await tools.claim("holder", root)
    hurried = Client(tools.store, tools.project, Settings(request_deadline_ms=1))
    assert await hurried.next(limit=2, tags="docs") == [best]
    assert await tools.next(limit=2, tags="docs") == [best, last]
