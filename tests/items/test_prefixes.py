"""Items named by the first hex digits of their ids, in every tool that takes an item."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.items.client import Client, Json, actor, fresh_id

pytestmark = pytest.mark.anyio

A = "abcd1234-0000-4000-8000-00000000000a"
B = "abcd1234-0000-4000-8000-00000000000b"
C = "abcd5678-0000-4000-8000-00000000000c"
AMBIGUOUS = "id prefix is ambiguous: more than one item begins with it; give more digits"


@pytest.fixture
async def three(tools: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A project with the items A, B and C."""
    name_ids(monkeypatch, [A, B, C])
    await tools.create({"title": "a"}, {"title": "b"}, {"title": "c"})
    monkeypatch.undo()
    return tools


def name_ids(monkeypatch: pytest.MonkeyPatch, ids: list[str]) -> None:
    """Sets the ids of the next items."""
    upcoming: Iterator[str] = iter(item.replace("-", "") for item in ids)
    monkeypatch.setattr("coordinator.toolsets.items.tools.items.new_ids", lambda count: list(islice(upcoming, count)))


@pytest.mark.every_store
@pytest.mark.parametrize("written", [C, C.upper(), "abcd5", "ABCD5", "abcd56780", C.replace("-", ""), "Abcd5678"])
async def test_an_item_is_found_by_its_id_or_a_prefix(three: Client, written: str) -> None:
    assert (await three.get(written))["id"] == C


async def test_an_ambiguous_prefix_is_rejected_with_the_candidates(three: Client) -> None:
    failure = await three.refusal("query_items", operation="get", id="ABCD1234")
    assert failure.code == "VALIDATION_ERROR"
    assert "is ambiguous: 2 items begin with it" in failure.message
    assert failure.data == {
        "prefix": "abcd1234",
        "matches": [{"id": A, "title": "a"}, {"id": B, "title": "b"}],
    }


async def test_at_most_ten_candidates_are_named(tools: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    name_ids(monkeypatch, [f"aaaa0000-0000-4000-8000-{n:012x}" for n in range(12)])
    await tools.add_many(12)
    failure = await tools.refusal("query_items", operation="get", id="aaaa")
    assert failure.data is not None
    assert len(failure.data["matches"]) == 10


async def test_a_prefix_is_unique_again_after_a_deletion(three: Client) -> None:
    await three.delete(A)
    assert (await three.get("abcd1234"))["id"] == B


async def test_an_unknown_prefix_is_not_found(three: Client) -> None:
    for written in ("abcd9", "abce", "0000"):
        failure = await three.refusal("query_items", operation="get", id=written)
        assert failure.code == "RESOURCE_NOT_FOUND"
        assert written in failure.message


@pytest.mark.parametrize("written", ["0000", "abcd1", "nope"])
@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("query_items", {"operation": "get", "id": "*"}, "id"),
        ("query_items", {"operation": "search", "parentId": "*"}, "parentId"),
        ("query_items", {"operation": "overview", "itemId": "*"}, "itemId"),
        ("get_next_item", {"parentId": C, "ancestorId": "*"}, "ancestorId"),
        ("manage_dependencies", {"operation": "delete", "fromItemId": C, "toItemId": "*"}, "toItemId"),
        ("manage_dependencies", {"operation": "delete", "toItemId": "*", "deleteAll": True}, "toItemId"),
        ("manage_notes", {"operation": "delete", "itemId": "*"}, "itemId"),
        ("create_work_tree", {"root": {"title": "x"}, "parentId": "*"}, "parentId"),
        ("complete_tree", {"rootId": "*"}, "rootId"),
        ("claim_item", {"claims": [{"selector": {"parentId": "*"}}]}, "claims[0].selector.parentId"),
    ],
)
async def test_a_call_that_fails_for_an_id_names_its_field(
    three: Client, tool: str, arguments: Json, field: str, written: str
) -> None:
    given = json.loads(json.dumps(arguments).replace("*", written))
    if tool == "claim_item":
        given |= {"actor": actor("agent"), "requestId": fresh_id()}
    assert (await three.refusal(tool, **given)).message.startswith(f"{field}: ")


