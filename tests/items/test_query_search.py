"""query_items search: arguments, answers and refusals."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from coordinator.store import Script
from coordinator.toolsets.items.contract.query import QueryItems
from coordinator.toolsets.items.rules import query as rules
from coordinator.toolsets.items.rules.query import may_take_long
from coordinator.toolsets.items.store.base import LIBRARY, pack
from coordinator.toolsets.items.store.query import Pace, Scanned
from tests.items.client import Client, Json, fresh_id
from tests.items.moments import lapse, ms, next_ms
from tests.items.query_world import DETAILS, set_creation

pytestmark = pytest.mark.anyio
_SCAN = Script(LIBRARY, "scan_items", Scanned)


async def found(tools: Client, **search: Any) -> list[str]:
    """Titles of what a search finds."""
    return [item["title"] for item in (await tools("query_items", operation="search", **search))["items"]]


async def test_a_result_has_the_minimal_fields(tools: Client) -> None:
    parent = await tools.add("parent", tags="a,b", type="bug", statusLabel="mine", description="long", summary="s")
    child = await tools.add("child", parentId=parent, complexity=3, traits="x")
    result = await tools("query_items", operation="search", sortBy="complexity")
    assert result == {
        "items": [
            {"id": child, "parentId": parent, "title": "child", "role": "queue", "priority": "medium", "depth": 1},
            {
                "id": parent,
                "title": "parent",
                "role": "queue",
                "statusLabel": "mine",
                "priority": "medium",
                "depth": 0,
                "tags": "a,b",
                "type": "bug",
            },
        ],
        "total": 2,
        "returned": 2,
        "limit": 50,
        "offset": 0,
    }


@pytest.mark.parametrize("search", [{}, {"query": "i"}], ids=("by the index", "by a scan"))
async def test_details_are_those_of_the_item_in_full(tools: Client, search: Json) -> None:
    above = await tools.add("item", budget={"tokens": 5}, dueAt="2020-01-01T00:00:00Z")
    using = await tools.add(
        "item", resources=[{"key": "gpu", "mode": "shared"}], requires=["sql"], assignee="ann", parentId=above
    )
    await tools.add("item", notBefore="+1h", recurs={"cron": "@daily"}, dueAt="+2h")
    await tools.add("item")
    left = await tools.add("item", role="review")
    await tools.claim("leaves", left)
    await lapse(tools, left)
    note = {"itemId": using, "key": "k", "role": "work", "usage": {"outputTokens": 7}}
    await tools("manage_notes", operation="upsert", notes=[note])
    short = (await tools("query_items", operation="search", **search))["items"]
    rows = (await tools("query_items", operation="search", includeDetails=True, **search))["items"]
    added = [
        {name: value for name, value in row.items() if name not in one} for row, one in zip(rows, short, strict=True)
    ]
    full = [await tools.get(row["id"]) for row in rows]
    assert added == [{name: one[name] for name in DETAILS if name in one} for one in full]
    assert set().union(*added) == set(DETAILS) - {"recurrenceOf"}
    assert {} in added


async def test_nothing_found_is_an_empty_page(tools: Client) -> None:
    empty = {"items": [], "total": 0, "returned": 0, "limit": 50, "offset": 0}
    assert await tools("query_items", operation="search") == empty
    assert await tools("query_items", operation="search", query="x") == empty


async def test_the_total_does_not_depend_on_the_page(tools: Client) -> None:
    await tools.add_many(12)
    for search in ({}, {"query": ""}, {"modifiedAfter": "2020-01-01T00:00:00Z"}):
        page = await tools("query_items", operation="search", limit=5, offset=10, **search)
        assert (page["total"], page["returned"], page["limit"], page["offset"]) == (12, 2, 5, 10)
        beyond = await tools("query_items", operation="search", limit=5, offset=12, **search)
        assert (beyond["total"], beyond["items"]) == (12, [])


@pytest.mark.parametrize(
    ("search", "titles"),
    [
        ({"role": "WORK"}, ["working"]),
        ({"priority": "High"}, ["urgent"]),
        ({"tags": " API ,, x"}, ["urgent", "tagged"]),
        ({"tags": " , "}, ["working", "urgent", "tagged"]),
        ({"type": "bug"}, ["tagged"]),
        ({"type": "Bug"}, []),
        ({"role": "", "priority": " ", "tags": "", "type": "", "query": " ", "sortBy": "", "sortOrder": ""}, None),
        ({"sortBy": "TITLE", "sortOrder": "ASC"}, ["tagged", "urgent", "working"]),
        ({"sortBy": "priority"}, ["urgent", "working", "tagged"]),
        ({"sortBy": "complexity"}, ["tagged", "working", "urgent"]),
        ({"sortBy": "created", "sortOrder": "asc"}, ["tagged", "urgent", "working"]),
        ({"sortBy": "modified", "sortOrder": "asc"}, ["urgent", "working", "tagged"]),
    ],
)
async def test_arguments_are_lenient(tools: Client, redis_url: str, search: Json, titles: list[str] | None) -> None:
    tagged = await tools.add("tagged", tags="api,ui", type="bug", complexity=5, priority="low")
    urgent = await tools.add("urgent", priority="high", tags="x")
    working = await tools.add("working", role="work", complexity=2)
    now = ms((await tools.get(working))["createdAt"])
    set_creation(redis_url, tools.project, {tagged: now - 2, urgent: now - 1})
    await tools.update(tagged, summary="changed last")
    assert await found(tools, **search) == (["working", "urgent", "tagged"] if titles is None else titles)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"role": "done"}, "role: 'done' is not one of queue, work, review, blocked, terminal"),
        ({"priority": "urgent"}, "priority: 'urgent' is not one of high, medium, low"),
        ({"claimStatus": "mine"}, "claimStatus: 'mine' is not one of claimed, unclaimed, expired"),
        ({"sortBy": "id"}, "sortBy: 'id' is not one of title, priority, complexity, createdAt, modifiedAt"),
        ({"sortOrder": "up"}, "sortOrder: 'up' is not one of asc, desc"),
        ({"tags": "ok,not ok"}, "tags: 'not ok' must be lower-case letters, digits, '-'"),
        ({"tags": ",".join(f"t{n}" for n in range(21))}, "tags: must be at most 20 tags"),
        ({"type": "x" * 201}, "type: must be at most 200 characters"),
        ({"query": "x" * 501}, "query: must be at most 500 characters"),
        ({"parentId": "xyz"}, "parentId: must be a UUID or a hex prefix of 4 to 32 digits"),
        *(
            ({field: "yesterday"}, f"{field}: must be an ISO-8601 time with a zone, for example 2026-01-01T12:00:00Z")
            for field in ("createdAfter", "createdBefore", "modifiedAfter", "roleChangedBefore")
        ),
        ({"createdAfter": "2026-01-01"}, "createdAfter: must be an ISO-8601 time with a zone"),
        (
            {"modifiedAfter": "2026-01-02T00:00:00Z", "modifiedBefore": "2026-01-01T23:59:59Z"},
            "modifiedAfter: must not be later than modifiedBefore",
        ),
        ({"query": "x", "offset": 9990, "limit": 11}, "offset: plus limit must be at most 10000 in a search that"),
        ({"limit": 0}, "Expected `int` >= 1 - at `$.limit`"),
        ({"offset": -1}, "Expected `int` >= 0 - at `$.offset`"),
        ({"depth": 4}, "Expected `int` <= 3 - at `$.depth`"),
        ({"operation": "list"}, "operation: 'list' is not one of get, search, overview"),
    ],
)
async def test_rejections_name_the_field_and_the_allowed_values(tools: Client, arguments: Json, message: str) -> None:
    failure = await tools.refusal("query_items", **({"operation": "search"} | arguments))
    assert failure.code == "VALIDATION_ERROR"
    assert failure.message.startswith(message)


@pytest.mark.parametrize("more", [{}, {"query": "x"}, {"offset": 9}], ids=["indexed", "scanned", "later page"])
async def test_an_unknown_parent_is_rejected_and_one_without_children_is_not(tools: Client, more: Json) -> None:
    for missing in ("abcdef", fresh_id()):
        failure = await tools.refusal("query_items", operation="search", parentId=missing, **more)
        assert failure.code == "RESOURCE_NOT_FOUND"
        assert failure.message.startswith("parentId: no ")
    assert await found(tools, parentId=await tools.add("x"), **more) == []


async def test_children_are_found_by_a_prefix_of_the_parent(tools: Client) -> None:
    parent = await tools.add("parent")
    await tools.add("child", parentId=parent)
    assert await found(tools, parentId=parent.replace("-", "")[:12].upper()) == ["child"]
    assert await found(tools, parentId=parent, query="CHI") == ["child"]


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("%", ["100% done"]),
        ("_", ["a_b"]),
        ("ss", ["Straße", "STRASSE"]),
        ("straße", ["Straße", "STRASSE"]),
        ("ÉCLAIR", ["éclair"]),
        ("[a-z]+", []),
        ("%a", []),
        ("done a", []),
        ("donek", []),
        ("\U00010428", ["\U00010400"]),
        ("\u212a", ["100% done", "Straße", "STRASSE", "a_b", "éclair", "\U00010400"]),
    ],
)
async def test_text_is_searched_literally_in_title_and_summary(tools: Client, query: str, matches: list[str]) -> None:
    titles = ("100% done", "a_b", "Straße", "STRASSE", "éclair", "\U00010400")
    await tools.create(*({"title": title, "summary": "K"} for title in titles))
    assert sorted(await found(tools, query=query)) == sorted(matches)


async def test_bounds_are_inclusive_to_the_millisecond(tools: Client) -> None:
    item = await tools.add("x", role="work")
    await tools.advance(item, "block")
    full = await tools.get(item)
    for name in ("created", "modified", "roleChanged"):
        at = full[f"{name}At"]
        after, before = f"{name}After", f"{name}Before"
        assert await found(tools, **{after: at, before: at}) == ["x"]
        offset = at.replace("Z", "+00:00")
        assert await found(tools, **{after: offset}) == ["x"]
        assert await found(tools, **{after: at.replace("Z", "001Z")}) == [], "a microsecond later"
        assert await found(tools, **{before: at.replace("Z", "999Z")}) == ["x"]
    assert await found(tools, createdAfter="2199-01-01T00:00:00Z") == []
    assert await found(tools, createdBefore="0001-01-01T00:00:00+14:00") == []
    assert await found(tools, createdAfter="0001-01-01T00:00:00+14:00", createdBefore="9999-12-31T23:59:59-14:00") == [
        "x"
    ]


@pytest.mark.every_store
async def test_every_server_finds_the_same(tools: Client, redis_url: str) -> None:
    ids = await tools.add_many(150, role="work", tags="a,b")
    await tools.create({"title": "Élan " * 20, "priority": "high"})
    set_creation(redis_url, tools.project, {item: ms("2026-01-01T00:00:00Z") + n for n, item in enumerate(ids)})
    result = await tools("query_items", operation="search", role="work", offset=140, sortOrder="asc")
    assert [item["id"] for item in result["items"]] == ids[140:]
    result = await tools("query_items", operation="search", query="1", tags="b,a", sortBy="title", limit=2)
    assert [item["title"] for item in result["items"]] == ["91", "81"]
    assert await found(tools, query="éLAN") == ["Élan " * 20]
    result = await tools("query_items", operation="overview", includeChildren=True, limit=150)
    assert result["total"] == 150


async def test_claim_status_does_not_disclose_the_holder(tools: Client) -> None:
    names = ("live", "swept", "late", "free", "released")
    ids = {name: await tools.add(name) for name in names}
    await tools.claim("secret agent 0", ids["free"])
    assert await found(tools, claimStatus="expired") == []
    await tools.release("secret agent 0", ids["free"])
    await tools.claim("secret agent 1", ids["swept"])
    await lapse(tools, ids["swept"])
    await tools.claim("secret agent 2", ids["released"])
    await tools.release("secret agent 2", ids["released"])
    await tools.claim("secret agent 3", ids["late"])
    await tools.claim("secret agent 4", ids["live"])
    await lapse(tools, ids["late"])
    assert await found(tools, claimStatus="claimed") == ["live"]
    assert sorted(await found(tools, claimStatus="expired")) == ["late", "swept"]
    await tools.next()  # puts the late one back
    assert sorted(await found(tools, claimStatus="expired")) == ["late", "swept"]
    assert sorted(await found(tools, claimStatus="Unclaimed")) == ["free", "released"]
    result = await tools("query_items", operation="search", claimStatus="claimed")
    assert [item["isClaimed"] for item in result["items"]] == [True]
    result = await tools("query_items", operation="search", claimStatus="expired")
    assert [item["isClaimed"] for item in result["items"]] == [False, False]
    answer = await tools.answer("query_items", operation="search")
    assert b"isClaimed" not in answer
    assert b"secret" not in answer + await tools.answer("query_items", operation="search", claimStatus="claimed")


@pytest.mark.parametrize(
    ("arguments", "looks"),
    [
        ({}, False),
        ({"role": "work", "priority": "low", "createdAfter": "2026-01-01T00:00:00Z", "sortBy": "priority"}, False),
        ({"parentId": "abcd"}, False),
        ({"tags": "a"}, False),
        ({"type": "x", "sortBy": "complexity"}, False),
        ({"depth": 0}, False),
        ({"depth": 1}, True),
        ({"tags": "a,b"}, True),
        ({"tags": "a", "type": "x"}, True),
        ({"query": "x"}, True),
        ({"query": " "}, False),
        ({"claimStatus": "claimed"}, True),
        ({"modifiedBefore": "2026-01-01T00:00:00Z"}, True),
        ({"sortBy": "title"}, True),
        ({"query": "x", "role": "nonsense"}, False),
        ({"operation": "overview", "limit": 200}, False),
        ({"operation": "overview", "includeChildren": True}, False),
        ({"operation": "overview", "includeChildren": True, "limit": 51}, True),
        ({"operation": "get", "query": "x"}, False),
    ],
)
def test_slow_searches_are_recognized_before_they_run(arguments: Json, looks: bool) -> None:
    assert may_take_long(msgspec.convert({"operation": "search"} | arguments, QueryItems)) == looks


@pytest.mark.parametrize("limit", [200, 201, 10**30])
async def test_a_limit_above_the_maximum_is_the_maximum_and_the_answer_says_so(tools: Client, limit: int) -> None:
    parent = await tools.add()
    await tools.add_many(205, parentId=parent)
    notice = None if limit == 200 else f"limit: {str(limit)[:20]} is more than the maximum of 200, so 200 was used"
    for sorting in ("createdAt", "title"):
        page = await tools("query_items", operation="search", sortBy=sorting, limit=limit)
        assert (page["returned"], page["limit"], page["total"], page.get("notice")) == (200, 200, 206, notice)
    below = await tools("query_items", operation="overview", itemId=parent, limit=limit)
    assert (len(below["children"]), below.get("notice")) == (200, notice)
    roots = await tools("query_items", operation="overview", limit=limit)
    assert (roots["total"], roots.get("notice")) == (1, notice)


async def test_open_items_that_are_due_are_found_without_reading_the_others(tools: Client) -> None:
    await tools.add_many(200)
    await tools.add_many(40, dueAt="2031-01-01T00:00:00Z")
    late = [await tools.add(dueAt=f"2030-01-0{day}T00:00:00Z") for day in (3, 1, 2)]
    await next_ms(tools.store)
    done = await tools.add(dueAt="2030-01-01T00:00:00Z", role="terminal")
    template = await tools.add(dueAt="+2h", recurs={"cron": "@daily"})
    bounds = {"dueAfter": "2030-01-01T00:00:00Z", "dueBefore": "2030-12-31T00:00:00Z"}
    found = await tools("query_items", operation="search", role="queue", sortBy="dueAt", sortOrder="asc", **bounds)
    assert [item["id"] for item in found["items"]] == [late[1], late[2], late[0]]
    found = await tools("query_items", operation="search", sortBy="dueAt", limit=200, **bounds)
    assert {item["id"] for item in found["items"]} == {*late, done}
    found = await tools("query_items", operation="search", sortBy="dueAt", limit=200, offset=40)
    shown = [item["id"] for item in found["items"]]
    assert shown[:5] == [late[0], late[2], done, late[1], template], "those that are never due come last, newest first"
    asked = rules.search(QueryItems(operation="search", role="queue", due_before="2030-06-01T00:00:00Z"), "")
    scanned = await tools.store.run(_SCAN, tools.project, pack(asked.packable()), "", "", 1000)
    assert (scanned.looked, scanned.matched, scanned.done) == (3, 3, True)


@pytest.mark.parametrize(("field", "value"), [("dueAfter", "tomorrow"), ("dueBefore", "2030-01-01"), ("sortBy", "due")])
async def test_bad_bounds_of_due_times_name_the_field(tools: Client, field: str, value: str) -> None:
    assert field in (await tools.refusal("query_items", operation="search", **{field: value})).message


async def test_many_items_due_at_one_moment_are_each_found_once(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEAST", "START", "MOST"):
        monkeypatch.setattr(Pace, name, 10)
    items = await tools.add_many(300, dueAt="2030-01-01T00:00:00Z")
    options = {"role": "queue", "dueBefore": "2030-01-01T00:00:00Z", "limit": 200, "sortOrder": "asc"}
    first = await tools("query_items", operation="search", **options)
    second = await tools("query_items", operation="search", offset=200, **options)
    assert (first["total"], second["total"]) == (300, 300)
    assert sorted(item["id"] for item in first["items"] + second["items"]) == sorted(items)
