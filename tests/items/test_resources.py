"""Resources that items demand: who gets them, when they are given back, what callers are told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings.sections.resources import Limit
from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from tests.items.client import SETTINGS, Client, Json, counts
from tests.items.moments import lapse
from tests.items.parked import Fronts
from tests.items.resources import demand, held, with_limits
from tests.items.selectors import take

pytestmark = pytest.mark.anyio


async def consistent(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


async def outcome(tools: Client, agent: str, item: str, **fields: Any) -> str:
    return str((await tools.claim(agent, item, **fields))["outcome"])


async def test_a_claim_takes_them_and_selectors_pass_over_what_is_busy(tools: Client) -> None:
    first, second = await tools.add_many(2, resources=[demand("gpu")])
    free = await tools.add(priority="low")
    assert (await take(tools, "a"))["itemId"] == first
    assert await held(tools) == {"gpu": "1.0.0.0"}
    assert await tools.next() == [free]
    busy = await tools.claim("b", second)
    assert busy == {
        "itemId": second,
        "outcome": "resource_busy",
        "kind": "transient",
        "code": "resource_busy",
        "retryAfterMs": 1000,
        "resources": [demand("gpu")],
    }
    assert (await take(tools, "b"))["itemId"] == free
    none = await take(tools, "c")
    assert none["outcome"] == "no_match"
    assert none["heldBack"] == counts(resources=1)
    await consistent(tools)
    await tools.release("a", first)
    assert await held(tools) == {}
    assert await outcome(tools, "b", second) == "success"
    await consistent(tools)


@pytest.mark.parametrize(
    ("has", "wants", "granted"),
    [
        (demand("a"), demand("a"), False),
        (demand("a"), demand("a/b"), False),
        (demand("a/b"), demand("a"), False),
        (demand("a/b"), demand("a/c"), True),
        (demand("a"), demand("ab"), True),
        (demand("a", "shared"), demand("a", "shared"), True),
        (demand("a", "shared"), demand("a"), False),
        (demand("a", "shared"), demand("a/b"), False),
        (demand("a/b"), demand("a", "shared"), False),
        (demand("a/b", "shared"), demand("a"), False),
        (demand("a"), demand("a/b", "shared"), False),
        (demand("gpu"), demand("gpu"), True),
        (demand("gpu", units=2), demand("gpu", units=2), False),
        (demand("gpu/0"), demand("gpu", units=2), True),
        (demand("gpu/0"), demand("gpu", units=3), False),
        (demand("gpu/0"), demand("gpu/0"), False),
        (demand("gpu", "shared"), demand("gpu"), False),
    ],
)
async def test_keys_conflict_along_their_paths(tools: Client, has: Json, wants: Json, granted: bool) -> None:
    limited = with_limits(tools, resources={"gpu": 3})
    one, other = await limited.add(resources=[has]), await limited.add(resources=[wants])
    assert await outcome(limited, "a", one) == "success"
    assert await outcome(limited, "b", other) == ("success" if granted else "resource_busy")
    await consistent(tools)


async def test_all_or_nothing_and_the_own_claim_is_no_obstacle(tools: Client) -> None:
    one, both = await tools.add(resources=[demand("a")]), await tools.add(resources=[demand("a"), demand("b")])
    assert await outcome(tools, "x", one) == "success"
    refused = await tools.claim("y", both)
    assert (refused["outcome"], refused["resources"]) == ("resource_busy", [demand("a")])
    assert await held(tools) == {"a": "1.0.0.0"}
    assert (await take(tools, "x"))["itemId"] == both
    assert await held(tools) == {"a": "1.0.0.0", "b": "1.0.0.0"}
    await consistent(tools)


@pytest.mark.parametrize("way", ["complete", "cancel", "release", "expire", "delete", "other", "cascade", "tree"])
async def test_they_are_given_back(tools: Client, way: str) -> None:
    parent = await tools.add()
    item = await tools.add(resources=[demand("a/b", units=1)], parentId=parent)
    assert await outcome(tools, "x", item) == "success"
    await tools.advance(item, "start", "x")
    assert await held(tools) == {"a": "0.0.1.0", "a/b": "1.0.0.0"}
    await tools.advance(item, "block", "x")
    assert await held(tools)
    await tools.advance(item, "resume", "x")
    if way in ("complete", "cancel"):
        await tools.advance(item, way, "x")
    elif way == "release":
        await tools.release("x", item)
    elif way == "expire":
        await lapse(tools, item)
        assert (await take(tools, "y"))["itemId"] == item  # whoever looks first notices it
        assert await held(tools) == {"a": "0.0.1.0", "a/b": "1.0.0.0"}
        await tools.release("y", item)
    elif way == "delete":
        await tools.delete(item)
    elif way == "other":
        await tools.claim("x", await tools.add())
    elif way == "cascade":
        await tools.release("x", item)
        await tools.update(parent, resources=[demand("c")])
        assert await outcome(tools, "x", parent) == "success"
        await tools.advance(item, "complete")
    else:
        await tools("complete_tree", rootId=parent, trigger="cancel", actor={"id": "x", "kind": "subagent"})
    assert await held(tools) == {}
    await consistent(tools)


async def test_expired_claims_are_no_obstacle_for_claims_by_id(tools: Client) -> None:
    one, other = await tools.add(resources=[demand("a")]), await tools.add(resources=[demand("a")])
    await tools.claim("x", one)
    await lapse(tools, one)
    assert await outcome(tools, "y", other) == "success"
    await consistent(tools)


async def test_a_renewal_takes_further_ones_all_or_none(tools: Client) -> None:
    one, other = await tools.add(resources=[demand("a")]), await tools.add(resources=[demand("c")])
    await tools.claim("x", one)
    await tools.claim("y", other)
    refused = await tools.claim("x", one, resources=[demand("b"), demand("c")])
    assert (refused["outcome"], refused["resources"]) == ("resource_busy", [demand("c")])
    assert await held(tools) == {"a": "1.0.0.0", "c": "1.0.0.0"}
    assert await outcome(tools, "x", one, resources=[demand("b"), demand("a")]) == "success"
    assert await outcome(tools, "x", one) == "success"
    assert await held(tools) == {"a": "1.0.0.0", "b": "1.0.0.0", "c": "1.0.0.0"}
    await consistent(tools)
    await tools.release("x", one)
    assert await held(tools) == {"c": "1.0.0.0"}
    assert await outcome(tools, "x", one, resources=[demand("d", "shared")]) == "success"
    assert await held(tools) == {"a": "1.0.0.0", "c": "1.0.0.0", "d": "0.1.0.0"}
    await tools.advance(one, "cancel", "x")
    assert await held(tools) == {"c": "1.0.0.0"}
    await consistent(tools)


async def test_further_units_of_a_key_that_is_held_are_those_beyond_it(tools: Client) -> None:
    limited = with_limits(tools, resources={"gpu": 4})
    item = await limited.add(resources=[demand("gpu"), demand("a", "shared")])
    assert await outcome(limited, "x", item, resources=[demand("gpu", units=2)]) == "success"
    assert await held(limited) == {"a": "0.1.0.0", "gpu": "2.0.0.0"}
    for _ in range(2):  # a heartbeat that repeats what it needs
        assert await outcome(limited, "x", item, resources=[demand("gpu", units=3), demand("a")]) == "success"
        assert await held(limited) == {"a": "1.1.0.0", "gpu": "3.0.0.0"}
    assert await outcome(limited, "x", item, resources=[demand("gpu", "shared")]) == "success"
    shown = (await limited("get_context", itemId=item))["claimDetail"]["resources"]
    assert shown == [demand("gpu", units=3), demand("a", "shared"), demand("a")]
    await consistent(limited)
    await limited.release("x", item)
    assert await held(limited) == {}


async def test_what_a_renewal_takes_counts_together_with_what_the_claim_holds(tools: Client) -> None:
    limited = with_limits(tools, resources={"gpu": 3})
    item = await limited.add(resources=[demand("gpu", units=2), demand("a")])
    await limited.claim("x", item)
    busy = await limited.claim("x", item, resources=[demand("gpu/0"), demand("gpu/1")])
    assert (busy["outcome"], busy["resources"]) == ("resource_busy", [demand("gpu/0"), demand("gpu/1")])
    assert await held(limited) == {"a": "1.0.0.0", "gpu": "2.0.0.0"}
    assert await outcome(limited, "x", item, resources=[demand("gpu/0"), demand("a/b")]) == "success"
    assert await outcome(limited, "x", item, resources=[demand("gpu/1")]) == "resource_busy"
    assert await held(limited) == {"a": "1.0.1.0", "a/b": "1.0.0.0", "gpu": "2.0.1.0", "gpu/0": "1.0.0.0"}
    await limited.release("x", item)
    assert await held(limited) == {}


async def test_schemas_and_traits_say_what_items_demand_that_do_not_say_so(tools: Client) -> None:
    limited = with_limits(
        tools,
        resources={"gpu": 2},
        work_item_schemas={"bug": {"resources": [{"key": "gpu", "units": 2}], "default_traits": ["t"]}},
        traits={
            "t": {"resources": [{"key": "gpu"}, {"key": "db", "mode": "shared"}]},
            "u": {"resources": [{"key": "u"}]},
        },
    )
    item = await limited.add(type="bug", traits="u")
    assert (await limited.get(item))["resources"] == [demand("gpu", units=2), demand("db", "shared"), demand("u")]
    await limited.update(item, type=None)
    assert (await limited.get(item))["resources"] == [demand("u")]
    await limited.update(item, resources=[])
    assert "resources" not in await limited.get(item)
    await limited.update(item, type="bug")
    assert "resources" not in await limited.get(item)
    await limited.update(item, resources=None)
    assert (await limited.get(item))["resources"][0] == demand("gpu", units=2)
    given: Json
    for given, demanded in (({}, 2), ({"resources": []}, 0)):
        tree = await limited("create_work_tree", root={"title": "root", "type": "bug", **given})
        assert len((await limited.get(tree["root"]["id"])).get("resources", ())) == demanded
    await consistent(tools)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([demand("a b")], "resources[0].key: 'a b' must be a path of at most 8 names"),
        ([demand("a"), demand("/a")], "resources[1].key: '/a' must be a path"),
        ([demand("a"), demand("a")], "resources[1].key: 'a' is there twice; entry 0 has it too"),
        ([demand("a", "x")], "resources[0].mode: must be exclusive or shared, not 'x'"),
        ([demand("a", units=0)], "resources[0].units: must be 1 to 1,000,000, not 0"),
        ([demand("a", "shared", 2)], "resources[0].units: must be 1 or left out: mode shared takes no units"),
        ([demand("a", units=2)], "resources[0].units: the item demands 2 units of a, and its capacity is 1"),
        ([demand("gpu", units=4)], "resources[0].units: the item demands 4 units of gpu, and its capacity is 3"),
        ([demand("gpu/0"), demand("gpu", units=3)], "resources[1].units: the item demands 4 units of gpu"),
        ([demand(f"k{n}") for n in range(17)], "resources: must be at most 16 resources, not 17"),
    ],
)
async def test_bad_demands_are_refused(tools: Client, given: list[Json], said: str) -> None:
    limited = with_limits(tools, resources={"gpu": 3})
    item = await limited.add()
    created = await limited.create({"title": "x", "resources": given})
    assert created["failures"][0]["error"].startswith(said)
    updated = await limited.update(item, resources=given)
    assert updated["failures"][0]["error"].startswith(said)
    tree = await limited.refusal("create_work_tree", root={"title": "x", "resources": given})
    assert tree.message.startswith(f"root.{said}")
    claim = await limited.attempt("claim_item", **_claim(item, given))
    assert isinstance(claim, ToolFailure)
    assert claim.message.startswith(f"claims[0].{said}")


def _claim(item: str, given: list[Json]) -> Json:
    return {
        "actor": {"id": "a", "kind": "subagent"},
        "requestId": "8c7b3c5e-7f4e-4c35-9d51-3f0f9b9d3c11",
        "claims": [{"itemId": item, "resources": given}],
    }


async def test_units_per_minute_come_back_evenly(tools: Client) -> None:
    limited = with_limits(tools, resources={"m": Limit(capacity=3, per_minute=60)})
    items = await limited.add_many(3, resources=[demand("m/x"), demand("m")])
    assert (await take(limited, "a"))["itemId"] == items[0]
    await limited.release("a", items[0])
    refused = await limited.claim("a", items[1])  # one of three is left, and it demands two
    assert (refused["outcome"], refused["resources"]) == ("resource_busy", [demand("m/x"), demand("m")])
    assert 0 < refused["retryAfterMs"] <= 1000
    assert (await take(limited, "a"))["heldBack"]["resources"] == 3
    await _as_if(tools, "~m", 1000)
    assert await outcome(limited, "a", items[1]) == "success"
    assert await outcome(limited, "a", items[1]) == "success"  # a renewal takes none
    await limited.release("a", items[1])
    await _as_if(tools, "~m", 60_000)  # no more than its capacity is saved
    for item in items[:2]:
        assert await outcome(limited, "a", item) == ("success" if item == items[0] else "resource_busy")
    await consistent(tools)


async def test_all_of_a_capacity_can_be_taken_in_the_first_minute(tools: Client) -> None:
    limited = with_limits(tools, resources={"m": Limit(capacity=3, per_minute=1)})
    items = await limited.add_many(4, resources=[demand("m")])
    outcomes = [await outcome(limited, f"a{number}", item) for number, item in enumerate(items[:3])]
    assert outcomes == ["success"] * 3
    await limited.release("a0", items[0])
    refused = await limited.claim("b", items[3])
    assert refused["outcome"] == "resource_busy"
    assert 0 < refused["retryAfterMs"] <= 60_000


async def test_a_waiting_call_gets_what_comes_back_by_time(fronts: Fronts) -> None:
    front = await fronts.make(settings=msgspec.structs.replace(SETTINGS, resources={"m": Limit(per_minute=100)}))
    item = await front.add(resources=[demand("m")])
    await front.claim("a", item)
    await front.release("a", item)
    call = await front.park("b")
    assert await call.item() == item


async def _as_if(tools: Client, field: str, ms: int) -> None:
    """Makes it so much longer ago that units of a key were taken."""
    key = keys.resources.key(tools.project)
    left, _, since = (await tools.store.command("HGET", key, field)).decode().partition(" ")
    await tools.store.command("HSET", key, field, f"{left} {int(since) - ms}")


async def test_the_context_of_an_item_shows_what_it_demands_and_its_claim_holds(tools: Client) -> None:
    item = await tools.add(resources=[demand("gpu"), demand("repo/a", "shared")])
    await tools.claim("a", item, resources=[demand("z")])
    context = await tools("get_context", itemId=item)
    assert context["resources"] == [demand("gpu"), demand("repo/a", "shared")]
    assert context["claimDetail"]["resources"] == [*context["resources"], demand("z")]
    await lapse(tools, item)
    await take(tools, "b", {"tags": "none"})
    assert "resources" not in (await tools("get_context", itemId=item))["claimDetail"]