@pytest.mark.parametrize("written", ["abc", "abcd5678-0000", "abcg", "abcd 5", "5" * 33, "5" * 35, "", "-", "0x1234"])
async def test_malformed_prefixes_are_rejected(three: Client, written: str) -> None:
    assert (await three.refusal("query_items", operation="get", id=written)).code == "VALIDATION_ERROR"


async def test_create_takes_prefixes_of_parents(three: Client) -> None:
    shared = await three.create({"title": "x"}, parentId="abcd5")
    assert (await three.get(shared["items"][0]["id"]))["parentId"] == C
    result = await three.create({"title": "x", "parentId": "abcd5"}, {"title": "y", "parentId": "abcd1"})
    assert (result["created"], result["failed"]) == (1, 1)
    assert result["failures"] == [{"index": 1, "error": "parentId: id prefix is ambiguous; give more digits"}]


async def test_an_ambiguous_shared_parent_fails_the_call(three: Client) -> None:
    failure = await three.refusal("manage_items", operation="create", items=[{"title": "x"}], parentId="abcd1")
    assert failure.code == "VALIDATION_ERROR"


async def test_update_and_delete_take_prefixes(three: Client) -> None:
    result = await three.update("abcd5", title="renamed", parentId="abcd123400004000800000000000000a")
    assert result["items"][0]["id"] == C
    assert (await three.get(C))["parentId"] == A
    result = await three.update("abcd1", title="renamed")
    assert result["failures"] == [{"id": "abcd1", "error": AMBIGUOUS}]
    assert await three.delete("abcd5", "abcd1") == {
        "ids": ["abcd5"],
        "deleted": 1,
        "failed": 1,
        "failures": [{"id": "abcd1", "error": AMBIGUOUS}],
    }


async def test_dependencies_take_prefixes(three: Client) -> None:
    result = await three.try_link(A, "abcd5")
    assert (result["dependencies"][0]["fromItemId"], result["dependencies"][0]["toItemId"]) == (A, C)
    result = await three.try_link("abcd5", "abcd1")
    assert result["failures"] == [{"index": 0, "error": f"toItemId: {AMBIGUOUS}"}]
    assert (await three.unlink(fromItemId=A, toItemId="abcd5"))["toItemId"] == C
    failure = await three.refusal("manage_dependencies", operation="delete", fromItemId="abcd1", toItemId=C)
    assert failure.code == "VALIDATION_ERROR"


async def test_advance_takes_prefixes(three: Client) -> None:
    assert (await three.advance("abcd5", "start"))["itemId"] == C
    for written, error in (("abcd1", AMBIGUOUS), ("0000", "no such item")):
        result = await three.advance(written, "start")
        problem = f"Cannot apply 'start': {error}"
        assert result == {"itemId": written, "trigger": "start", "applied": False, "error": problem}


async def test_claims_and_releases_take_prefixes(three: Client) -> None:
    assert (await three.claim("agent", "abcd5"))["itemId"] == C
    entries: list[dict[str, Any]] = [{"itemId": "abcd1"}, {"itemId": "0000"}]
    result = await three.claims("agent", entries, entries)
    for results in (result["claimResults"], result["releaseResults"]):
        assert results == [
            {"itemId": "abcd1", "outcome": "not_found", "error": AMBIGUOUS},
            {"itemId": "0000", "outcome": "not_found"},
        ]
    assert (await three.release("agent", "abcd5"))["outcome"] == "success"


async def test_next_takes_a_prefix_of_the_parent(three: Client) -> None:
    child = await three.add(parentId=C)
    assert await three.next(parentId="abcd5", limit=5) == [child]
    assert (await three.refusal("get_next_item", parentId="0000")).code == "RESOURCE_NOT_FOUND"
    assert (await three.refusal("get_next_item", parentId="abcd1")).code == "VALIDATION_ERROR"


async def test_many_prefixes_are_looked_up_in_parts(tools: Client) -> None:
    items = await tools.add_many(250)
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    changes = [{"id": item[:13].replace("-", ""), "title": "new"} for item in items]
    updated = await tools("manage_items", operation="update", items=changes)
    assert [item["id"] for item in updated["items"]] == items
    assert runs.count("resolve_ids") == 3
