"""Selectors against a plain Python model: random items, claims and dependencies, random selectors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json, fresh_id
from tests.items.moments import ms
from tests.items.selectors import PRIORITIES, Model, Thing, take
from tests.support import leaks

pytestmark = pytest.mark.anyio

OPEN = ("queue", "work", "review", "blocked")
TAGS = ("api", "ui", "db")
TYPES = ("bug", "feature")
CAPABILITIES = ("gpu", "linux", "mac")
NAMES = ("a", "b", "c/1", "c, d")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

specs = st.fixed_dictionaries(
    {
        "role": st.sampled_from(("queue",) * 8 + (*OPEN, "terminal")),
        "priority": st.sampled_from(PRIORITIES),
        "complexity": st.none() | st.integers(1, 10),
        "tags": st.none() | st.lists(st.sampled_from(TAGS), min_size=1, max_size=3).map(",".join),
        "type": st.none() | st.sampled_from(TYPES),
        "requires": st.just([]) | st.lists(st.sampled_from(CAPABILITIES), max_size=2),
        "assignee": st.none() | st.none() | st.sampled_from(NAMES),
    }
)
ASKING = st.sampled_from(("", "a", "b/2", "c/1", "c/1/x"))
AGENTS = st.sampled_from((*"abcde", "a/1", "c/1", "c/1/2", "c, d"))
able = st.none() | st.lists(st.sampled_from(CAPABILITIES), max_size=3)


@st.composite
def plans(draw: st.DrawFn) -> Json:
    """Levels of items, each created by one call; indexes stand for future items."""
    levels: list[list[Json]] = []
    for depth, most in enumerate((8, 6, 6, 4)):
        parents = st.integers(0, len(levels[-1]) - 1) if depth else st.none()
        levels.append([{**draw(specs), "parent": draw(parents)} for _ in range(draw(st.integers(1, most)))])
    index = st.integers(0, sum(map(len, levels)) - 1)
    thresholds = st.sampled_from(("queue", "work", "review", "terminal"))
    return {
        "levels": levels,
        # From lower to higher, so there is no cycle; one edge per pair.
        "edges": {
            (min(a, b), max(a, b)): threshold
            for a, b, threshold in draw(st.lists(st.tuples(index, index, thresholds), max_size=4))
            if a != b
        },
        "triggers": draw(st.lists(st.tuples(index, st.sampled_from(("start", "block", "complete"))), max_size=3)),
        "claims": draw(st.lists(st.tuples(st.sampled_from("abc"), index), max_size=4)),
    }


bounds = st.tuples(st.integers(0, 30), st.integers(-1, 1), st.sampled_from(("Z", "+00:00", "+02:00")))
"""Which item's time, how many milliseconds from it, and the zone it is written in."""
FILTERS: dict[str, st.SearchStrategy[Any]] = {
    "role": st.sampled_from(OPEN),
    "parents": st.sampled_from(("any", "after_children")),
    "parentId": st.integers(0, 30),
    "ancestorId": st.integers(0, 30),
    "tags": st.lists(st.sampled_from(TAGS), min_size=1, max_size=3).map(" , ".join),
    "priority": st.sampled_from(PRIORITIES),
    "type": st.sampled_from((*TYPES, "unknown")),
    "complexityMax": st.integers(1, 10),
    "assignee": st.sampled_from((*NAMES, "z")),
    "createdAfter": bounds,
    "createdBefore": bounds,
    "roleChangedAfter": bounds,
    "roleChangedBefore": bounds,
}
ORDERS = (None, "priority", "oldest", "newest")


@st.composite
def selectors(draw: st.DrawFn) -> Json:
    """At most three filters: with more there are hardly any matches."""
    names = draw(st.lists(st.sampled_from(list(FILTERS)), unique=True, max_size=3))
    drawn = {name: draw(FILTERS[name]) for name in names}
    return {**drawn, "orderBy": draw(st.sampled_from(ORDERS))}


