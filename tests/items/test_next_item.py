"""get_next_item: ranking, scopes, what each answer shows, and which items are ready."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.store import keys
from tests.items.client import Client, Json
from tests.items.moments import claim_for, lapse
from tests.items.selectors import PRIORITIES
from tests.support.between import after
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

ORDER = ("queue", "work", "review", "terminal")


@pytest.mark.every_store
async def test_items_are_ordered_by_priority_then_complexity_then_age(tools: Client) -> None:
    wanted = [
        ("high", 1), ("high", 5), ("high", None), ("medium", 1), ("medium", 10), ("medium", None), ("low", 1),
    ]  # fmt: skip
    ids = {}
    for priority, complexity in sorted(wanted, key=str):
        ids[priority, complexity] = await tools.add(priority=priority, complexity=complexity)
    assert await tools.next(limit=20) == [ids[key] for key in wanted]


async def test_the_oldest_of_equals_comes_first(tools: Client) -> None:
    ids: list[str] = []
    times: list[str] = []
    for _ in range(4):
        item = await tools.add()
        created = (await tools.get(item))["createdAt"]
        if created not in times:
            ids.append(item)
            times.append(created)
    assert [item for item in await tools.next(limit=20) if item in ids] == ids


async def test_equals_of_one_moment_are_ordered_by_id(tools: Client) -> None:
    ids = await tools.add_many(12)
    assert await tools.next(limit=20) == sorted(ids)


async def test_the_answer_is_short_by_default(tools: Client) -> None:
    parent = await tools.add("parent")
    item = await tools.add("title", complexity=2, priority="high", summary="s" * 90, tags="a,b", parentId=parent)
    short = {"itemId": item, "title": "title", "role": "queue", "priority": "high", "complexity": 2}
    assert await tools("get_next_item") == {"recommendations": [short], "total": 1}
    details = {"summary": "s" * 90, "tags": "a,b", "parentId": parent}
    assert await tools("get_next_item", includeDetails=True) == {"recommendations": [short | details], "total": 1}
    ancestors = {"ancestors": [{"id": parent, "title": "parent", "depth": 0}]}
    assert await tools("get_next_item", includeAncestors=True) == {"recommendations": [short | ancestors], "total": 1}
    claimed = {"isClaimed": False}
    assert await tools("get_next_item", includeClaimed=True) == {"recommendations": [short | claimed], "total": 1}


async def test_absent_details_are_left_out_and_complexity_is_null(tools: Client) -> None:
    item = await tools.add("t")
    (entry,) = (await tools("get_next_item", includeDetails=True))["recommendations"]
    assert entry == {
        "itemId": item,
        "title": "t",
        "role": "queue",
        "priority": "medium",
        "complexity": None,
        "summary": "",
    }


async def test_nothing_to_do_is_an_empty_list(tools: Client) -> None:
    assert await tools("get_next_item") == {"recommendations": [], "total": 0}


@pytest.mark.parametrize("limit", [1, 3, 20])
async def test_the_limit_is_respected(tools: Client, limit: int) -> None:
    await tools.add_many(25)
    answer = await tools("get_next_item", limit=limit)
    assert (len(answer["recommendations"]), answer["total"]) == (limit, limit)


@pytest.mark.parametrize(
    "arguments", [{"limit": 0}, {"limit": 21}, {"limit": -1}, {"role": "terminal"}, {"role": "done"}, {"colour": "a"}]
)
async def test_arguments_out_of_bounds_are_rejected(tools: Client, arguments: dict[str, Any]) -> None:
    assert (await tools.refusal("get_next_item", **arguments)).code == "VALIDATION_ERROR"


@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked"])
async def test_only_items_of_the_role_are_found(tools: Client, role: str) -> None:
    ids = {each: await tools.add(role=each) for each in (*ORDER, "blocked")}
    (entry,) = (await tools("get_next_item", role=role.upper(), limit=9))["recommendations"]
    assert (entry["itemId"], entry["role"]) == (ids[role], role)


async def test_a_parent_means_its_direct_children(tools: Client) -> None:
    ids = await tools.chain(2)
    assert await tools.next(parentId=ids[0], limit=9) == [ids[1]]
    assert await tools.next(parentId=ids[2], limit=9) == []


@pytest.mark.parametrize("notation", ["BLOCKS", "IS_BLOCKED_BY"])
@pytest.mark.parametrize("threshold", [None, *ORDER])
@pytest.mark.parametrize("role", [*ORDER, "blocked"])
async def test_a_blocker_satisfies_from_its_threshold(
    tools: Client, role: str, threshold: str | None, notation: str
) -> None:
    """A blocked one never does, for any threshold."""
    blocker, waits = await tools.add(role=role), await tools.add("waits")
    ends = (blocker, waits) if notation == "BLOCKS" else (waits, blocker)
    await tools.link(*ends, type=notation, **({"unblockAt": threshold} if threshold else {}))
    satisfied = role in ORDER and ORDER.index(role) >= ORDER.index(threshold or "terminal")
    assert (waits in await tools.next(limit=9)) == satisfied


async def test_a_relation_blocks_nothing(tools: Client) -> None:
    a, b = await tools.add_many(2)
    await tools.link(a, b, type="RELATES_TO")
    assert set(await tools.next(limit=9)) == {a, b}


@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked"])
async def test_waiting_items_of_any_role_are_left_out_until_ready(tools: Client, role: str) -> None:
    blocker, waits = await tools.add(), await tools.add(role=role)
    await tools.link(blocker, waits)
    assert waits not in await tools.next(role=role, limit=9)
    await tools.move(blocker, "complete")
    assert waits in await tools.next(role=role, limit=9)
    await tools.move(blocker, "reopen")
    assert waits not in await tools.next(role=role, limit=9)


async def test_every_blocker_must_be_satisfied(tools: Client) -> None:
    first, second, waits = await tools.add_many(3)
    await tools.link(first, waits)
    await tools.link(waits, second, type="IS_BLOCKED_BY", unblockAt="work")
    await tools.move(first, "complete")
    assert waits not in await tools.next(limit=9)
    await tools.move(second, "start")
    assert waits in await tools.next(limit=9)
    await tools.move(second, "block")
    assert waits not in await tools.next(limit=9)


async def test_claimed_items_are_left_out_by_default(tools: Client) -> None:
    low, high, waits = await tools.add(priority="low"), await tools.add(priority="high"), await tools.add()
    await tools.link(low, waits)
    await tools.claim("one", high)
    await tools.claim("two", waits)
    assert await tools.next(limit=9) == [low]
    entries = (await tools("get_next_item", includeClaimed=True, limit=9))["recommendations"]
    assert [(entry["itemId"], entry["isClaimed"]) for entry in entries] == [(high, True), (low, False)]
    assert await tools.next(includeClaimed=True, limit=1) == [high]


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("passed", [1, 210], ids=["at once", "in several runs"])
async def test_an_item_claimed_or_released_meanwhile_is_found(
    tools: Client, monkeypatch: pytest.MonkeyPatch, passed: int, held: bool
) -> None:
    """With includeClaimed, an item is found in either state."""
    await tools.add_many(passed)
    item = await tools.add(priority="low")
    at = (await tools.get(item))["createdAt"]
    if held:
        await tools.claim("one", item)
    after(monkeypatch, tools.store, 1, lambda: tools.release("one", item) if held else tools.claim("one", item))
    assert item in await tools.next(includeClaimed=True, roleChangedAfter=at, limit=20)


async def test_an_item_with_an_expired_claim_is_ready_again(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("agent", item)
    await lapse(tools, item)
    entries = (await tools("get_next_item", includeClaimed=True))["recommendations"]
    assert [(entry["itemId"], entry["isClaimed"]) for entry in entries] == [(item, False)]
    assert await tools.next() == [item]


async def test_a_claim_ends_by_the_servers_clock(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("agent", item)
    assert await tools.next() == []
    await claim_for(tools, "agent", item, 40)

    async def found() -> bool:
        return await tools.next() == [item]

    await wait_until(found, what="the claim to expire")


@pytest.mark.parametrize(("count", "tags", "left"), [(50, 0, False), (60, 32, True)])
async def test_many_expired_claims_come_back_in_one_call(tools: Client, count: int, tags: int, left: bool) -> None:
    """Fewer for items with many tags, which take longer."""
    ids = await tools.add_many(count, tags=",".join(f"t{n}" for n in range(tags)))
    for number, item in enumerate(ids):
        await tools.claim(f"agent-{number}", item)
    for item in ids:
        await lapse(tools, item)
    found = await tools.next(limit=20)
    assert len(set(found)) == 20
    assert found == sorted(ids)[:20] or left
    assert bool(await tools.store.command("ZCARD", keys.leases.key(tools.project))) == left


async def test_the_last_of_very_many_expired_claims_is_found(tools: Client) -> None:
    ids = [*await tools.add_many(250), await tools.add(tags="wanted", priority="high")]
    poor = await tools.add(tags="wanted", priority="low")
    for number, item in enumerate(ids):
        await tools.claim(f"agent-{number}", item)
    for item in ids:
        await lapse(tools, item)
    assert await tools.next(tags="wanted", limit=2) == [ids[-1], poor]


async def test_irrelevant_expired_claims_are_left_for_later(tools: Client) -> None:
    ids = await tools.add_many(250)
    best = await tools.add(priority="high")
    for number, item in enumerate(ids):
        await tools.claim(f"agent-{number}", item)
    for item in ids:
        await lapse(tools, item)
    assert await tools.next() == [best]
    assert await tools.store.command("ZCARD", keys.leases.key(tools.project)) > 200


@pytest.mark.parametrize("order", ["priority", "oldest", "newest"])
async def test_bounds_of_creation_narrow_the_search(tools: Client, order: str) -> None:
    far, near = await tools.add_many(2, role="work")
    seen: list[Json] = []
    for part in range(18):
        fields = {"priority": PRIORITIES[part % 3], "complexity": part % 2 + 3}
        await tools.add_many(40, parentId=far, **fields)
        seen += [await tools.get(item) for item in await tools.add_many(2, parentId=near, **fields)]
    after, before = seen[12]["createdAt"], seen[23]["createdAt"]
    wanted = [one for one in seen if after <= one["createdAt"] <= before]
    wanted.sort(key=lambda one: one["id"])
    wanted.sort(key=lambda one: one["createdAt"], reverse=order == "newest")
    if order == "priority":
        wanted.sort(key=lambda one: (PRIORITIES.index(one["priority"]), one["complexity"]))
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    found = await tools.next(ancestorId=near, limit=20, createdAfter=after, createdBefore=before, orderBy=order)
    assert found == [one["id"] for one in wanted]
    assert len(runs) == 2, "about 250 of 756 items had to be read"
    runs.clear()
    assert await tools.next(createdAfter="2089-01-01T00:00:00Z", orderBy=order) == []
    assert await tools.next(createdBefore="2019-12-31T23:59:59.999Z", orderBy=order) == []
    assert runs.count("next_items") == 2


@pytest.mark.parametrize("order", ["priority", "oldest", "newest"])
async def test_ready_and_claimed_items_are_found_before_and_after_many_others(tools: Client, order: str) -> None:
    top = await tools.add(role="work")
    first = await tools.add_many(8, parentId=top)  # of one moment, so in order of their ids
    await tools.add_many(500)
    last = await tools.add_many(8, parentId=top)
    for item in (*first[::2], *last[::2]):
        await tools.claim(f"holder of {item}", item)
    found = await tools.next(limit=16, ancestorId=top, orderBy=order, includeClaimed=True)
    halves = [set(found[:8]), set(found[8:])]
    assert halves == ([set(last), set(first)] if order == "newest" else [set(first), set(last)])
