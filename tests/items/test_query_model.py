"""Searches against a plain Python filter: the index and the walk must find the same, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.store import Store
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.toolsets.items.contract.query import SORT_FIELDS
from coordinator.toolsets.items.store.query import Best, Pace
from tests.items.client import Client, Json
from tests.items.query_world import PRIORITIES, ROLES, TAGS, TYPES, WORDS, World, build
from tests.support import leaks

pytestmark = pytest.mark.anyio
PROJECT = "query-model"


@pytest.fixture(scope="module")
async def place(redis_url: str) -> AsyncIterator[tuple[Client, World]]:
    """One world for all searches of this file; they change nothing."""
    store = Store(redis_url, timeout_ms=5000)
    await store.open()
    try:
        with pytest.MonkeyPatch.context() as patch, redis_client(parse(redis_url), PROJECT) as client:
            patch.setattr(Pace, "START", 20)
            patch.setattr(Pace, "MOST", 60)
            patch.setattr(Best, "SLACK", 3)
            leaks.delete_keys(client, PROJECT)
            tools = Client(store, PROJECT)
            yield tools, await build(tools, redis_url)
            leaks.delete_keys(client, PROJECT)
    finally:
        await store.close()


def iso(ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).isoformat()


moments = st.tuples(st.integers(0, 999), st.integers(-1, 1))
"""One of the existing times, by position in thousandths, and an offset in ms."""
orders: dict[str, Any] = {
    "sortBy": st.sampled_from(("priority", "complexity", "createdAt", "created")),
    "sortOrder": st.sampled_from(("asc", "desc")),
    "limit": st.integers(1, 200),
    "offset": st.sampled_from((0, 0, 1, 7, 60, 130, 200, 300, 419, 600)),
    "includeAncestors": st.booleans(),
    "includeDetails": st.booleans(),
}
narrowing: dict[str, Any] = {"role": st.sampled_from(ROLES), "priority": st.sampled_from(PRIORITIES)}
narrowing |= {f"created{end}": moments for end in ("After", "Before")}
scopes: dict[str, Any] = {
    "parentId": st.integers(0, 999),
    "tags": st.sampled_from(TAGS),
    "type": st.sampled_from((*TYPES, "unknown")),
    "assignee": st.sampled_from(("ann", "b, c", "nobody")),
    "depth": st.just(0),
}
others: dict[str, Any] = {
    "depth": st.integers(0, 3),
    "tags": st.lists(st.sampled_from((*TAGS, "unknown")), min_size=1, max_size=3).map(" , ".join),
    "query": st.sampled_from((*WORDS, *(word.swapcase() for word in WORDS), "a b", "SS", "fi", "k", "i̇", " ", "%")),
    "claimStatus": st.sampled_from(("claimed", "unclaimed", "expired")),
}
others |= {f"{name}{end}": moments for name in ("modified", "roleChanged", "due") for end in ("After", "Before")}


@st.composite
def by_index(draw: st.DrawFn) -> Json:
    """Searches that the index answers alone."""
    search: Json = draw(st.fixed_dictionaries({}, optional=orders))
    for name in draw(st.sets(st.sampled_from(sorted(narrowing)), max_size=2)):
        search[name] = draw(narrowing[name])
    for name in draw(st.sets(st.sampled_from(sorted(scopes)), max_size=1)):
        search[name] = draw(scopes[name])
    return search


@st.composite
def anything(draw: st.DrawFn) -> Json:
    """Searches with few filters of any kind, so that most have results."""
    filters = scopes | narrowing | others
    search: Json = draw(st.fixed_dictionaries({}, optional=orders))
    search["sortBy"] = draw(st.sampled_from(SORT_FIELDS))
    for name in draw(st.sets(st.sampled_from(sorted(filters)), min_size=1, max_size=3)):
        search[name] = draw(filters[name])
    return search


def resolved(world: World, drawn: Json) -> Json:
    """Replaces positions by times and ids of the world."""
    search = dict(drawn)
    for name in ("created", "modified", "roleChanged", "due"):
        times = world.times(f"{name}At")
        for end in ("After", "Before"):
            if f"{name}{end}" in search:
                place, beside = search[f"{name}{end}"]
                search[f"{name}{end}"] = iso(times[place * len(times) // 1000] + beside)
        if search.get(f"{name}After", "") > search.get(f"{name}Before", "9"):
            del search[f"{name}After"]
    if "parentId" in search:
        ids = sorted(world.items)
        search["parentId"] = ids[search["parentId"] * len(ids) // 1000]
    return search


async def check(place: tuple[Client, World], drawn: Json) -> None:
    tools, world = place
    search = resolved(world, drawn)
    result = await tools("query_items", operation="search", **search)
    expected = world.found(search)
    offset, limit = search.get("offset", 0), search.get("limit", 50)
    page = expected[offset : offset + limit]
    assert [item["id"] for item in result["items"]] == page
    assert result == {
        "items": [world.shown(item, search) for item in page],
        "total": len(expected),
        "returned": len(page),
        "limit": limit,
        "offset": offset,
    }


@settings(max_examples=40)
@given(search=by_index())
async def test_index_searches_match_a_plain_filter(place: Any, search: Json) -> None:
    await check(place, search)


@settings(max_examples=60)
@given(search=anything())
async def test_walks_match_a_plain_filter(place: Any, search: Json) -> None:
    await check(place, search)


@settings(max_examples=6)
@given(search=by_index() | anything(), size=st.integers(30, 200))
async def test_pages_join_to_the_whole(place: Any, search: Json, size: int) -> None:
    tools, world = place
    search = resolved(world, search) | {"limit": size}
    seen: list[str] = []
    while True:
        search["offset"] = len(seen)
        result = await tools("query_items", operation="search", **search)
        seen += [item["id"] for item in result["items"]]
        if result["returned"] < size:
            break
    assert seen == world.found(search)
    assert result["total"] == len(seen)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("field", SORT_FIELDS)
@pytest.mark.parametrize("walked", [True, False])
async def test_index_and_walk_have_the_same_order(place: Any, field: str, order: str, walked: bool) -> None:
    search: Json = {"sortBy": field, "sortOrder": order, "limit": 100}
    if walked:
        search["modifiedAfter"] = (0, 0)
    for offset in range(0, len(place[1].items) + 100, 100):
        await check(place, search | {"offset": offset})


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("bound", [{}, {"createdAfter": (100, 0)}, {"createdBefore": (900, 0)}, {"priority": "low"}])
async def test_pages_at_large_offsets_are_found(place: Any, order: str, bound: Json) -> None:
    for offset in range(129, 420, 29):
        await check(place, {"sortOrder": order, "offset": offset, "limit": 3, **bound})


async def test_an_item_with_several_of_the_tags_is_found_once(place: Any) -> None:
    await check(place, {"tags": "api, ui,db", "limit": 3})
    await check(place, {"tags": "API,api,unknown", "limit": 200})


async def test_the_world_has_items_for_every_filter(place: Any) -> None:
    """So that no test above is vacuous."""
    _, world = place
    items = world.items.values()
    assert {item["depth"] for item in items} == {0, 1, 2, 3}
    assert {item["role"] for item in items} == set(ROLES)
    assert sorted({*world.claims.values()}) == ["claimed", "expired"]
    assert any(len(item["title"].encode()) > 64 for item in items)
    assert any(len(item["summary"].encode()) > 64 for item in items)
    assert len(world.times("createdAt")) < len(world.items) - 20, "there are ties"
    for word in WORDS:
        assert world.found({"query": word}), word