async def built(tools: Client, plan: Json) -> Model:
    """Carries out the plan, and reads roles and times with query_items."""
    model = Model()
    ids: list[str] = []
    above: list[str] = []
    for level in plan["levels"]:
        items = [{name: value for name, value in spec.items() if name != "parent"} for spec in level]
        for item, spec in zip(items, level, strict=True):
            if spec["parent"] is not None:
                item["parentId"] = above[spec["parent"]]
        above = [made["id"] for made in (await tools.create(*({"title": "t", **item} for item in items)))["items"]]
        ids += above
    for (blocker, blocked), threshold in plan["edges"].items():
        await tools.link(ids[blocker], ids[blocked], unblockAt=threshold)
        model.edges[ids[blocker], ids[blocked]] = threshold
    for number, trigger in plan["triggers"]:
        await tools.advance(ids[number], trigger)
    for one in ids:
        seen = await tools.get(one)
        model.things[one] = Thing(
            id=one,
            parent=seen.get("parentId"),
            role=seen["role"],
            priority=seen["priority"],
            complexity=seen["complexity"],
            tags=set((seen.get("tags") or "").split(",")) - {""},
            type=seen.get("type"),
            created=ms(seen["createdAt"]),
            changed=ms(seen["roleChangedAt"]),
            requires=frozenset(seen.get("requires", ())),
            assignee=seen.get("assignee"),
        )
    for agent, number in plan["claims"]:
        if (await tools.claim(agent, ids[number]))["outcome"] == "success":
            model.claim(agent, ids[number])
    return model


def materialized(drawn: Json, model: Model) -> Json:
    """The selector with ids and times of existing items."""
    ids = list(model.things)

    def written(bound: tuple[int, int, str], name: str) -> str:
        number, offset, zone = bound
        thing = model.things[ids[number % len(ids)]]
        at = (thing.created if name.startswith("created") else thing.changed) + offset
        moment = _EPOCH + timedelta(milliseconds=at)
        if zone == "+02:00":
            moment = moment.astimezone(timezone(timedelta(hours=2)))
        return moment.isoformat(timespec="milliseconds").replace("+00:00", zone)

    selector: Json = {}
    for name, value in drawn.items():
        if name in ("parentId", "ancestorId"):
            selector[name] = ids[value % len(ids)]
        elif value is not None:
            selector[name] = written(value, name) if isinstance(value, tuple) else value
    for name in ("created", "roleChanged"):
        after, before = selector.get(f"{name}After"), selector.get(f"{name}Before")
        if after and before and ms(after) > ms(before):
            del selector[f"{name}After"]
    return selector


@asynccontextmanager
async def a_project(store: Store, redis_url: str) -> AsyncIterator[Client]:
    """A client of a temporary project."""
    tools = Client(store, f"t{fresh_id()[:13]}")
    try:
        yield tools
        assert (await audit(store, tools.project)).differences == []
    finally:
        with redis_client(parse(redis_url), tools.project) as client:
            complaints = leaks.leaked_keys(client, tools.project)
            leaks.delete_keys(client, tools.project)
    assert not complaints


examples = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@examples
@given(plan=plans(), asked=st.lists(st.tuples(selectors(), st.booleans(), able, ASKING), min_size=4, max_size=10))
async def test_get_next_item_matches_the_model(store: Store, redis_url: str, plan: Json, asked: Any) -> None:
    async with a_project(store, redis_url) as tools:
        model = await built(tools, plan)
        for drawn, claimed, named, asks in [({}, False, None, ""), ({}, True, CAPABILITIES, "a"), *asked]:
            selector = materialized(drawn, model)
            expected = list(model.found(selector, claimed=claimed, able=named or (), asks=asks))
            options = {
                **selector,
                "includeClaimed": claimed,
                "capabilities": list(named or ()),
                "agentId": asks or None,
            }
            assert await tools.next(**options, limit=20) == expected[:20]
            assert await tools.next(**options, limit=3) == expected[:3]


@examples
@given(plan=plans(), asked=st.lists(st.tuples(AGENTS, selectors(), able), min_size=4, max_size=16))
async def test_claims_match_the_model(store: Store, redis_url: str, plan: Json, asked: Any) -> None:
    async with a_project(store, redis_url) as tools:
        model = await built(tools, plan)
        kept: dict[str, list[str]] = {}
        for agent, drawn, named in asked:
            selector = materialized(drawn, model)
            if named is not None:
                kept[agent] = named
            expected = model.found(selector, agent, able=kept.get(agent, ()))
            result = await take(tools, agent, selector, capabilities=named)
            if not expected:
                assert result["outcome"] == "no_match"
                continue
            assert (result["outcome"], result["itemId"]) == ("success", expected[0])
            model.claim(agent, expected[0])
