"""Abandoned items are offered to other agents, before new ones of their priority."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.doctor import items as doctor
from coordinator.settings import Settings
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.measures.items import MeasureStore
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse, ms
from tests.items.parked import Fronts
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

ENDS = ("expired", "expired and swept", "released", "let go")


async def left(tools: Client, how: str = "expired", agent: str = "lost", **fields: Any) -> str:
    """An item in work, abandoned by its agent after `start`."""
    item = await tools.add(**fields)
    assert (await tools.claim(agent, item))["outcome"] == "success"
    assert (await tools.advance(item, "start", agent))["applied"]
    await leave(tools, item, how, agent)
    return item


async def leave(tools: Client, item: str, how: str, agent: str = "lost") -> None:
    if how == "released":
        await tools.release(agent, item)
    elif how == "let go":
        await tools.claim(agent, await tools.add(role="blocked"))
    else:
        await lapse(tools, item)
        if how == "expired and swept":
            await tools.next()


def outcome(claim: Json) -> Json:
    """Role and takeover in a claim's result."""
    return {name: claim.get(name) for name in ("outcome", "itemId", "role", "takeover")}


def got(item: str, role: str, takeover: bool | None = None) -> Json:
    return {"outcome": "success", "itemId": item, "role": role, "takeover": takeover}


