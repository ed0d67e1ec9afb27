"""Items created by one call keep the given order in every list."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.toolsets.items.rules.ids import new_id, new_ids
from coordinator.toolsets.items.store.base import SLICE
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.dying import LosingClient

pytestmark = pytest.mark.anyio

FEW = 12
"""In random order they would match the given one with probability 1 in 479 million."""
MANY = 3 * SLICE + 5
ORDERS = ("priority", "oldest", "newest")


async def searched(tools: Client, **asked: Any) -> list[str]:
    """The ids of a search, over all its pages."""
    found: list[str] = []
    while True:
        page = await tools("query_items", operation="search", limit=60, offset=len(found), **asked)
        found += [row["id"] for row in page["items"]]
        if len(found) >= page["total"]:
            return found


async def claimed(tools: Client, count: int, **selector: Any) -> list[str]:
    """The items that agents get in turn by a selector."""
    found: list[str] = []
    for n in range(count):
        answer = await tools.claims(f"agent-{n}", [{"selector": selector}])
        found.append(answer["claimResults"][0]["itemId"])
    return found


async def must_keep(tools: Client, items: list[str], **scope: str) -> None:
    """Checks every list and search of exactly these items."""
    for order in ORDERS:
        assert await tools.next(limit=20, orderBy=order, **scope) == items[:20]
    for direction in ("asc", "desc"):
        for by in ("createdAt", "priority", "complexity"):
            assert await searched(tools, sortBy=by, sortOrder=direction, **scope) == items
            # A condition that the index cannot answer: the items themselves are read.
            walked = await searched(tools, sortBy=by, sortOrder=direction, claimStatus="unclaimed", **scope)
            assert walked == items


@pytest.mark.every_store
@pytest.mark.parametrize("count", [FEW, MANY])
async def test_items_of_one_call_keep_their_order_in_lists_and_searches(tools: Client, count: int) -> None:
    await must_keep(tools, await tools.add_many(count))


@pytest.mark.parametrize("count", [FEW, MANY])
async def test_children_of_one_call_keep_their_order(tools: Client, count: int) -> None:
    parent = await tools.add(role="work")
    items = await tools.add_many(count, parentId=parent)
    await must_keep(tools, items, parentId=parent)
    one = await tools("query_items", operation="overview", itemId=parent)
    assert [row["id"] for row in one["children"]] == items[: len(one["children"])]
    all_roots = await tools("query_items", operation="overview", includeChildren=True)
    shown = next(root for root in all_roots["items"] if root["id"] == parent)["children"]
    assert [row["id"] for row in shown] == items[: len(shown)]
    assert len(shown) >= FEW


async def test_roots_of_one_call_keep_their_order_in_the_overview(tools: Client) -> None:
    items = await tools.add_many(FEW)
    assert [row["id"] for row in (await tools("query_items", operation="overview"))["items"]] == items


async def test_items_of_a_tree_keep_their_order(tools: Client) -> None:
    children = [{"ref": f"c{n}", "title": str(n)} for n in range(FEW)]
    tree = await tools("create_work_tree", root={"title": "root"}, children=children)
    root, items = tree["root"]["id"], [child["id"] for child in tree["children"]]
    assert [child["title"] for child in tree["children"]] == [str(n) for n in range(FEW)]
    await must_keep(tools, items, parentId=root)
    assert await tools.next(limit=FEW + 1) == [root, *items]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("selector", [{}, {"tags": "one,two"}, {"type": "task"}])
async def test_agents_get_items_of_one_call_in_their_order(tools: Client, order: str, selector: Json) -> None:
    items = await tools.add_many(FEW, tags="one,two", type="task")
    assert await claimed(tools, FEW, orderBy=order, **selector) == items


async def test_the_newest_call_comes_first_and_its_items_in_their_order(tools: Client) -> None:
    calls = [await tools.add_many(40, tags="one"), await tools.add_many(40, tags="one")]
    assert (await tools.get(calls[0][0]))["createdAt"] < (await tools.get(calls[1][0]))["createdAt"]
    assert await claimed(tools, 80, orderBy="newest", tags="one") == [*calls[1], *calls[0]]


async def test_a_new_item_by_another_call_comes_later(tools: Client) -> None:
    first = await tools.add_many(MANY)
    assert await tools.next(limit=1, orderBy="newest") == first[:1]
    created = {(await tools.get(item))["createdAt"] for item in (first[0], first[-1])}
    assert len(created) == 1, "all slices of one call have one creation time"


@pytest.mark.parametrize("lose", [1, 2, 3])
async def test_an_interrupted_and_retried_call_keeps_its_order(tools: Client, losing: LosingClient, lose: int) -> None:
    asked = {
        "operation": "create", "items": [{"title": str(n)} for n in range(MANY)], "requestId": fresh_id(),
        "actor": actor("planner"),
    }  # fmt: skip
    await tools.add("so that this project's schemas are installed")
    broken = await losing(lose)
    assert isinstance(await broken.attempt("manage_items", **asked), ToolFailure)
    items = [item["id"] for item in (await tools("manage_items", **asked))["items"]]
    assert len(items) == MANY
    titles = [(await tools.get(item))["title"] for item in items]
    assert titles == [str(n) for n in range(MANY)]
    assert (await searched(tools, sortBy="createdAt", sortOrder="asc"))[1:] == items
    assert (await claimed(tools, MANY + 1, orderBy="oldest"))[1:] == items


def test_rising_ids_are_uuids_spread_over_the_remaining_range() -> None:
    last = new_ids(100)[49]
    ids = new_ids(1000, after=last)
    assert sorted(ids) == ids
    assert last < ids[0]
    assert len(set(ids)) == 1000
    assert all(len(item) == 32 and item[12] == "4" and item[16] in "89ab" for item in ids)
    assert new_ids(3, after="f" * 8 + new_id()[8:])[2] > "f" * 8
