"""Blank optional arguments count as left out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.items.client import Client, actor, fresh_id

pytestmark = pytest.mark.anyio

BLANKS = ("", " \n")


@pytest.fixture(params=BLANKS, ids=["empty", "spaces"])
def blank(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_items_and_trees(tools: Client, blank: str) -> None:
    fields = ("priority", "role", "parentId", "traits", "type", "tags", "statusLabel")
    created = await tools("manage_items", operation="create", parentId=blank,
                          items=[{"title": "a"} | dict.fromkeys(fields, blank)])  # fmt: skip
    item = created["items"][0]
    assert (item["priority"], item["role"], item["depth"]) == ("medium", "queue", 0)
    made = await tools(
        "create_work_tree",
        root={"title": "r", "priority": blank},
        parentId=blank,
        children=[{"ref": "a", "title": "a", "priority": blank}],
        deps=[{"from": "root", "to": "a", "type": blank, "unblockAt": blank}],
    )
    assert made["dependencies"][0]["type"] == "BLOCKS"
    assert "unblockAt" not in made["dependencies"][0]
    await tools("complete_tree", itemIds=[item["id"]], rootId=blank, trigger=blank)
    assert (await tools.get(item["id"]))["statusLabel"] == "done"
    assert (await tools.refusal("complete_tree", rootId=blank)).code == "VALIDATION_ERROR"


async def test_dependencies(tools: Client, blank: str) -> None:
    a, b = await tools.add_many(2)
    one = [{"fromItemId": a, "toItemId": b, "type": blank, "unblockAt": blank}]
    unused = dict.fromkeys(("type", "unblockAt", "source", "target", "id", "fromItemId", "toItemId"), blank)
    pattern = {"source": a, "targets": [b], "pattern": "fan-out"}
    for given, deletion in (
        ({"dependencies": one, "pattern": blank}, {"fromItemId": a, "toItemId": b}),
        (pattern, {"fromItemId": a, "deleteAll": True}),
        (pattern, {"toItemId": b, "deleteAll": True}),
    ):
        made: dict[str, Any] = await tools("manage_dependencies", **unused | {"operation": "create"} | given)
        assert made["created"] == 1
        assert made["dependencies"][0]["type"] == "BLOCKS"
        found = await tools("query_dependencies", itemId=a, direction=blank, type=blank)
        assert found["counts"]["outgoing"] == 1
        gone = await tools("manage_dependencies", **unused | {"operation": "delete"} | deletion)
        assert gone["deleted"] == 1
    assert (await tools.refusal("manage_dependencies", **unused, operation="create")).code == "VALIDATION_ERROR"
    assert (await tools.refusal("manage_dependencies", **unused, operation="delete")).code == "VALIDATION_ERROR"


async def test_blank_fields_of_an_edge_take_the_calls_defaults(tools: Client, blank: str) -> None:
    a, b = await tools.add_many(2)
    edge = {"fromItemId": a, "toItemId": b, "type": blank, "unblockAt": blank}
    shared = {"type": "IS_BLOCKED_BY", "unblockAt": "work"}
    made = await tools("manage_dependencies", operation="create", dependencies=[edge], **shared)
    assert made["dependencies"][0].items() >= shared.items()


async def test_notes(tools: Client, blank: str) -> None:
    item = await tools.add()
    note = {"itemId": item, "key": "k", "role": "queue"}
    written = (await tools("manage_notes", operation="upsert", notes=[note]))["notes"][0]["id"]
    assert (await tools("query_notes", operation="list", itemId=item, role=blank))["total"] == 1
    # A blank key would delete all notes of the item, which is hardly intended.
    assert (await tools.refusal("manage_notes", operation="delete", itemId=item, key=blank)).code == "VALIDATION_ERROR"
    assert (await tools("manage_notes", operation="delete", ids=[written], itemId=blank, key=blank))["deleted"] == 1


async def test_reads_and_claims(tools: Client, blank: str) -> None:
    item = await tools.add()
    filters = dict.fromkeys(("role", "parentId", "tags", "priority", "type", "orderBy", "createdAfter"), blank)
    assert (await tools("get_next_item", **filters, ancestorId=blank))["total"] == 1
    assert (await tools("get_blocked_items", parentId=blank))["total"] == 0
    assert (await tools("get_context", itemId=blank, since=blank))["mode"] == "health-check"
    filters.pop("orderBy")
    assert (await tools("query_items", operation="search", **filters, sortBy=blank, claimStatus=blank))["total"] == 1
    claims = [{"itemId": blank, "selector": filters}]
    answer = await tools("claim_item", actor=actor("agent"), requestId=fresh_id(), claims=claims)
    assert answer["claimResults"][0]["itemId"] == item
