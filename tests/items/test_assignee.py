"""Items that are assigned to somebody: who gets them, where they are shown, and what the others cost."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from coordinator.settings.sections.resources import Limit
from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from tests.items.client import SETTINGS, Client, Json, actor, counts
from tests.items.moments import lapse
from tests.items.parked import LONG_MS, SOON, Fronts
from tests.items.planting import plant
from tests.items.selectors import take
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

ODD = "ann, the 1st: |due *"


async def consistent(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


@pytest.mark.parametrize("name", ["ann", ODD, "team/ann", "é", "@3:ann"])
async def test_only_the_assignee_and_its_slots_get_an_item(tools: Client, name: str) -> None:
    item = await tools.add(assignee=name, tags="t")
    assert (await tools.get(item))["assignee"] == name
    for agent in ("bob", f"{name}x", f"{name}/1/2", f"x/{name}", f"{name}/-"):
        found = await take(tools, agent)
        assert (found["outcome"], found.get("heldBack")) == ("no_match", counts(assigned=1)), agent
        assert await tools.next(agentId=agent) == []
    assert await tools.next() == []
    for agent in (name, f"{name}/1", f"{name}/a.b-c_1"):
        for selector in ({}, {"tags": "t"}, {"orderBy": "oldest"}, {"priority": "medium"}):
            claim = await take(tools, agent, selector)
            assert (claim["outcome"], claim.get("itemId")) == ("success", item), (agent, selector)
            await consistent(tools)
            await tools.release(agent, item)
        assert await tools.next(agentId=agent) == [item]
    await consistent(tools)


async def test_a_selector_asks_for_those_of_one_only(tools: Client) -> None:
    ann, bob, _ = [await tools.add(**({"assignee": name} if name else {})) for name in ("ann", "bob", "")]
    assert await tools.next(limit=5, assignee="bob") == [bob]
    assert await tools.next(limit=5, assignee="ann", agentId="bob") == [ann]
    assert await tools.next(limit=5, assignee="cy") == []
    assert (await take(tools, "cy", {"assignee": "ann"}))["itemId"] == ann
    found = await tools("query_items", operation="search", assignee="bob")
    assert [one["id"] for one in found["items"]] == [bob]


async def test_a_claim_by_id_says_whose_it_is(tools: Client) -> None:
    item = await tools.add(assignee="ann")
    for _ in range(2):  # a renewal says so, too
        claim = await tools.claim("bob", item)
        assert (claim["outcome"], claim["ready"], claim["reason"]) == ("success", False, "it is assigned to 'ann'")
    await tools.release("bob", item)
    assert "ready" not in await tools.claim("ann/1", item)
    await tools.link(await tools.add(), item)
    claim = await tools.claim("cy", await tools.add(role="blocked", assignee="ann"))
    assert claim["reason"] == "it is in role blocked: apply 'resume' first; it is assigned to 'ann'"
    await consistent(tools)


async def test_they_come_in_the_order_of_all(tools: Client) -> None:
    wanted: list[tuple[str, str | None, list[str]]] = [
        ("low", None, []), ("medium", "ann", ["a"]), ("high", "ann/1", []), ("medium", None, []), ("high", None, ["a"]),
        ("high", "ann", []), ("medium", "ann", ["b"]), ("high", "bob", []),
    ]  # fmt: skip
    made = await tools.create(*({"title": "x", "priority": a, "assignee": b, "requires": c} for a, b, c in wanted))
    ids = [item["id"] for item in made["items"]]
    expected = [ids[n] for n in (2, 4, 5, 1, 3, 0)]
    assert await tools.next(limit=20, capabilities=["a"], agentId="ann/1") == expected
    taken = []
    for _ in expected:
        taken.append((await take(tools, "ann/1", capabilities=["a"]))["itemId"])
        await tools.advance(taken[-1], "complete", "ann/1")
    assert taken == expected
    assert (await take(tools, "ann/1")).get("heldBack") == counts(capabilities=1, assigned=1)
    await consistent(tools)


async def test_an_assignee_changes(tools: Client) -> None:
    parent = await tools.add(container=True)
    item = await tools.add(tags="t", type="y", dueAt="+2h", parentId=parent, resources=[{"key": "site"}])
    changes: list[Json] = [
        {"assignee": "ann"}, {"requires": ["gpu"]}, {"tags": "u", "priority": "high"}, {"assignee": "bob"},
        {"dueAt": "+1h"}, {"resources": []}, {"requires": []}, {"parentId": None}, {"assignee": None},
        {"resources": [{"key": "site"}]}, {"assignee": "ann", "tags": "t", "dueAt": None},
    ]  # fmt: skip
    for change in changes:
        await tools.update(item, **change)
        await consistent(tools)
    assert await tools.next(agentId="ann", tags="t", type="y") == [item]
    await tools.update(item, assignee="  ")
    assert (await tools.get(item))["assignee"] == "ann"
    await tools.update(item, assignee=None)
    assert "assignee" not in await tools.get(item)
    assert await tools.next() == [item]
    await tools.update(item, assignee="ann")
    await tools.delete(item)
    await consistent(tools)


async def test_a_change_while_it_is_held_or_waits(tools: Client) -> None:
    blocker, waits, held = await tools.add_many(3)
    await tools.link(blocker, waits)
    await tools.claim("a", held)
    for item in (waits, held):
        await tools.update(item, assignee="ann")
    await consistent(tools)
    await tools.release("a", held)
    await tools.move(blocker, "complete")
    assert await tools.next(limit=5) == []
    assert set(await tools.next(limit=5, agentId="ann")) == {waits, held}
    await tools.claim("ann", held)
    await tools.advance(held, "start", "ann")
    await lapse(tools, held)
    await tools("get_context")
    assert (await take(tools, "bob"))["outcome"] == "no_match"
    await consistent(tools)


async def test_a_tree_with_assignees(tools: Client) -> None:
    children: list[Json] = [
        {"ref": "a", "title": "A", "assignee": "ann"}, {"ref": "b", "title": "B"},
    ]  # fmt: skip
    ids = await plant(tools, root={"title": "R", "assignee": "x"}, children=children)
    assert await tools.next(limit=5) == [ids["b"]]
    assert await tools.next(limit=5, agentId="ann") == [ids["a"], ids["b"]]
    assert await tools.next(limit=5, agentId="x", parents="any") == [ids["root"], ids["b"]]
    assert await tools.next(limit=5, parents="any") == [ids["b"]]


async def test_a_name_that_is_too_long_is_refused(tools: Client) -> None:
    said = "assignee: must be at most 200 characters, not 201"
    made = await tools.create({"title": "x", "assignee": "a" * 201})
    assert made["failures"][0]["error"].startswith(said)
    changed = await tools.update(await tools.add(), assignee="a" * 201)
    assert changed["failures"][0]["error"].startswith(said)
    refusal = await tools.refusal("get_next_item", assignee="a" * 201)
    assert refusal.message.startswith(said)


@pytest.mark.parametrize(
    ("scope", "said"), [("R@3:ann *", "is missing in R@3:ann *"), ("A@3:ann gt", "is missing in A@3:ann gt"),
                        ("@", "is missing in @")]
)  # fmt: skip
async def test_the_audit_knows_their_sets(tools: Client, scope: str, said: str) -> None:
    await tools.add(assignee="ann", tags="t")
    await consistent(tools)
    await tools.store.command("DEL", keys.ranked.key(tools.project, scope))
    assert [one.problem for one in (await audit(tools.store, tools.project)).differences] == [said]


async def test_the_audit_knows_them_from_sets_of_resources(tools: Client) -> None:
    await tools.add_many(12, resources=[{"key": "user@"}])
    await tools.add(resources=[{"key": "user@"}], assignee="ann")
    await consistent(tools)


async def test_parked_claims(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    plain = await one.park("plain")
    ann = await other.park("ann")
    slot = await one.park("ann/2")
    of_ann = await one.park("cy", {"assignee": "ann"})
    assert await one.add(assignee="ann/2") == await slot.item()
    assert await other.add(assignee="ann") == await ann.item()
    assert await other.add(assignee="ann") == await of_ann.item()
    assert plain.waits
    item = await one.add(assignee="ann")
    later = await other.park("bob")
    await other.update(item, assignee="bob")
    assert await later.item() == item
    assert plain.waits
    item = await one.add(assignee="ann")
    await other.update(item, assignee=None)
    assert await plain.item() == item


async def test_resources_that_come_back_wake_whose_item_needs_them(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    gpu: Json = {"resources": [{"key": "gpu"}]}
    held = await one.add(**gpu)
    await one.claim("holder", held)
    item = await one.add(assignee="ann", **gpu)
    first, ann = await one.park("first"), await other.park("ann/1")
    await one.release("holder", held)
    assert await first.item() == held
    assert ann.waits
    await other.advance(held, "complete", actor=actor("first"))
    assert await ann.item() == item
    await one.advance(item, "complete", actor=actor("ann/1"))
    held, item = await one.add(assignee="holder", **gpu), await one.add(assignee="ann", **gpu)
    await one.claim("holder", held)
    first, ann = await one.park("first"), await other.park("ann/1")
    await one.advance(held, "complete", actor=actor("holder"))
    assert await ann.item() == item
    assert first.waits


async def test_an_item_finds_its_assignee_behind_many_calls_that_wait(fronts: Fronts) -> None:
    """It is offered, needs what another call gives back, or is one of very many that a claim above them kept."""
    one, other = await fronts.pair()
    gpu: Json = {"resources": [{"key": "gpu"}]}
    held, top = await one.add(**gpu), await one.add()
    await one.claim("holder", held)
    await one.claim("lead", top)
    needs = await one.add(assignee="bob", **gpu)
    made = await one.create(*({"title": "x", "parentId": top, "assignee": f"cy-{n}"} for n in range(120)))
    many = [other.begin(f"other-{n}", wait_ms=LONG_MS) for n in range(300)]
    await wait_until(lambda: other.runs["claim_next"] >= len(many), SOON, "these to wait")
    ann, bob, last = await one.park("ann"), await one.park("bob"), await one.park("cy-119")
    assert await other.add(assignee="ann") == await ann.item()
    await one.advance(held, "complete", actor=actor("holder"))
    assert await bob.item() == needs
    await one.update(top, container=True)
    await one.release("lead", top)
    assert await last.item() == made["items"][-1]["id"]
    assert all(call.waits for call in many)


async def test_all_slots_get_what_is_assigned_to_their_owner_when_resources_come_back(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    held = await one.add(resources=[{"key": "gpu"}])
    shared: Json = {"resources": [{"key": "gpu", "mode": "shared"}]}
    items = {await one.add(assignee="ann", **shared) for _ in range(12)}
    await one.claim("holder", held)
    first, slots = await other.park("first"), [await one.park(f"ann/{n}") for n in range(len(items))]
    await one.advance(held, "complete", actor=actor("holder"))
    assert {await slot.item() for slot in slots} == items
    assert first.waits


async def test_an_assignee_that_waits_gets_what_needs_units_per_minute(fronts: Fronts) -> None:
    """Also if it is not among the first of those that wait with its selector, which search again by themselves."""
    front = await fronts.make(settings=msgspec.structs.replace(SETTINGS, resources={"m": Limit(per_minute=60)}))
    others = [await front.park(f"other-{n}") for n in range(5)]
    used, item = [await front.add(resources=[{"key": "m"}], assignee=name) for name in ("a", "ann")]
    await front.claim("a", used)
    await front.advance(used, "complete", actor=actor("a"))
    assert await front.begin("ann/1", wait_ms=LONG_MS).item() == item
    assert all(call.waits for call in others)


async def test_past_held_subtrees(tools: Client) -> None:
    """The walk of the tree finds assigned items among others, in order, and skips those below held ones."""
    tops = await tools.add_many(8)
    made = await tools.create(*({"title": "x", "parentId": top, "priority": "high"} for top in tops for _ in range(6)))
    below = [item["id"] for item in made["items"]]
    for n, top in enumerate(tops[:7]):
        await tools.claim(f"holder-{n}", top)
    mine = [await tools.add(parentId=tops[n], priority="high", assignee="ann") for n in (0, 7)]
    low = await tools.add(priority="low", assignee="ann")
    plain = await tools.add(priority="medium")
    assert await tools.next(limit=20, agentId="ann") == [*below[42:], mine[1], tops[7], plain, low]
    assert await tools.next(limit=20) == [*below[42:], tops[7], plain]
    taken = []
    for _ in range(9):
        taken.append((await take(tools, "ann"))["itemId"])
        await tools.advance(taken[-1], "complete", "ann")
    assert taken == [*below[42:], mine[1], plain, low]
    await consistent(tools)


async def test_racing_agents_get_what_is_theirs(clients: list[Client]) -> None:
    """Three front-ends: each item goes to one agent, and to none but its assignee."""
    names = (None, "ann", "bob", "cy/1", "nobody")
    made = await clients[0].create(*({"title": "x", "assignee": names[n % len(names)]} for n in range(60)))
    assignees = {item["id"]: names[n % len(names)] for n, item in enumerate(made["items"])}
    taken: dict[str, str] = {}

    async def work(client: Client, agent: str) -> None:
        while (found := await take(client, agent))["outcome"] == "success":
            assert found["itemId"] not in taken
            taken[found["itemId"]] = agent
            assert (await client.advance(found["itemId"], "complete", agent))["applied"]

    agents = ("ann", "ann/1", "bob", "cy", "cy/1", "dan")
    await asyncio.gather(*(work(clients[n % 3], agent) for n, agent in enumerate(agents)))
    for item, agent in taken.items():
        assert assignees[item] in (None, agent, agent.partition("/")[0])
    assert len(taken) == 48, "all but those of nobody"
    await consistent(clients[0])


async def test_selectors_beside_very_many_items_of_others(tools: Client) -> None:
    """The commands of a claim do not depend on how many items are assigned to others, nor to how many."""
    plain = await tools.add_many(24, tags="t")
    await tools.create({"title": "x", "assignee": "z"})

    async def commands_of(agent: str) -> int:
        info = await tools.store.client.info("commandstats")
        before = sum(one["calls"] for one in info.values())
        assert (await take(tools, agent, {"tags": "t"}))["itemId"] in plain
        info = await tools.store.client.info("commandstats")
        return int(sum(one["calls"] for one in info.values()) - before)

    few = sorted([await commands_of(f"a-{n}") for n in range(7)])[3]
    for part in range(2):
        specs = ({"title": "x", "tags": "t", "priority": "high", "assignee": f"o-{part}-{n}"} for n in range(800))
        assert (await tools.create(*specs))["created"] == 800
    many = sorted([await commands_of(f"b-{n}") for n in range(7)])[3]
    assert many <= few + 3, "the store's background work counts, too"


async def test_one_that_an_older_process_has_put_among_those_for_everybody(tools: Client) -> None:
    """Such a process does not know the field: others still do not get the item, and its next move puts it right."""
    item = await tools.add(assignee="ann")
    inner = item.replace("-", "")
    scope, *others = (keys.ranked.key(tools.project, one) for one in ("R@3:ann *", "A@3:ann *", "@"))
    score = await tools.store.command("ZSCORE", scope, inner)
    await tools.store.command("HDEL", keys.item.key(tools.project, inner), "as")
    await tools.store.command("DEL", scope, *others)
    await tools.store.command("ZADD", keys.ranked.key(tools.project, "p"), score, inner)
    assert (await take(tools, "bob"))["outcome"] == "no_match"
    assert (await take(tools, "ann"))["itemId"] == item
    await tools.release("ann", item)
    await consistent(tools)


async def test_where_nothing_is_assigned_no_claim_searches_for_it(tools: Client) -> None:
    """Also where items are held back or abandoned, so that the first look does not show that there is nothing else."""
    await tools.add(notBefore="+1h")
    item = await tools.add()
    assigned = keys.ranked.key(tools.project, "@").decode()
    seen: list[str] = []
    async with tools.store.client.monitor() as monitor:
        assert (await take(tools, "ann/1"))["itemId"] == item
        await tools.store.command("ECHO", tools.project)
        while not seen or "ECHO" not in seen[-1]:
            seen.append((await monitor.next_command())["command"])
    named = [one for one in seen if assigned in one]
    assert len(named) == 2
    assert all(one.startswith("EXISTS") for one in named)
    assert not any(assigned[:-1] + "R@" in one or assigned[:-1] + "A@" in one for one in seen)


async def test_the_call_that_puts_an_assigned_item_back_finds_it(tools: Client) -> None:
    item = await tools.add(assignee="ann")
    assert (await take(tools, "ann/1"))["itemId"] == item
    await lapse(tools, item)
    assert (await take(tools, "ann/2"))["itemId"] == item
    await consistent(tools)
