"""A live claim holds what its item demands, whatever happens to the item: no two work on the same exclusive key."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.classes import TERMINAL
from coordinator.toolsets.items.rules.records import parts_of, state_of
from tests.items.client import SETTINGS, Client, Json, actor
from tests.items.moments import lapse, server_time, set_state

pytestmark = pytest.mark.anyio

AGENTS = ("ann", "bob", "cid", "dan")
KEYS = ("x", "x/1", "y")
STEPS = 150
TRIGGERS = ("start", "complete", "cancel", "reopen", "reopen", "block", "resume")
SECTIONS = msgspec.convert(
    {
        "work_item_schemas": {
            "built": {"resources": [{"key": "x"}]},
            "again": {"lifecycle": "auto-reopen", "resources": [{"key": "x"}]},
        },
        "traits": {"slow": {"resources": [{"key": "x"}]}},
    },
    Settings,
)
WITH_TYPES = msgspec.structs.replace(
    SETTINGS, work_item_schemas=SECTIONS.work_item_schemas, traits=SECTIONS.traits, default_traits=[]
)


def demand(*names: str) -> list[Json]:
    return [{"key": name, "mode": "exclusive", "units": 1} for name in names]


async def fields_of(tools: Client, item: str) -> dict[str, str]:
    fields = await tools.store.command("HGETALL", keys.item.key(tools.project, item.replace("-", "")))
    return {name.decode(): value.decode("latin-1") for name, value in fields.items()}


async def held(tools: Client, item: str) -> str:
    """What the claim on an item holds."""
    return (await fields_of(tools, item)).get("rh", "")


async def ended_claim(tools: Client, agent: str, item: str) -> None:
    """Leaves the record of a live claim on an item that has ended."""
    assert (await tools.claim(agent, item))["outcome"] == "success"
    assert (await tools.advance(item, "complete", agent))["applied"]


async def events_of(tools: Client, item: str) -> list[dict[str, str]]:
    stream = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    flat = [[word.decode() for word in words] for _, words in stream]
    told = [dict(zip(words[::2], words[1::2], strict=True)) for words in flat]
    return [one for one in told if one.get("i") == item.replace("-", "")]


async def test_an_item_reopened_under_its_claim_takes_what_it_demands_or_is_refused(clients: list[Client]) -> None:
    tools, other = clients[:2]
    first, second = await tools.add_many(2, resources=demand("x", "y"))
    await ended_claim(tools, "a", first)
    assert (await other.claim("b", second))["outcome"] == "success"
    before = await tools.get(first)
    reopen = [{"itemId": first, "trigger": trigger, "actor": actor("a")} for trigger in ("reopen", "start")]
    refused, start = (await tools("advance_item", transitions=reopen))["results"]
    assert (refused["applied"], refused["errorKind"], refused["errorCode"]) == (False, "transient", "resource_busy")
    assert refused["error"] == (
        "Cannot apply 'reopen': resource_busy: the claim on the item has to hold x, y, which is not free; try again "
        "later, or release the claim first"
    )
    assert "already terminal" in start["error"]
    assert (await tools.get(first), await held(tools, first)) == (before, "")
    await other.release("b", second)
    reopened, started = (await tools("advance_item", transitions=reopen))["results"]
    assert (reopened["applied"], started["applied"]) == (True, True)
    assert await held(tools, first) == "x1:x,x1:y"
    assert (await other.claim("b", second))["outcome"] == "resource_busy"
    assert (await tools.claim("a", first))["outcome"] == "success"
    # Who lets it go first may reopen it: whoever claims it then takes what it demands.
    await tools.advance(first, "complete", "a")
    assert (await other.claim("b", second))["outcome"] == "success"
    await tools.release("a", first)
    assert (await tools.advance(first, "reopen", "a"))["applied"]
    assert (await tools.claim("a", first))["outcome"] == "resource_busy"


@pytest.mark.parametrize("way", ["resources", "type", "tags", "traits"])
async def test_an_update_under_a_claim_takes_what_is_missing_or_changes_nothing(
    clients: list[Client], way: str
) -> None:
    tools, other = (Client(one.store, one.project, WITH_TYPES) for one in clients[:2])
    changed = {"resources": demand("x", "y"), "type": "built", "tags": "built", "traits": "slow"}[way]
    item, rival, free = await tools.add_many(3)
    await tools.update(rival, resources=demand("x"))
    await tools.claim("a", item)
    await other.claim("b", rival)
    before = await tools.get(item)
    both = [{"id": item, way: changed, "title": "new"}, {"id": free, way: changed}]
    answer = await tools("manage_items", operation="update", items=both)
    assert (answer["updated"], answer["failed"]) == (1, 1)
    (failure,) = answer["failures"]
    assert failure["id"] == item
    assert failure["error"] == (
        "resources: resource_busy: the claim on the item has to hold x, which is not free; try again later, or when "
        "that has ended"
    )
    assert (await tools.get(item), await held(tools, item)) == (before, "")
    # A renewal is for nobody to refuse, and an item that nobody holds demands what it likes.
    assert (await tools.claim("a", item))["outcome"] == "success"
    await other.release("b", rival)
    answer = await tools("manage_items", operation="update", items=both[:1])
    assert answer["updated"] == 1
    assert await held(tools, item) == ("x1:x,x1:y" if way == "resources" else "x1:x")
    assert (await other.claim("b", rival))["outcome"] == "resource_busy"
    await tools.update(item, **{way: [] if way == "resources" else None})  # the claim keeps what it has
    assert (await other.claim("b", rival))["outcome"] == "resource_busy"
    await tools.release("a", item)
    assert (await other.claim("b", rival))["outcome"] == "success"


async def test_what_one_claim_holds_is_bounded(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("a", item)
    sets = [demand(*(f"{n}/{'k' * 190}{m:02}" for m in range(16))) for n in range(5)]
    answers = [
        await tools("manage_items", operation="update", items=[{"id": item, "resources": each}]) for each in sets
    ]
    assert [answer["updated"] for answer in answers] == [1, 1, 1, 1, 0]
    assert "resource_busy" in answers[-1]["failures"][0]["error"]
    kept = await held(tools, item)
    assert (await tools.claim("a", item, resources=demand("x")))["outcome"] == "resource_busy"
    assert (await tools.claim("a", item, resources=sets[0]))["outcome"] == "success", "it holds these"
    await tools.update(item, resources=sets[1])
    assert await held(tools, item) == kept
    await tools.release("a", item)
    assert (await tools.claim("a", item, resources=demand("x")))["outcome"] == "success"


async def test_entries_of_one_call_see_what_those_before_have_taken(tools: Client) -> None:
    one, other = await tools.add_many(2)
    await tools.claim("a", one)
    await tools.claim("b", other)
    updates = [{"id": item, "resources": demand("x")} for item in (one, other)]
    answer = await tools("manage_items", operation="update", items=updates)
    assert ([each["id"] for each in answer["items"]], answer["failures"][0]["id"]) == ([one], other)


async def test_of_a_reopening_and_a_claim_at_once_one_gets_the_key(clients: list[Client]) -> None:
    tools, other = clients[:2]
    for _ in range(8):
        mine, theirs = await tools.add_many(2, resources=demand("x"))
        await ended_claim(tools, "a", mine)
        reopened, claim = await asyncio.gather(tools.advance(mine, "reopen", "a"), other.claim("b", theirs))
        assert reopened["applied"] != (claim["outcome"] == "success")
        for agent, item in (("a", mine), ("b", theirs)):
            await tools.release(agent, item)


async def test_expired_claims_are_no_obstacle(tools: Client) -> None:
    first, second = await tools.add_many(2, resources=demand("x"))
    await ended_claim(tools, "a", first)
    await tools.claim("b", second)
    await lapse(tools, second)
    assert (await tools.advance(first, "reopen", "a"))["applied"]
    assert await held(tools, first) == "x1:x"


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("way", ["reopen", "create", "tree", "move"])
async def test_the_claim_on_a_parent_that_follows_takes_what_is_free_or_ends(
    clients: list[Client], way: str, free: bool
) -> None:
    tools = Client(clients[0].store, clients[0].project, WITH_TYPES)
    parent = await tools.add(type="again")
    child = await tools.add(parentId=parent)
    await tools.claim("a", parent)
    await tools.advance(child, "complete")
    assert (await tools.get(parent))["role"] == "terminal"
    rival = await tools.add(resources=demand("x"))
    if not free:
        assert (await tools.claim("b", rival))["outcome"] == "success"
    if way == "reopen":
        assert (await tools.advance(child, "reopen"))["applied"]
    elif way == "create":
        await tools.add(parentId=parent)
    elif way == "tree":
        await tools("create_work_tree", root={"title": "root"}, parentId=parent)
    else:
        await tools.update(await tools.add(), parentId=parent)
    assert (await tools.get(parent))["role"] == "work"
    claim = await tools("get_context", itemId=parent)
    assert ("claimDetail" in claim, await held(tools, parent)) == (free, "x1:x" if free else "")
    ends = [one for one in await events_of(tools, parent) if one["k"] == "release"]
    assert [(one["a"], one["r"], one["b"]) for one in ends] == ([] if free else [("a", "handed_back", "resources")])
    again = await tools.claim("a", parent)
    assert again["outcome"] == ("success" if free else "resource_busy")
    assert (await tools.claim("b", rival))["outcome"] == ("resource_busy" if free else "success")


async def test_the_record_of_an_ended_claim_whose_time_is_over_goes_when_its_item_follows(tools: Client) -> None:
    parent = await tools.add(resources=demand("x"))
    child = await tools.add(parentId=parent)
    await tools.claim("a", parent)
    await tools.advance(child, "complete")
    await set_state(tools, parent, expires=await server_time(tools.store) - 1)  # noticed by nobody yet
    assert (await tools.advance(child, "reopen"))["applied"]
    full = await tools.get(parent)
    assert (full["role"], "attempts" in full, await held(tools, parent)) == ("work", False, "")
    assert "claimDetail" not in await tools("get_context", itemId=parent)
    assert [one["k"] for one in await events_of(tools, parent)][-1] == "transition"
    assert (await audit(tools.store, tools.project)).differences == []


def related(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


async def must_hold_what_they_demand(tools: Client, ids: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """Live claims on open items hold all that these demand, and no two hold keys that exclude each other.

    Returns the items with a live claim, by its agent, and which items have ended.
    """
    now = await server_time(tools.store)
    holders: dict[str, str] = {}
    ended: set[str] = set()
    live: list[set[str]] = []
    for item, fields in zip(ids, await asyncio.gather(*(fields_of(tools, one) for one in ids)), strict=True):
        found = state_of(fields["w"].encode("latin-1").hex())
        if parts_of(found.score).role == TERMINAL:
            ended.add(item)
        mine = {one.partition(":")[2] for one in fields.get("rh", "").split(",") if one}
        if found.holder and found.expires > now:
            holders[found.holder] = item
        if found.holder and found.expires > now and item not in ended:
            assert {one.partition(":")[2] for one in fields.get("rs", "").split(",") if one} <= mine, fields
            live.append(mine)
        else:
            assert not mine, fields
    for number, mine in enumerate(live):
        for other in live[:number]:
            assert not any(related(key, its) for key in mine for its in other), live
    return holders, ended


async def test_no_calls_lead_to_two_live_claims_on_one_key(clients: list[Client]) -> None:
    """Trees with cascades, batches, updates by every field and expiries, over three front-ends."""
    dice = random.Random(6)
    fronts = [Client(one.store, one.project, WITH_TYPES) for one in clients]
    parents = [await fronts[0].add(type="again") for _ in range(2)]
    ids = [*parents]
    for place in [*({"parentId": parent} for parent in (*parents, *parents)), *({},) * 4]:
        ids += [await fronts[0].add(**place, resources=demand(dice.choice(KEYS)))]
    seen: set[str] = set()
    holders, ended = await must_hold_what_they_demand(fronts[0], ids)
    for _ in range(STEPS):
        tools, agent, item = dice.choice(fronts), dice.choice(AGENTS), dice.choice(ids)
        action = dice.random()
        mine = holders.get(agent, "")
        if action < 0.3:
            seen.add("claim " + (await tools.claim(agent, item))["outcome"])
        elif action < 0.65:
            chosen: list[tuple[str, Sequence[str]]] = [(item, TRIGGERS)]
            chosen += [(mine, TRIGGERS)] if mine else []
            chosen += [(mine, ["reopen"])] * 3 if mine in ended else []
            moves = [
                {"itemId": one, "trigger": dice.choice(triggers), "actor": actor(agent)}
                for one, triggers in dice.choices(chosen, k=dice.choice((1, 1, 3)))
            ]
            for one in (await tools("advance_item", transitions=moves))["results"]:
                seen.add(f"{one['trigger']} {one.get('errorCode', one['applied'])}")
        elif action < 0.85:
            field = dice.choice(("resources", "type", "traits"))
            value = {"resources": demand(dice.choice(KEYS)), "type": "built", "traits": "slow"}[field]
            changed = dict.fromkeys((mine or item, item))
            changes = [{"id": one, field: dice.choice((value, value, None))} for one in changed]
            answer = await tools("manage_items", operation="update", items=changes)
            seen |= {"updated"} if answer["updated"] else set()
            seen |= {"not updated" for one in answer.get("failures", ()) if "resource_busy" in one["error"]}
        elif action < 0.9 and mine:
            await tools.release(agent, mine)
        elif action < 0.94 and mine:
            await lapse(tools, mine)
            await tools.expire()
        elif action < 0.97:
            await tools("complete_tree", rootId=dice.choice(parents), trigger="cancel", actor=actor(agent))
        else:
            ids.append(await tools.add(parentId=dice.choice(parents)))
        holders, ended = await must_hold_what_they_demand(tools, ids)
    assert {"reopen True", "updated", "claim resource_busy"} <= seen
    assert {"reopen resource_busy", "not updated"} & seen
