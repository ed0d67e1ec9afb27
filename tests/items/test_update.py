"""manage_items update: partial changes, nulls and blanks, refusals, moving to another parent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, fresh_id
from tests.items.moments import lapse

pytestmark = pytest.mark.anyio

FILLED: dict[str, Any] = {
    "title": "title",
    "description": "description",
    "summary": "summary",
    "statusLabel": "label",
    "priority": "high",
    "complexity": 4,
    "tags": "a,b",
    "metadata": "metadata",
    "type": "feature",
    "properties": '{"k":1}',
}
CHANGED: dict[str, Any] = {
    "title": "t" * 80,
    "description": "other",
    "summary": "s" * 80,
    "statusLabel": "other",
    "priority": "low",
    "complexity": 9,
    "tags": "c",
    "metadata": "other",
    "type": "bug",
    "properties": '{"k":2}',
}


@pytest.mark.every_store
async def test_the_result_names_what_was_updated(tools: Client) -> None:
    item = await tools.add()
    result = await tools.update(item, priority="high", requiresVerification=True)
    modified = (await tools.get(item))["modifiedAt"]
    assert result == {
        "items": [{"id": item, "modifiedAt": modified, "requiresVerification": True}],
        "updated": 1,
        "failed": 0,
    }


@pytest.mark.parametrize("field", CHANGED)
async def test_only_the_given_field_is_changed(tools: Client, field: str) -> None:
    item = await tools.add(**FILLED)
    before = await tools.get(item)
    await tools.update(item, **{field: CHANGED[field]})
    after = await tools.get(item)
    assert after.pop("modifiedAt") > before.pop("modifiedAt")
    assert after == {**before, field: CHANGED[field]}


@pytest.mark.parametrize("field", [field for field in CHANGED if field not in ("title", "summary", "priority")])
async def test_null_clears_optional_fields(tools: Client, field: str) -> None:
    item = await tools.add(**FILLED)
    assert (await tools.update(item, **{field: None}))["updated"] == 1
    after = await tools.get(item)
    assert after.pop(field, None) is None
    assert {name: after[name] for name in FILLED if name != field} == {
        name: value for name, value in FILLED.items() if name != field
    }


@pytest.mark.parametrize("blank", ["", "  ", None])
@pytest.mark.parametrize("field", ["title", "priority", "summary"])
async def test_a_blank_does_not_change_required_fields(tools: Client, field: str, blank: str | None) -> None:
    item = await tools.add(**FILLED)
    assert (await tools.update(item, **{field: blank}))["updated"] == 1
    assert (await tools.get(item))[field] == FILLED[field]


async def test_a_text_moves_between_short_and_long_and_back(tools: Client) -> None:
    item = await tools.add()
    for text in ("x" * 500, "short", "\u00e9" * 40, "y" * 64, "z" * 65):
        await tools.update(item, title=text, summary=text)
        full = await tools.get(item)
        assert (full["title"], full["summary"]) == (text, text)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"role": "work"}, "role: cannot be updated; use advance_item with a trigger"),
        ({"role": None}, "role: cannot be updated"),
        ({"title": "x" * 501}, "title: must be at most 500 characters"),
        ({"summary": "x" * 2001}, "summary: must be at most 2000 characters"),
        ({"priority": "urgent"}, "priority: 'urgent' is not one of"),
        ({"complexity": 11}, "complexity: must be 1 to 10 or null"),
        ({"tags": "NOT"}, "tags: 'NOT' must be"),
        ({"parentId": "nonsense"}, "must be a UUID or a hex prefix"),
        ({"parentId": "00000000-0000-4000-8000-000000000000"}, "parentId: no such item"),
    ],
)
async def test_a_rejected_update_changes_nothing_and_fails_alone(
    tools: Client, fields: dict[str, Any], error: str
) -> None:
    item, other = await tools.add(**FILLED), await tools.add()
    before = await tools.get(item)
    changes = [{"id": item, "statusLabel": "new", **fields}, {"id": other, "title": "renamed"}]
    result = await tools("manage_items", operation="update", items=changes)
    assert (result["updated"], result["failed"]) == (1, 1)
    (failure,) = result["failures"]
    assert failure["id"] == item
    assert error in failure["error"]
    assert await tools.get(item) == before
    assert (await tools.get(other))["title"] == "renamed"


async def test_unknown_items_are_named_as_the_caller_wrote_them(tools: Client) -> None:
    unknown = fresh_id()
    changes = [{"id": unknown, "title": "x"}, {"id": "00000", "title": "x"}, {"title": "x"}, {"id": "?", "title": "x"}]
    result = await tools("manage_items", operation="update", items=changes)
    assert [failure.get("id", failure.get("index")) for failure in result["failures"]] == [unknown, "00000", 2, "?"]
    assert [failure["error"] for failure in result["failures"][:3]] == [
        "no such item",
        "no such item",
        "id: is required for operation update",
    ]


async def test_two_updates_of_one_item_in_a_call_follow_each_other(tools: Client) -> None:
    item = await tools.add()
    changes = [{"id": item, "title": "first", "tags": "a"}, {"id": item, "title": "second"}]
    result = await tools("manage_items", operation="update", items=changes)
    first, second = (entry["modifiedAt"] for entry in result["items"])
    assert second > first
    full = await tools.get(item)
    assert (full["title"], full["tags"], full["modifiedAt"]) == ("second", "a", second)


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ({"traits": "a"}, {"traits": "b,c"}, {"traits": ["b", "c"]}),
        ({"traits": "a"}, {"traits": None}, {"traits": ["a"]}),
        ({"traits": "a", "properties": '{"k":1}'}, {"traits": ""}, {"k": 1}),
        ({"properties": '{"k":1,"traits":"a"}'}, {"traits": ""}, {"k": 1}),
        ({"traits": "a"}, {"properties": '{"k":1}'}, {"k": 1, "traits": ["a"]}),
        ({"traits": "a"}, {"properties": '{"k":1}', "traits": ""}, {"k": 1}),
        ({"traits": "a"}, {"properties": '{"traits":["b"]}'}, {"traits": ["b"]}),
        ({"traits": "a"}, {"properties": '{"k":1,"traits":[]}'}, {"k": 1, "traits": []}),
        ({"traits": "a", "properties": '{"k":1}'}, {"properties": None}, {"traits": ["a"]}),
        ({"traits": "a"}, {"properties": '{"k":1}', "traits": "b"}, {"k": 1, "traits": ["b"]}),
        ({"traits": "a", "properties": '{"k":1}'}, {"traits": "b"}, {"k": 1, "traits": ["b"]}),
    ],
)
async def test_traits_replace_the_stored_list(
    tools: Client, before: dict[str, Any], changes: dict[str, Any], after: dict[str, Any]
) -> None:
    item = await tools.add(**before)
    await tools.update(item, **changes)
    assert json.loads((await tools.get(item))["properties"]) == after


async def test_an_update_moves_the_item_in_the_ranking(tools: Client) -> None:
    first, second = await tools.add(priority="high"), await tools.add(priority="medium")
    assert await tools.next(limit=2) == [first, second]
    await tools.update(first, priority="low")
    assert await tools.next(limit=2) == [second, first]


async def test_results_keep_the_callers_order_over_slices(tools: Client) -> None:
    ids = await tools.add_many(120)
    wanted = [ids[7], fresh_id(), *reversed(ids), fresh_id()]
    changes = [{"id": item, "title": "x"} for item in wanted]
    result = await tools("manage_items", operation="update", items=changes)
    assert [entry["id"] for entry in result["items"]] == [item for item in wanted if item in ids]
    assert [failure["id"] for failure in result["failures"]] == [wanted[1], wanted[-1]]


# --- another parent


async def tree(tools: Client) -> tuple[list[str], list[str]]:
    """Two chains: one of three levels, one of two."""
    return await tools.chain(2), await tools.chain(1)


async def depths(tools: Client, ids: list[str]) -> list[int]:
    return [(await tools.get(item))["depth"] for item in ids]


async def test_a_moved_subtree_gets_new_depths(tools: Client) -> None:
    long, short = await tree(tools)
    await tools.update(long[1], parentId=short[1])
    assert await depths(tools, long) == [0, 2, 3]
    assert [entry["id"] for entry in (await tools.get(long[2], includeAncestors=True))["ancestors"]] == [
        *short,
        long[1],
    ]
    await tools.update(long[1], parentId=None)
    assert await depths(tools, long) == [0, 0, 1]
    assert "parentId" not in await tools.get(long[1])


async def test_a_move_that_makes_a_descendant_too_deep_is_rejected(tools: Client) -> None:
    long, short = await tree(tools)
    result = await tools.update(long[0], parentId=short[1], title="not kept")
    assert result["failures"] == [{"id": long[0], "error": "depth would exceed the maximum of 3"}]
    assert await depths(tools, long) == [0, 1, 2]
    assert (await tools.get(long[0]))["title"] == "depth 0"


async def test_a_root_of_maximum_depth_cannot_move(tools: Client) -> None:
    ids, other = await tools.chain(3), await tools.add()
    assert (await tools.update(ids[0], parentId=other))["updated"] == 0
    assert (await tools.get(ids[3]))["depth"] == 3


async def test_a_lapsed_claim_counts_below_the_new_parent(tools: Client) -> None:
    parents = await tools.add_many(2)
    item = await tools.add(parentId=parents[0])
    await tools.claim("agent", item)
    await lapse(tools, item)
    await tools.next()
    assert (await tools.update(item, parentId=parents[1]))["updated"] == 1
    assert (await audit(tools.store, tools.project)).differences == []


async def test_a_large_subtree_keeps_its_depth(tools: Client) -> None:
    """The depths would change in one script, which would block the store too long."""
    first, second = await tools.add_many(2)
    top = await tools.add(parentId=first)
    middle = await tools.add(parentId=top)
    await tools.add_many(700, parentId=middle)
    assert (await tools.update(top, parentId=second))["updated"] == 1
    (failure,) = (await tools.update(top, parentId=None, title="new"))["failures"]
    assert failure["error"].startswith("parentId: more than 700 items below it ")
    shown = await tools.get(top)
    assert (shown["parentId"], shown["depth"], shown["title"]) == (second, 1, "item")
    assert (await tools.update(middle, parentId=None))["updated"] == 1
    deepest = (await tools("query_items", operation="search", parentId=middle, depth=1, limit=1))["total"]
    assert ((await tools.get(middle))["depth"], deepest) == (0, 700)
    assert not (await audit(tools.store, tools.project)).differences


async def test_only_a_leaf_can_move_to_the_deepest_level(tools: Client) -> None:
    deep, leaf = await tools.chain(2), await tools.add()
    assert (await tools.update(leaf, parentId=deep[2]))["updated"] == 1
    assert await depths(tools, [leaf]) == [3]
    assert (await tools.update(await tools.add(), parentId=leaf))["failed"] == 1


@pytest.mark.parametrize("below", [0, 1, 2])
async def test_no_item_moves_below_itself(tools: Client, below: int) -> None:
    long, _ = await tree(tools)
    result = await tools.update(long[0], parentId=long[below])
    assert "cannot move below itself" in result["failures"][0]["error"]
    assert await depths(tools, long) == [0, 1, 2]


async def test_two_items_cannot_become_each_others_parent_in_one_call(tools: Client) -> None:
    a, b = await tools.add("a"), await tools.add("b")
    changes = [{"id": a, "parentId": b}, {"id": b, "parentId": a}]
    result = await tools("manage_items", operation="update", items=changes)
    assert (result["updated"], result["failed"]) == (1, 1)
    assert result["failures"][0]["id"] == b


async def test_the_same_parent_again_changes_nothing(tools: Client) -> None:
    long, _ = await tree(tools)
    assert (await tools.update(long[1], parentId=long[0]))["updated"] == 1
    assert await depths(tools, long) == [0, 1, 2]
    assert await tools.next(parentId=long[0]) == [long[1]]


async def test_children_are_found_under_their_new_parent(tools: Client) -> None:
    long, short = await tree(tools)
    await tools.claim("agent", long[1])
    await tools.update(long[1], parentId=short[0])
    assert await tools.next(parentId=long[0]) == []
    assert set(await tools.next(parentId=short[0], includeClaimed=True, limit=5)) == {short[1], long[1]}


async def test_a_move_does_not_cascade(tools: Client) -> None:
    """Cascades follow transitions only: neither the old nor the new parent changes."""
    old, new = await tools.add("old"), await tools.add("new")
    open_item, done = await tools.add(parentId=old), await tools.add(parentId=old, role="terminal")
    await tools.update(open_item, parentId=new)
    assert await tools.role(old) == "queue"
    await tools.update(done, parentId=new)
    assert await tools.role(new) == "queue"
