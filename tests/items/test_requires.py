"""Items that require capabilities: who gets them, where they are shown, and what the others cost."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json, counts
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.planting import plant
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

SETS = 500


async def sets_of(tools: Client) -> set[str]:
    """The sets of capabilities that the store knows."""
    return {one.decode() for one in await tools.store.command("HKEYS", keys.requirements.key(tools.project))}


async def consistent(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


async def test_only_agents_with_all_capabilities_get_an_item(tools: Client) -> None:
    item = await tools.add(requires=["linux", "gpu", "linux"])
    assert (await tools.get(item))["requires"] == ["gpu", "linux"]
    for named in (None, [], ["gpu"], ["linux", "mac"], ["gp", "linu"], ["gpu-x", "linux"]):
        assert (await take(tools, "a", capabilities=named))["outcome"] == "no_match", named
        assert await tools.next(capabilities=named or []) == []
    assert await tools.next(capabilities=["linux", "gpu", "x"]) == [item]
    claim = await take(tools, "a", capabilities=["linux", "gpu", "x"])
    assert (claim["outcome"], claim["itemId"]) == ("success", item)
    # Those named last still count, and end with an empty list.
    await tools.release("a", item)
    assert (await take(tools, "a"))["itemId"] == item
    await tools.release("a", item)
    assert (await take(tools, "a", capabilities=[]))["outcome"] == "no_match"
    assert (await take(tools, "a"))["outcome"] == "no_match"
    await consistent(tools)


async def test_a_claim_by_id_works_without(tools: Client) -> None:
    item = await tools.add(requires=["gpu"])
    assert (await tools.claim("a", item))["outcome"] == "success"
    assert (await tools.advance(item, "start", "a"))["applied"]
    await consistent(tools)


async def test_they_come_in_the_order_of_all(tools: Client) -> None:
    wanted: list[tuple[str, list[str]]] = [
        ("low", []), ("medium", ["b"]), ("high", ["a"]), ("medium", []), ("high", []), ("high", ["a", "b"]),
        ("medium", ["c"]),
    ]  # fmt: skip
    made = await tools.create(*({"title": "x", "priority": one, "requires": two} for one, two in wanted))
    ids = [item["id"] for item in made["items"]]
    expected = [ids[2], ids[4], ids[5], ids[1], ids[3], ids[0]]
    assert await tools.next(limit=20, capabilities=["a", "b"]) == expected
    taken = [(await take(tools, f"agent-{n}", capabilities=["a", "b"]))["itemId"] for n in range(len(expected))]
    assert taken == expected


async def test_abandoned_ones_are_taken_over_by_agents_that_can(tools: Client) -> None:
    item = await tools.add(requires=["gpu"])
    await take(tools, "a", capabilities=["gpu"])
    await tools.advance(item, "start", "a")
    await lapse(tools, item)
    # Without a back-off, so that it is on offer at once.
    await tools("get_context")
    assert (await take(tools, "b"))["outcome"] == "no_match"
    await consistent(tools)


async def test_requirements_change(tools: Client) -> None:
    item = await tools.add(tags="t", type="y")
    await tools.update(item, requires=["gpu"])
    assert await tools.next() == []
    assert await sets_of(tools) == {"gpu"}
    await tools.update(item, requires=["mac", "gpu"], tags="u", priority="high")
    assert await sets_of(tools) == {"gpu,mac"}
    assert await tools.next(capabilities=["gpu"]) == []
    assert await tools.next(capabilities=["gpu", "mac"], tags="u", type="y") == [item]
    await consistent(tools)
    await tools.update(item, title="other")
    assert (await tools.get(item))["requires"] == ["gpu", "mac"]
    cleared: tuple[list[str] | None, ...] = (None, [])
    for clearing in cleared:
        await tools.update(item, requires=["x"])
        await tools.update(item, requires=clearing)
        assert "requires" not in await tools.get(item)
        assert await tools.next() == [item]
        assert await sets_of(tools) == set()
    await tools.update(item, requires=["x"])
    await tools.delete(item)
    assert await sets_of(tools) == set()
    await consistent(tools)


async def test_a_change_while_it_is_held_or_waits(tools: Client) -> None:
    blocker, waits, held = await tools.add_many(3)
    await tools.link(blocker, waits)
    await tools.claim("a", held)
    for item in (waits, held):
        await tools.update(item, requires=["gpu"])
    await consistent(tools)
    await tools.release("a", held)
    await tools.move(blocker, "complete")
    assert await tools.next(limit=5) == []
    assert set(await tools.next(limit=5, capabilities=["gpu"])) == {waits, held}
    await tools.move(held, "start", "complete")
    await consistent(tools)


async def test_they_are_shown_like_others(tools: Client) -> None:
    """Searches, overviews and counts do not depend on requirements."""
    parent = await tools.add()
    await tools.add("plain", parentId=parent)
    item = await tools.add("special", parentId=parent, requires=["gpu"], tags="t")
    found = await tools("query_items", operation="search", tags="t", role="queue")
    assert [one["id"] for one in found["items"]] == [item]
    overview = await tools("query_items", operation="overview", itemId=parent)
    assert overview["childCounts"]["queue"] == 2
    assert (await tools("query_items", operation="search", claimStatus="unclaimed"))["total"] == 3
    await tools.move(item, "start")
    assert item in [one["id"] for one in (await tools("get_context"))["activeItems"]]
    await tools.move(item, "block")
    assert [one["itemId"] for one in (await tools("get_blocked_items"))["blockedItems"]] == [item]
    await tools.move(item, "cancel")
    await consistent(tools)


async def test_a_tree_with_requirements(tools: Client) -> None:
    children: list[Json] = [
        {"ref": "a", "title": "A", "requires": ["gpu"]}, {"ref": "b", "title": "B"},
    ]  # fmt: skip
    ids = await plant(tools, root={"title": "R", "requires": ["x"]}, children=children)
    assert await tools.next(limit=5) == [ids["b"]]
    assert await tools.next(limit=5, capabilities=["gpu", "x"]) == [ids["root"], ids["a"], ids["b"]]
    bad = [{"ref": "a", "title": "A", "requires": ["ok", "No"]}]
    refusal = await tools.refusal("create_work_tree", root={"title": "R"}, children=bad)
    assert refusal.message.startswith("children[0].requires[1]: 'No' must be lower-case letters")


@pytest.mark.parametrize(
    ("requires", "said"),
    [
        (["a", "b c"], "requires[1]: 'b c' must be lower-case letters"),
        (["a,b"], "requires[0]: 'a,b' must be lower-case letters"),
        (["x" * 101], f"requires[0]: '{'x' * 64}...' must be at most 100 characters"),
        ([f"c{n}" for n in range(33)], "requires: must be at most 32 capabilities"),
    ],
)
async def test_malformed_requirements_are_refused(tools: Client, requires: list[str], said: str) -> None:
    made = await tools.create({"title": "x", "requires": requires})
    assert made["failures"][0]["error"].startswith(said)
    changed = await tools.update(await tools.add(), requires=requires)
    assert changed["failures"][0]["error"].startswith(said)


async def test_the_number_of_sets_is_bounded(tools: Client) -> None:
    for start in range(0, SETS, 100):
        await tools.create(*({"title": "x", "requires": [f"c{n}"]} for n in range(start, start + 100)))
    known = await tools.add(requires=["c7"])
    for refused in (
        (await tools.create({"title": "x", "requires": ["one-more"]}))["failures"][0]["error"],
        (await tools.update(known, requires=["one-more"]))["failures"][0]["error"],
        (await tools.refusal("create_work_tree", root={"title": "R", "requires": ["one-more"]})).message,
    ):
        assert refused == "requires: a project can have at most 500 different sets of required capabilities"
    (first,) = await tools.next(capabilities=["c8"])
    await tools.delete(first)
    assert (await tools.create({"title": "x", "requires": ["one-more"]}))["created"] == 1
    await consistent(tools)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("HSET", "rs", "tpu", "1"), "counts 1 items that require tpu, should count no"),
        (("HDEL", "rs", "gpu"), "counts no items that require gpu, should count 1"),
        (("DEL", "x:Rgpu ga"), "is missing in Rgpu ga"),
    ],
)
async def test_the_audit_recounts_requirements(tools: Client, command: tuple[str, ...], said: str) -> None:
    await tools.add(requires=["gpu"], tags="a")
    await consistent(tools)
    name, key, *more = command
    await tools.store.command(name, keys.project_prefix(tools.project) + key.encode(), *more)
    assert [one.problem for one in (await audit(tools.store, tools.project)).differences] == [said]


async def test_parked_claims(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    plain = await one.park("plain")
    weak = await one.park("weak", capabilities=["gpu"])
    able = await other.park("able", capabilities=["linux", "gpu"])
    late = await other.park("late", capabilities=["gpu", "linux", "mac"])
    assert await one.add(requires=["linux", "gpu"]) == await able.item()
    assert plain.waits
    assert weak.waits
    assert await one.add(requires=["mac"]) == await late.item()
    # What nobody here can do stays; anything else goes to the longest waiting.
    await one.add(requires=["tpu"])
    assert await one.add(requires=[]) == await plain.item()
    assert await one.add(requires=["gpu"]) == await weak.item()


async def test_what_is_held_back_is_counted(tools: Client) -> None:
    parent = await tools.add(role="blocked")
    for n, requires in enumerate((["gpu"], ["gpu", "mac"], ["mac"], [])):
        await tools.add(requires=requires, tags="a,b", type="t", priority="high" if n else "low", parentId=parent)
    await tools.add(requires=["gpu"], role="work")
    assert (await take(tools, "first", {"parentId": parent}))["outcome"] == "success"
    cases: list[tuple[Json, list[str], int]] = [
        ({}, [], 3), ({"tags": "a,b,c"}, [], 3), ({"tags": "c"}, [], 0), ({"type": "t"}, ["x"], 3),
        ({"priority": "low"}, [], 1), ({"parentId": parent}, [], 3), ({"role": "work"}, [], 1),
        ({"role": "review"}, [], 0), ({"type": "t", "tags": "b", "orderBy": "newest"}, [], 3),
    ]  # fmt: skip
    for selector, able, count in cases:
        found = await take(tools, "a", selector, capabilities=able)
        assert found["outcome"] == "no_match", selector
        assert found.get("heldBack") == (counts(capabilities=count) if count else None), selector
    # Below what another agent holds, capabilities would not help.
    await tools.claim("holder", parent)
    assert "heldBack" not in await take(tools, "a", {"role": "queue"})
    await tools.release("holder", parent)
    # What the agent can do is none of it.
    assert (await take(tools, "able-1", capabilities=["gpu"]))["outcome"] == "success"
    assert (await take(tools, "able", capabilities=["gpu"])).get("heldBack") == counts(capabilities=2)


async def test_a_wait_in_vain_counts_what_is_held_back(fronts: Fronts) -> None:
    front = await fronts.make()
    await front.add(requires=["gpu"])
    call = front.begin("a", wait_ms=200, capabilities=["mac"])
    assert (await call.claim())["heldBack"] == counts(capabilities=1)


async def test_a_change_of_requirements_wakes_a_parked_claim(fronts: Fronts) -> None:
    one, other = await fronts.pair()
    item = await one.add(requires=["tpu"])
    call = await one.park("a", capabilities=["gpu"])
    await other.update(item, requires=["gpu"])
    assert await call.item() == item


async def test_racing_agents_with_different_capabilities(clients: list[Client]) -> None:
    """Three front-ends: each item goes to one agent, and to one that can."""
    sets: list[list[str]] = [[], ["a"], ["b"], ["a", "b"], ["c"]]
    await clients[0].create(*({"title": str(n), "requires": sets[n % len(sets)]} for n in range(100)))
    taken: dict[str, frozenset[str]] = {}

    async def work(client: Client, agent: str, able: list[str]) -> None:
        while True:
            result = await take(client, agent, capabilities=able)
            if result["outcome"] == "no_match":
                return
            assert result["itemId"] not in taken
            taken[result["itemId"]] = frozenset(able)
            assert (await client.advance(result["itemId"], "complete", agent))["applied"]

    await asyncio.gather(*(work(clients[n % 3], f"agent-{n}", sets[n % 4]) for n in range(8)))
    for item, able in taken.items():
        assert set((await clients[0].get(item)).get("requires", ())) <= able
    assert len(taken) == 80, "all but those that nobody could do"


async def test_selectors_beside_very_many_items_for_others(tools: Client) -> None:
    """The commands of a claim do not depend on how many items require what the agent cannot do."""
    plain = await tools.add_many(50, tags="t")

    async def commands_of(agent: str, named: list[str]) -> int:
        info = await tools.store.client.info("commandstats")
        before = sum(one["calls"] for one in info.values())
        assert (await take(tools, agent, {"tags": "t"}, capabilities=named))["itemId"] in plain
        info = await tools.store.client.info("commandstats")
        return int(sum(one["calls"] for one in info.values()) - before)

    few = [await commands_of(f"a-{n}", ["mac"]) for n in range(10)]
    for _ in range(10):
        made = await tools.create(
            *({"title": "x", "tags": "t", "priority": "high", "requires": ["gpu"]} for _ in range(1000))
        )
        assert made["created"] == 1000
    many = [await commands_of(f"b-{n}", ["mac"]) for n in range(10)]
    # (The store's background work counts, too.)
    assert sorted(many)[5] <= sorted(few)[5] + 3