async def must_be_sound(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


@pytest.mark.every_store
@pytest.mark.parametrize("how", ENDS)
async def test_an_item_of_an_agent_that_died_after_start_is_found_by_the_next(tools: Client, how: str) -> None:
    item = await left(tools, how)
    assert outcome(await take(tools, "agent")) == got(item, "work", True)
    await must_be_sound(tools)


@pytest.mark.parametrize("how", ENDS)
async def test_the_normal_loop_completes_an_abandoned_item(tools: Client, how: str) -> None:
    """claim, start, complete; the first start keeps the item's role, and is recorded."""
    item = await left(tools, how)
    claim = await take(tools, "agent")
    fence = claim["fenceToken"]
    started = await tools.advance(item, "start", "agent", fenceToken=fence)
    assert [started[name] for name in ("applied", "previousRole", "newRole")] == [True, "work", "work"]
    rows = (await tools("get_context", since="2020-01-01T00:00:00Z"))["recentTransitions"]
    assert [rows[0][name] for name in ("itemId", "trigger", "fromRole", "toRole")] == [item, "start", "work", "work"]
    assert rows[0]["actor"]["id"] == "agent"
    done = await tools.advance(item, "complete", "agent", fenceToken=fence)
    assert (done["previousRole"], done["newRole"]) == ("work", "terminal")
    assert (await take(tools, "agent"))["outcome"] == "no_match"
    await must_be_sound(tools)


async def test_a_second_start_moves_on(tools: Client) -> None:
    item = await left(tools)
    await take(tools, "agent")
    assert (await tools.advance(item, "start", "agent"))["newRole"] == "work"
    assert (await tools.advance(item, "start", "agent"))["newRole"] == "terminal"


async def test_a_claim_that_names_the_role_starts_normally(tools: Client) -> None:
    item = await left(tools)
    assert outcome(await take(tools, "agent", {"role": "work"})) == got(item, "work", True)
    assert (await tools.advance(item, "start", "agent"))["newRole"] == "terminal"


async def test_a_start_without_the_claim_moves_on(tools: Client) -> None:
    """Also after the end of the takeover, which concerns only the agent that took over."""
    item = await left(tools)
    await take(tools, "agent")
    await tools.release("agent", item)
    assert (await tools.advance(item, "start"))["newRole"] == "terminal"


@pytest.mark.parametrize("own", [True, False])
async def test_a_claim_by_id_takes_over_an_abandoned_item(tools: Client, own: bool) -> None:
    """An agent that claims its own item again continues it: no takeover."""
    item = await left(tools)
    agent = "lost" if own else "agent"
    claim = await tools.claim(agent, item)
    assert claim.get("takeover") == (None if own else True)
    assert (await tools.advance(item, "start", agent))["newRole"] == ("terminal" if own else "work")


async def test_an_agent_that_finds_its_own_abandoned_item_begins_it_again(tools: Client) -> None:
    item = await left(tools, agent="agent")
    assert outcome(await take(tools, "agent")) == got(item, "work", True)
    assert (await tools.advance(item, "start", "agent"))["newRole"] == "work"


async def test_a_start_waits_for_newer_dependencies(tools: Client) -> None:
    item = await left(tools)
    await take(tools, "agent")
    await tools.link(await tools.add(priority="low"), item)
    refused = await tools.advance(item, "start", "agent")
    assert (refused["applied"], await tools.role(item)) == (False, "work")


async def test_a_claim_of_a_new_item_has_its_role_and_no_takeover(tools: Client) -> None:
    item = await tools.add()
    assert outcome(await take(tools, "agent")) == got(item, "queue")
    await tools.release("agent", item)
    assert outcome(await take(tools, "agent")) == got(item, "queue")


async def test_items_in_work_that_were_never_claimed_are_not_offered(tools: Client) -> None:
    item = await tools.add()
    await tools.move(item, "start")
    await tools.add(role="work")
    await tools.add(role="review")
    assert (await take(tools, "agent"))["outcome"] == "no_match"
    assert (await take(tools, "agent", {"role": "work"}))["outcome"] == "success"


async def test_abandoned_items_come_first_among_items_of_their_priority(tools: Client) -> None:
    for priority in ("high", "medium", "low"):
        await tools.add(f"{priority} new", priority=priority, complexity=1)
        await left(tools, agent=f"lost {priority}", title=f"{priority} left", priority=priority, complexity=9)
    titles = []
    for n in range(6):
        claim = await take(tools, f"agent-{n}")
        titles.append((await tools.get(claim["itemId"]))["title"])
    assert titles == [f"{priority} {what}" for priority in ("high", "medium", "low") for what in ("left", "new")]
    await must_be_sound(tools)


@pytest.mark.parametrize("order", ["oldest", "newest"])
async def test_orders_by_age_take_both_kinds_together(tools: Client, order: str) -> None:
    items = [
        await left(tools, agent=f"lost {n}") if n % 2 else await tools.add(priority="low" if n == 2 else "high")
        for n in range(4)
    ]
    created = {item: ms((await tools.get(item))["createdAt"]) for item in items}
    wanted = sorted(items, key=lambda item: (created[item] if order == "oldest" else -created[item], item))
    assert [(await take(tools, f"agent-{n}", {"orderBy": order}))["itemId"] for n in range(4)] == wanted


@pytest.mark.parametrize("selector", [{"tags": "api"}, {"type": "bug"}, {"complexityMax": 3}, {"priority": "low"}])
async def test_filters_apply_to_both_kinds(tools: Client, selector: Json) -> None:
    fields: Json = {"tags": "api", "type": "bug", "complexity": 3, "priority": "low"}
    await left(tools, agent="other")
    await tools.add()
    items = [await left(tools, **fields), await tools.add(**fields)]
    assert [(await take(tools, f"agent-{n}", selector))["itemId"] for n in range(2)] == items
    assert (await take(tools, "agent", selector))["outcome"] == "no_match"


@pytest.mark.parametrize("scope", ["parentId", "ancestorId"])
async def test_scopes_and_shields_apply_to_both_kinds(tools: Client, scope: str) -> None:
    root, beside = await tools.add_many(2, role="work")
    await left(tools, agent="other", parentId=beside)
    item = await left(tools, parentId=root)
    await tools.claim("holder", root)
    assert (await take(tools, "agent", {scope: root}))["itemId"] == item
    await tools.release("agent", item)
    assert (await tools.get((await take(tools, "agent"))["itemId"]))["parentId"] == beside
    assert (await take(tools, "second"))["outcome"] == "no_match"
    await must_be_sound(tools)


async def test_blocked_ones_are_not_offered(tools: Client) -> None:
    item = await left(tools)
    blocker = await tools.add(priority="low", role="review")
    await tools.link(blocker, item)
    assert (await take(tools, "agent"))["outcome"] == "no_match"
    await must_be_sound(tools)
    assert (await tools.advance(blocker, "complete"))["applied"]
    assert outcome(await take(tools, "agent")) == got(item, "work", True)
    await must_be_sound(tools)


async def test_items_abandoned_in_review_are_offered(tools: Client) -> None:
    item = await tools.add(role="review")
    await tools.claim("reviewer", item)
    await lapse(tools, item)
    assert outcome(await take(tools, "agent")) == got(item, "review", True)
    assert (await tools.advance(item, "start", "agent"))["newRole"] == "review"
    await lapse(tools, item)
    assert outcome(await take(tools, "second", {"role": "review"})) == got(item, "review", True)
    assert (await tools.advance(item, "start", "second"))["newRole"] == "terminal"
    await must_be_sound(tools)


async def test_finished_work_that_waits_for_its_reviewer_is_not_offered(tools: Client) -> None:
    """Although the claim of the agent that finished it has lapsed: it was placed before."""
    notes = [{"key": "verdict", "role": "review", "required": True, "description": "d"}]
    given = {"work_item_schemas": {"task": {"notes": notes}}, "attempts": {"backoff_seconds": 0}}
    tools.configure(msgspec.convert(given, Settings))
    item = await tools.add(type="task")
    await tools.claim("worker", item)
    for role in ("work", "review"):
        assert (await tools.advance(item, "start", "worker"))["newRole"] == role
    await tools.claim("worker", item)  # a renewal is no new claim
    await lapse(tools, item)
    assert (await take(tools, "agent"))["outcome"] == "no_match"
    await must_be_sound(tools)
    assert outcome(await take(tools, "reviewer", {"role": "review"})) == got(item, "review")
    await lapse(tools, item)
    assert outcome(await take(tools, "agent")) == got(item, "review", True)
    await must_be_sound(tools)


async def test_a_reviewer_that_releases_leaves_the_item_to_reviewers(tools: Client) -> None:
    item = await tools.add(role="review")
    await tools.claim("reviewer", item)
    await tools.release("reviewer", item)
    assert (await take(tools, "agent"))["outcome"] == "no_match"
    assert outcome(await take(tools, "second", {"role": "review"})) == got(item, "review")


async def test_get_next_item_filters_by_role_only(tools: Client) -> None:
    item = await left(tools)
    assert await tools.next() == []
    assert await tools.next(role="work") == [item]
    other = await tools.add(role="work", complexity=1)
    assert await tools.next(role="work", limit=5) == [other, item], "in the usual order"


async def test_a_start_after_the_claim_expired_has_no_effect_on_abandonment(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("slow", item)
    await lapse(tools, item)
    await tools.next()
    assert (await tools.advance(item, "start", "slow"))["applied"]
    assert outcome(await take(tools, "agent")) == got(item, "work", True)
    await must_be_sound(tools)


async def test_work_resumed_without_an_agent_is_offered(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("agent", item)
    for trigger in ("start", "block"):
        assert (await tools.advance(item, trigger, "agent"))["applied"]
    await tools.release("agent", item)
    assert (await take(tools, "other"))["outcome"] == "no_match"
    await tools.move(item, "resume")
    assert outcome(await take(tools, "other")) == got(item, "work", True)


async def test_a_parent_moved_by_a_cascade_is_not_abandoned(tools: Client) -> None:
    """Although it was claimed once: it went to work by a cascade."""
    parent = await tools.add()
    child = await tools.add(parentId=parent)
    await tools.claim("agent", parent)
    await tools.release("agent", parent)
    await tools.claim("agent", child)
    assert (await tools.advance(child, "start", "agent"))["applied"]
    assert await tools.role(parent) == "work"
    assert (await take(tools, "other"))["outcome"] == "no_match"
    assert (await tools.advance(child, "complete", "agent"))["applied"]
    assert await tools.role(parent) == "terminal"
    await tools.release("agent", child)
    await tools.move(child, "reopen")
    assert await tools.role(parent) == "work"
    assert outcome(await take(tools, "other")) == got(child, "queue")
    await must_be_sound(tools)
    await tools.claim("third", parent)
    await lapse(tools, parent)
    assert (await take(tools, "fourth"))["outcome"] == "no_match", "it has an open child"
    assert outcome(await take(tools, "fourth", {"parents": "any"})) == got(parent, "work", True)


@pytest.mark.parametrize("how", ENDS)
async def test_parked_calls_get_abandoned_items_in_order(fronts: Fronts, how: str) -> None:
    tools, other = await fronts.pair()
    items = [await tools.add(priority=priority) for priority in ("low", "high")]
    for n, item in enumerate(items):
        await tools.claim(f"lost {n}", item)
        await tools.advance(item, "start", f"lost {n}")
    calls = [
        await front.park(f"agent-{n}", selector)
        for n, (front, selector) in enumerate(((other, {}), (tools, {"role": "queue"}), (other, {}), (tools, {})))
    ]
    for n, item in enumerate(items):
        await leave(tools, item, how, f"lost {n}")
    claims = [await calls[n].claim() for n in (0, 2)]
    assert {claim["itemId"] for claim in claims} == set(items)
    assert [(claim["role"], claim["takeover"]) for claim in claims] == [("work", True)] * 2
    assert [calls[1].waits, calls[3].waits] == [True, True]
    assert (await tools.advance(claims[0]["itemId"], "start", "agent-0"))["newRole"] == "work"


async def test_a_parked_call_for_a_role_gets_items_abandoned_there(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    item = await tools.add()
    await tools.claim("lost", item)
    await tools.advance(item, "start", "lost")
    calls = [await other.park("reviewer", {"role": "review"}), await tools.park("worker", {"role": "work"})]
    await lapse(tools, item)
    assert await calls[1].item() == item
    assert calls[0].waits


async def test_many_claims_expire_at_once_and_all_items_are_handed_out(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    items = await tools.add_many(30)
    for n, item in enumerate(items):
        await tools.claim(f"lost {n}", item)
        await tools.advance(item, "start", f"lost {n}")
    calls = [await (tools, other)[n % 2].park(f"agent-{n}") for n in range(30)]
    for item in items:
        await lapse(tools, item)
    assert {await call.item() for call in calls} == set(items)


@pytest.mark.parametrize("how", ENDS)
async def test_reads_say_what_is_abandoned_and_how_often_it_has_failed(tools: Client, how: str) -> None:
    item = await left(tools, how)
    cascaded = await tools.add("parent")
    held = await tools.add("held", parentId=cascaded)
    await tools.claim("holder", held)
    await tools.advance(held, "start", "holder")
    await tools.expire()
    counted = 1 if how.startswith("expired") else 0
    for details in (True, False):
        found = (await tools("query_items", operation="search", role="work", includeDetails=details))["items"]
        assert [one["id"] for one in found if one.get("abandoned")] == [item] * details
        counts = {one["id"]: one["attempts"] for one in found if "attempts" in one}
        assert counts == ({item: {"count": counted, "max": 0}} if details and counted else {})
    assert [(await tools.get(one)).get("abandoned") for one in (item, held, cascaded)] == [True, None, None]
    assert (await take(tools, "next"))["itemId"] == item
    assert "abandoned" not in await tools.get(item)


async def test_health_lists_and_counts_what_is_abandoned(tools: Client) -> None:
    """Including expired claims not put back yet; longest abandoned first, blocked ones last."""
    assert "abandoned" not in await tools("get_context")
    blocked = await left(tools, agent="first")
    items = [await left(tools, how, agent=how) for how in ENDS]
    await tools.link(await tools.add(role="blocked"), blocked)
    held = await tools.add(role="work")
    await tools.claim("busy", held)
    found = (await tools("get_context"))["abandoned"]
    assert (found["ready"], found["blocked"]) == (4, 1)
    assert [entry["id"] for entry in found["items"]][-1] == blocked
    assert {entry["id"] for entry in found["items"]} == {blocked, *items}
    assert [entry["blocked"] for entry in found["items"]] == [False] * 4 + [True]
    assert {entry["role"] for entry in found["items"]} == {"work"}
    times = [entry["since"] for entry in found["items"][:4]]
    assert times == sorted(times)
    await take(tools, "agent")
    assert (await tools("get_context"))["abandoned"]["ready"] == 3


async def test_the_list_of_abandoned_items_is_bounded(tools: Client) -> None:
    for n in range(60):
        await left(tools, "released", agent=f"agent-{n}")
    found = (await tools("get_context"))["abandoned"]
    assert (found["ready"], len(found["items"])) == (60, 50)
    rest = await tools("get_context", offset=50)
    assert len(rest["abandoned"]["items"]) == 10
    assert len({one["id"] for one in found["items"] + rest["abandoned"]["items"]}) == 60


async def test_metrics_count_available_abandoned_items(tools: Client) -> None:
    found = await MeasureStore(tools.store).measure(tools.project)
    assert (found.abandoned, found.abandoned_seconds) == (0, 0.0)
    await left(tools)
    blocked = await left(tools, agent="second")
    await tools.link(await tools.add(role="blocked"), blocked)
    found = await MeasureStore(tools.store).measure(tools.project)
    assert found.abandoned == 1
    assert found.abandoned_seconds >= 0


async def test_doctor_names_the_project(alone: Store) -> None:
    tools = Client(alone, "named")
    assert [one.verdict async for one in doctor.check(alone)] == ["ok"]
    await left(tools)
    told = [one.said async for one in doctor.check(tools.store) if one.verdict == "warns"]
    assert any(f"1 abandoned item in project {tools.project}, the first for 0:00:" in said for said in told)


async def test_a_replay_gets_the_same_answer(tools: Client) -> None:
    item = await left(tools)
    request = fresh_id()
    first = await take(tools, "agent", request_id=request)
    assert await take(tools, "agent", request_id=request) == first
    asked = {"transitions": [{"itemId": item, "trigger": "start", "actor": actor("agent")}], "requestId": fresh_id()}
    answer = await tools("advance_item", **asked)
    assert await tools("advance_item", **asked) == answer
    assert await tools.role(item) == "work"


async def test_deleted_items_are_no_longer_listed(tools: Client) -> None:
    item = await left(tools)
    await tools.next()
    key = keys.abandoned.key(tools.project)
    assert await tools.store.command("ZCARD", key) == 1
    await tools.delete(item)
    assert await tools.store.command("EXISTS", key) == 0


async def test_behind_many_items_in_work_an_abandoned_one_is_found_at_once(tools: Client) -> None:
    for _ in range(4):
        await tools.add_many(250, role="work", priority="high")
    item = await left(tools, priority="low")
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, result, *_: runs.append(script)
    assert (await take(tools, "agent"))["itemId"] == item
    assert runs == ["claim_next"]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("ZREM {key} {item}", "is missing among the abandoned items"),
        (
            "ZADD {key} 4398046511204 {item}",
            "is listed as abandoned at 4398046511204, should be among those that are free",
        ),
    ],
)
async def test_an_audit_names_differences(tools: Client, damage: str, problem: str) -> None:
    item = (await left(tools)).replace("-", "")
    await tools.next()
    key = keys.abandoned.key(tools.project).decode()
    await tools.store.command(*(word.format(key=key, item=item) for word in damage.split()))
    found = (await audit(tools.store, tools.project)).differences
    assert [(one.key, one.problem) for one in found] == [(f"i:{item}", problem)]


async def test_many_items_below_held_ones_are_skipped(tools: Client) -> None:
    """So many that the search walks the tree, which also merges both kinds."""
    held, free = await tools.add_many(2, role="blocked")
    for n in range(8):
        await left(tools, "released", agent=f"lost {n}", parentId=held, priority="high")
    await tools.add_many(8, parentId=held, priority="high")
    await tools.claim("mason", held)
    wanted = []
    for priority in ("medium", "low"):
        one = await left(tools, "released", agent=priority, parentId=free, priority=priority, complexity=9)
        wanted += [one, await tools.add(parentId=free, priority=priority, complexity=1)]
    assert [(await take(tools, f"agent-{n}"))["itemId"] for n in range(4)] == wanted
    assert (await take(tools, "agent"))["outcome"] == "no_match"
    assert (await take(tools, "mason"))["takeover"] is True, "items below one's own claim are available"
    await must_be_sound(tools)
