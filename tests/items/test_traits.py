"""Traits of items: unknown ones are rejected, configured defaults apply to all."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import Store
from tests.items.client import Client, actor, fresh_id

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


def settings(*traits: str, **more: Any) -> Settings:
    notes = {name: {"notes": [{"key": name, "role": "queue", "required": True}]} for name in traits}
    return msgspec.convert({"traits": notes, "work_item_schemas": {"task": {}}, **more}, Settings)


@pytest.fixture
def careful(store: Store, project: str) -> Client:
    return Client(store, project, settings("careful", "fast"))


KNOWN = "'carefull' is no configured trait; did you mean 'careful'? known: careful, fast"


@pytest.mark.parametrize("fields", [{"traits": "fast, carefull"}, {"properties": '{"traits": ["carefull"]}'}])
async def test_an_unknown_trait_is_rejected_with_the_existing_ones(careful: Client, fields: Json) -> None:
    answer = await careful.create({"title": "a"}, {"title": "b", **fields}, {"title": "c", "traits": "fast"})
    assert ([item["title"] for item in answer["items"]], answer["failed"]) == (["a", "c"], 1)
    assert answer["failures"] == [{"index": 1, "error": f"traits: {KNOWN}"}]
    item = await careful.add(traits="fast")
    before = await careful.get(item)
    answer = await careful.update(item, title="new", **fields)
    assert (answer["updated"], answer["failures"]) == (0, [{"id": item, "error": f"traits: {KNOWN}"}])
    assert await careful.get(item) == before


async def test_the_default_traits_of_a_call_are_checked(careful: Client) -> None:
    call: Json = {"operation": "create", "items": [{"title": "a"}, {"title": "b", "traits": ""}]}
    refused = await careful.refusal("manage_items", **call, traits="carefull")
    assert (refused.code, refused.message) == ("VALIDATION_ERROR", f"traits: {KNOWN}")
    assert (await careful("query_items", operation="search"))["total"] == 0


async def test_a_tree_with_an_unknown_trait_is_rejected(careful: Client) -> None:
    root, child = {"title": "r"}, {"ref": "a", "title": "a", "traits": "carefull"}
    refused = await careful.refusal("create_work_tree", root=root, children=[child])
    assert (refused.code, refused.message) == ("VALIDATION_ERROR", f"children[0].traits: {KNOWN}")
    refused = await careful.refusal("create_work_tree", root=root | {"traits": "x"})
    assert refused.message == "root.traits: 'x' is no configured trait; known: careful, fast"
    assert (await careful("query_items", operation="search"))["total"] == 0


async def test_any_trait_is_allowed_if_none_is_configured(tools: Client) -> None:
    item = await tools.add(traits="anything")
    assert json.loads((await tools.get(item))["properties"]) == {"traits": ["anything"]}


@pytest.mark.parametrize("before", [("fast",), ("fast", "late")], ids=["becomes known", "becomes unknown"])
async def test_a_retry_gets_its_answer_under_any_later_configuration(
    store: Store, project: str, before: tuple[str, ...]
) -> None:
    after = ("fast", "late") if before == ("fast",) else ("fast",)
    tools = Client(store, project, settings(*before))
    item = await tools.add()
    calls: list[tuple[str, Json]] = [
        ("manage_items", {"operation": "create", "items": [{"title": "a", "traits": "late"}, {"title": "b"}]}),
        (
            "manage_items",
            {"operation": "update", "items": [{"id": item, "traits": "late"}, {"id": item, "title": "b"}]},
        ),
    ]
    if "late" in before:
        calls.append(("create_work_tree", {"root": {"title": "r", "traits": "late"}}))
    for tool, arguments in calls:
        once: Json = {**arguments, "actor": actor("ann"), "requestId": fresh_id()}
        tools.configure(settings(*before))
        first = await tools(tool, **once)
        tools.configure(settings(*after))
        again = await tools(tool, **once)
        assert without_traits(again) == without_traits(first)


def without_traits(answer: Json) -> Json:
    """An answer without its parts about the current configuration."""
    return {name: value for name, value in answer.items() if name != "availableTraits"}


async def test_the_default_traits_of_the_configuration_apply_to_every_schema(store: Store, project: str) -> None:
    tools = Client(store, project, settings("careful", default_traits=["careful"]))
    item, free = await tools.add(type="task"), await tools.add()
    refused = await tools.advance(item, "start")
    assert [note["key"] for note in refused["missingNotes"]] == ["careful"]
    assert (await tools.advance(free, "start"))["applied"]  # it has no schema, so there are no notes to add to
    tools.configure(settings("careful"))
    assert (await tools.advance(item, "start"))["applied"]
