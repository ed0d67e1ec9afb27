"""manage_items create: limits, partial success, parents and depth, roles, traits, slices."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import keys
from coordinator.store.record_layout import NUMBERS
from tests.items.client import Client, Json, actor, fresh_id

pytestmark = pytest.mark.anyio


@pytest.mark.every_store
async def test_an_item_appears_with_its_defaults(tools: Client) -> None:
    result = await tools.create({"title": "Design API schema"})
    item = result["items"][0]["id"]
    assert result == {
        "items": [
            {
                "id": item,
                "title": "Design API schema",
                "depth": 0,
                "role": "queue",
                "priority": "medium",
                "requiresVerification": False,
                "tags": None,
                "type": None,
                "schemaMatch": False,
                "expectedNotes": [],
            }
        ],
        "created": 1,
        "failed": 0,
    }
    full = await tools.get(item)
    times = {full.pop("createdAt"), full.pop("modifiedAt"), full.pop("roleChangedAt")}
    assert len(times) == 1
    assert times.pop().endswith("Z")
    assert full == {
        "id": item,
        "title": "Design API schema",
        "summary": "",
        "role": "queue",
        "priority": "medium",
        "complexity": None,
        "depth": 0,
        "requiresVerification": False,
    }


async def test_a_bare_item_stores_little(tools: Client) -> None:
    """The benchmark ``memory`` measures it with its entries in all indexes."""
    parent = await tools.add("parent")
    item = await tools.add("bare", parentId=parent)
    fields = await tools.store.command("HGETALL", keys.item.key(tools.project, item.replace("-", "")))
    assert len(fields.pop(b"w")) == NUMBERS["score"]
    assert fields == {b"t": b"bare", b"d": b"1", b"pa": parent.replace("-", "").encode()}


async def test_every_field_is_kept(tools: Client) -> None:
    parent = await tools.add("parent")
    fields: dict[str, Any] = {
        "title": "Implement",
        "description": "what and why",
        "summary": "short",
        "role": "work",
        "statusLabel": "in-flight",
        "priority": "high",
        "complexity": 3,
        "parentId": parent,
        "tags": "backend,api",
        "metadata": "anything",
        "type": "feature-task",
        "properties": '{"team": "a"}',
    }
    created = (await tools.create({**fields, "requiresVerification": True}))["items"][0]
    assert created["requiresVerification"] is True
    assert (created["tags"], created["type"], created["depth"]) == ("backend,api", "feature-task", 1)
    full = await tools.get(created["id"])
    assert {name: full[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("title", None, "title: is required and must not be blank"),
        ("title", " \t\n", "title: is required and must not be blank"),
        ("title", "x" * 501, "title: must be at most 500 characters, not 501"),
        ("summary", "x" * 2001, "summary: must be at most 2000 characters, not 2001"),
        ("priority", "urgent", "priority: 'urgent' is not one of high, medium, low"),
        ("role", "done", "role: 'done' is not one of queue, work, review, blocked, terminal"),
        ("complexity", 0, "complexity: must be 1 to 10 or null, not 0"),
        ("complexity", 11, "complexity: must be 1 to 10 or null, not 11"),
        (
            "tags",
            "fine,Not",
            "tags: 'Not' must be lower-case letters, digits, '-', '_', '.', ':' and '/'",
        ),
        ("tags", "-a", "tags: '-a' must be"),
        ("tags", "a b", "tags: 'a b' must be"),
        ("type", "x" * 201, "type: must be at most 200 characters"),
        ("parentId", "xyz", "must be a UUID or a hex prefix of 4 to 32 digits"),
        ("parentId", "123", "must be a UUID or a hex prefix of 4 to 32 digits"),
        ("parentId", "00000000-0000-4000-8000-000000000000", "parentId: no such item"),
        ("parentId", "00000000", "parentId: no such item"),
    ],
)
async def test_an_invalid_item_fails_alone(tools: Client, field: str, value: Any, error: str) -> None:
    result = await tools.create({"title": "before"}, {"title": "bad", field: value}, {"title": "after"})
    assert [item["title"] for item in result["items"]] == ["before", "after"]
    assert (result["created"], result["failed"]) == (2, 1)
    (failure,) = result["failures"]
    assert failure["index"] == 1
    assert error in failure["error"]


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("title", "x" * 500, None),
        ("title", "  padded ", None),
        ("title", '\u00e9\U0001f680 "quoted" \\ \x00 \u2028', None),
        ("title", "\u00e9" * 33, None),
        ("summary", "x" * 2000, None),
        ("priority", "HIGH", "high"),
        ("role", "Work", "work"),
        ("complexity", 1, None),
        ("complexity", 10, None),
        ("tags", "a,b-2,3", None),
        ("tags", " a , b ,, c ", None),
        ("tags", "area:api/v1.2,team_a", None),
        ("type", "x" * 200, None),
        ("type", "with:colon *{}", None),
        ("description", "long " * 20_000, None),
        ("metadata", "not json {", None),
        ("metadata", "NaN", None),
        ("metadata", " see [1", None),
        ("metadata", '{"n": [12345678901234567890123]}', None),
        ("properties", '{"n": 12345678901234567890123, "f": 1.10, "t": "\\u00e9"} ', None),
        ("properties", '{"n": ' + "9" * 5000 + "}", None),
        ("statusLabel", "l" * 100, None),
    ],
)
async def test_valid_values_are_stored_verbatim(tools: Client, field: str, value: Any, kept: Any) -> None:
    item = await tools.add(**{"title": "item", field: value})
    assert (await tools.get(item))[field] == (kept or value)


@pytest.mark.parametrize("field", ["description", "statusLabel", "tags", "metadata", "type", "properties"])
@pytest.mark.parametrize("blank", [None, ""])
async def test_a_blank_text_is_absent(tools: Client, field: str, blank: str | None) -> None:
    fields: dict[str, Any] = {field: blank}
    item = await tools.add(**fields)
    assert field not in await tools.get(item)


async def test_a_blank_priority_or_role_is_the_default(tools: Client) -> None:
    full = await tools.get(await tools.add(priority="", role=None))
    assert (full["priority"], full["role"]) == ("medium", "queue")


@pytest.mark.parametrize("role", ["queue", "work", "review", "blocked", "terminal"])
async def test_any_role_can_be_the_first_and_moves_no_parent(tools: Client, role: str) -> None:
    parent = await tools.add("parent")
    item = await tools.add(role=role, parentId=parent)
    assert await tools.role(item) == role
    assert await tools.role(parent) == "queue"


async def test_the_shared_parent_is_a_default(tools: Client) -> None:
    shared, own = await tools.add("shared"), await tools.add("own")
    result = await tools.create({"title": "a"}, {"title": "b", "parentId": own}, parentId=shared)
    a, b = (item["id"] for item in result["items"])
    assert (await tools.get(a))["parentId"] == shared
    assert (await tools.get(b))["parentId"] == own


@pytest.mark.parametrize(
    ("shared", "code", "said"),
    [
        ({"parentId": "0000"}, "RESOURCE_NOT_FOUND", "parentId: "),
        ({"parentId": "00000000-0000-4000-8000-000000000000"}, "RESOURCE_NOT_FOUND", "parentId: no such item"),
        ({"parentId": "nonsense"}, "VALIDATION_ERROR", "parentId: "),
        ({"traits": "x" * 101}, "VALIDATION_ERROR", "traits: "),
        ({"traits": "needs-securty-review"}, "VALIDATION_ERROR", "traits: "),
    ],
)
async def test_what_all_items_share_fails_the_call_and_may_be_corrected(
    tools: Client, shared: Json, code: str, said: str
) -> None:
    tools.configure(msgspec.convert({"traits": {"needs-security-review": {"notes": []}}}, Settings))
    own = await tools.add("own")
    call = {"operation": "create", "items": [{"title": "a"}, {"title": "b", "parentId": own}]}
    by: Json = {"actor": actor("agent"), "requestId": fresh_id()}
    failure = await tools.refusal("manage_items", **call, **shared, **by)
    assert (failure.code, failure.message[: len(said)]) == (code, said)
    assert await tools.next(limit=20) == [own]
    answer = await tools.answer("manage_items", **call, parentId=own, **by)
    await tools.delete(own, recursive=True)
    assert await tools.answer("manage_items", **call, parentId=own, **by) == answer


async def test_depth_follows_from_the_parent_and_ends_at_three(tools: Client) -> None:
    ids = await tools.chain(3)
    assert [(await tools.get(item))["depth"] for item in ids] == [0, 1, 2, 3]
    result = await tools.create({"title": "too deep", "parentId": ids[3]})
    assert result["created"] == 0
    assert result["failures"] == [{"index": 0, "error": "depth would exceed the maximum of 3"}]


async def test_ancestors_are_listed_from_the_root(tools: Client) -> None:
    ids = await tools.chain(3)
    full = await tools.get(ids[3], includeAncestors=True)
    assert full["ancestors"] == [{"id": ids[n], "title": f"depth {n}", "depth": n} for n in range(3)]
    assert (await tools.get(ids[0], includeAncestors=True))["ancestors"] == []
    assert "ancestors" not in await tools.get(ids[3])


@pytest.mark.parametrize(
    ("shared", "own", "properties", "kept"),
    [
        (None, "b, a,, b", None, {"traits": ["b", "a"]}),
        ("x", None, None, {"traits": ["x"]}),
        ("x", "y", None, {"traits": ["y"]}),
        ("x", "", '{"k": 1}', {"k": 1}),
        ("x", None, '{"traits": ["a"]}', {"traits": ["a"]}),
        ("x", None, '{"traits": []}', {"traits": []}),
        (None, "a", '{"k": 1, "traits": ["old"]}', {"k": 1, "traits": ["a"]}),
        (None, None, '{"traits": ["a", "b"]}', {"traits": ["a", "b"]}),
    ],
)
async def test_traits_are_kept_in_the_properties(
    tools: Client, shared: Any, own: Any, properties: Any, kept: dict[str, Any]
) -> None:
    result = await tools.create({"title": "t", "traits": own, "properties": properties}, traits=shared)
    assert json.loads((await tools.get(result["items"][0]["id"]))["properties"]) == kept


async def test_results_keep_the_callers_order_over_slices(tools: Client) -> None:
    items = [{"title": "" if n in (3, 77) else f"item {n}"} for n in range(130)]
    result = await tools.create(*items)
    assert [item["title"] for item in result["items"]] == [item["title"] for item in items if item["title"]]
    assert [failure["index"] for failure in result["failures"]] == [3, 77]
    assert (result["created"], result["failed"]) == (128, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operation": "create"}, "items: must hold 1 to 1000 elements"),
        ({"operation": "create", "items": []}, "items: must hold 1 to 1000 elements"),
        ({"operation": "create", "items": [{"title": "t"}] * 1001}, "items: must hold 1 to 1000 elements"),
        ({"operation": "update", "items": []}, "items: must hold 1 to 1000 elements"),
        ({"operation": "delete", "ids": []}, "ids: must hold 1 to 1000 elements"),
        ({"operation": "drop"}, "operation: 'drop' is not one of create, update, delete"),
        ({"operation": "create", "items": [{"title": "t", "colour": "red"}]}, "colour"),
        ({"operation": "create", "items": [{"title": "t"}], "dryRun": True}, "dryRun"),
    ],
)
async def test_a_malformed_call_is_rejected_as_a_whole(tools: Client, arguments: dict[str, Any], message: str) -> None:
    failure = await tools.refusal("manage_items", **arguments)
    assert failure.code == "VALIDATION_ERROR"
    assert message in failure.message
    assert await tools.next() == []


async def test_the_operation_is_case_insensitive(tools: Client) -> None:
    assert (await tools("manage_items", operation="CREATE", items=[{"title": "t"}]))["created"] == 1


@pytest.mark.parametrize("text", ["", "abc", "no-hex", "12345678-1234-1234-1234-12345678901", "g" * 32])
async def test_a_malformed_id_is_rejected(tools: Client, text: str) -> None:
    failure = await tools.refusal("query_items", operation="get", id=text)
    assert failure.code == "VALIDATION_ERROR"
    assert failure.message.startswith("id: ")


async def test_an_unknown_item_is_not_found(tools: Client) -> None:
    assert (await tools.refusal("query_items", operation="get", id=fresh_id())).code == "RESOURCE_NOT_FOUND"
    assert (await tools.refusal("query_items", operation="get", id="00000")).code == "RESOURCE_NOT_FOUND"
