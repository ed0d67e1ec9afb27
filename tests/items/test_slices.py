"""Reads in slices: changes between two of them, and no writes."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Script, Store
from coordinator.store.record_layout import CLASS_SIZE
from coordinator.toolsets.items.rules.classes import Ranked, best_first
from coordinator.toolsets.items.rules.roles import ROLE_CODES
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.blocked import BlockedStore
from coordinator.toolsets.items.store.context import ContextStore
from coordinator.toolsets.items.store.dependencies import DependencyStore
from tests.items.client import Client, Json, fresh_id
from tests.support.between import after, before

pytestmark = pytest.mark.anyio

Shared = tuple[Store, Settings, SchemaSource]
"""What the stores of the toolset share."""

READS: tuple[tuple[str, Json], ...] = (
    ("get_context", {}),
    ("get_context", {"since": "1970-01-01T00:00:00Z", "includeAncestors": True}),
    ("get_blocked_items", {"includeItemDetails": True, "includeAncestors": True}),
)


@pytest.fixture
def shared(store: Store) -> Shared:
    return store, Settings(), SchemaSource()


def inner(item: str) -> str:
    return item.replace("-", "")


async def test_a_listed_item_that_changed_its_role_or_was_deleted_is_left_out(tools: Client, shared: Shared) -> None:
    stays, moves, goes = await tools.add_many(3, role="work")
    ids = [inner(item) for item in (moves, goes, stays)]
    await tools.move(moves, "complete")
    await tools.delete(goes)
    listed = await ContextStore(*shared).listed(tools.project, [ROLE_CODES["work"]], ids, False)
    assert [entry.id for entry in listed] == [inner(stays)]


async def test_a_blocked_item_unblocked_or_deleted_meanwhile_is_left_out(tools: Client, shared: Shared) -> None:
    blocker, done = await tools.add_many(2)
    stays, freed, ended, gone = await tools.add_many(4)
    for item in (stays, ended, gone):
        await tools.link(blocker, item)
    await tools.link(done, freed)
    await tools.move(done, "complete")
    await tools("complete_tree", itemIds=[ended], trigger="cancel")
    await tools.delete(gone)
    ids = [inner(item) for item in (freed, ended, gone, stays)]
    found, complete = await BlockedStore(*shared).blocked(tools.project, ids, 10, False, False)
    assert [entry.id for entry in found] == [inner(stays)]
    assert complete


@pytest.mark.parametrize("trigger", ["hold", "resume"])
async def test_a_blocked_item_that_changes_its_role_meanwhile_is_listed_once(
    tools: Client, monkeypatch: pytest.MonkeyPatch, trigger: str
) -> None:
    blocker, item = await tools.add_many(2)
    await tools.link(blocker, item)
    if trigger == "resume":
        await tools.move(item, "hold")
    after(monkeypatch, tools.store, 1, lambda: tools.move(item, trigger))
    (listed,) = (await tools("get_blocked_items"))["blockedItems"]
    assert listed["itemId"] == item
    assert listed["role"] == await tools.role(item)


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize(("role", "trigger"), [("work", "start"), ("work", "hold"), ("blocked", "resume")])
async def test_an_item_that_moves_between_lists_meanwhile_is_in_one_of_them(
    store: Store, project: str, monkeypatch: pytest.MonkeyPatch, role: str, trigger: str, runs: int
) -> None:
    with_review = {"work_item_schemas": {"default": {"notes": [{"key": "opinion", "role": "review"}]}}}
    tools = Client(store, project, msgspec.convert(with_review, Settings))
    item = await tools.add(role="work")
    if role == "blocked":
        await tools.move(item, "hold")
    after(monkeypatch, tools.store, runs, lambda: tools.move(item, trigger))
    found = await tools("get_context")
    assert [entry["id"] for entry in found["activeItems"] + found["blockedItems"]] == [item]
    assert await tools.role(item) != role


async def test_a_search_for_blocked_items_ends_when_it_has_enough(tools: Client, shared: Shared) -> None:
    items = [inner(item) for item in await tools.add_many(250, role="blocked")]
    found, complete = await BlockedStore(*shared).blocked(tools.project, items, 150, False, False)
    assert [entry.id for entry in found] == items[:150]
    assert not complete
    assert await BlockedStore(*shared).blocked(tools.project, items[:150], 150, False, False) == (found, True)


@pytest.mark.every_store
async def test_an_item_with_many_edges_is_listed_once_among_others(tools: Client, shared: Shared) -> None:
    sources = await tools.add_many(600)
    hub, other = await tools.add_many(2)
    await tools.link_all((source, hub) for source in sources)
    await tools.link(sources[0], other)
    ids = [inner(item) for item in (sources[0], hub, other, sources[1])]
    edges, complete = await DependencyStore(*shared).edges(tools.project, [ids[0], uuid.uuid4().hex, *ids[1:]], 10_000)
    assert complete
    assert {item: len(held) for item, held in edges.items()} == dict(zip(ids, (2, 600, 1, 1), strict=True))
    assert {edge.other for edge in edges[inner(hub)]} == {inner(item) for item in sources}


async def test_prefetches_return_whole_items_that_blocking_edges_lead_to(tools: Client, shared: Shared) -> None:
    sources = await tools.add_many(450)
    start, large, middling, small, aside, other = await tools.add_many(6)
    await tools.link_all((source, large) for source in sources)
    await tools.link_all((source, middling) for source in sources[:300])
    await tools.link_all((start, item) for item in (large, middling, small))
    await tools.link(start, aside, type="RELATES_TO")
    await tools.link(other, start, type="RELATES_TO")
    found, complete = await DependencyStore(*shared).edges(tools.project, [inner(start)], 10_000, known=[])
    assert complete
    assert len(found.pop(inner(start))) == 5
    assert [edge.other for edge in found.pop(inner(small))] == [inner(start)]
    assert set(found) < {inner(source) for source in sources}, "of the others one page does not hold all"


async def test_an_item_deleted_between_two_pages_of_its_edges_is_finished(
    tools: Client, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = await tools.add_many(450)
    first, second, other = await tools.add_many(3)
    for hub in (first, second):
        await tools.link_all((source, hub) for source in sources)
    await tools.link(sources[0], other)
    run = tools.store.run
    hubs = [first, second]

    async def wrapped(script: Script[Any], project: str, *args: str | bytes | int, **more: Any) -> Any:
        reply = await run(script, project, *args, **more)
        if script.name in ("read_edges", "blocked_items"):
            assert reply[1] != "0", "it stopped within the edges of the next hub"
            monkeypatch.undo()
            await tools.delete(hubs.pop())
        return reply

    monkeypatch.setattr(tools.store, "run", wrapped)
    edges, complete = await DependencyStore(*shared).edges(
        tools.project, [inner(item) for item in (first, second, other)], 10_000
    )
    assert complete
    assert [edge.other for edge in edges[inner(other)]] == [inner(sources[0])]
    monkeypatch.setattr(tools.store, "run", wrapped)
    ids = [inner(first), inner(other)]
    found, complete = await BlockedStore(*shared).blocked(tools.project, ids, 10, False, False)
    assert complete
    assert [entry.id for entry in found][-1] == inner(other)


async def test_an_item_deleted_before_its_details_are_read_is_listed_without_them(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, stays, goes = await tools.add_many(3)
    for other in (stays, goes):
        await tools.link(item, other)
    before(monkeypatch, tools.store, "read_heads", lambda: tools.delete(goes))
    answer = await tools("query_dependencies", itemId=item, includeItemInfo=True)
    assert {edge["toItemId"]: "toItem" in edge for edge in answer["dependencies"]} == {stays: True, goes: False}


async def test_large_bodies_are_read_in_several_runs(tools: Client) -> None:
    item = await tools.add()
    bodies = {f"{number:02}": str(number % 10) * 200_000 for number in range(12)}
    notes = [{"itemId": item, "key": key, "role": "queue", "body": body} for key, body in bodies.items()]
    await tools("manage_notes", operation="upsert", notes=notes)
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    found = (await tools("query_notes", operation="list", itemId=item))["notes"]
    assert {note["key"]: note["body"] for note in found} == bodies
    assert runs.count("read_notes") == 2
    assert (await tools("query_notes", operation="list", itemId=item, includeBody=False))["total"] == 12
    assert runs.count("read_notes") == 3


async def test_notes_beyond_one_runs_limit_are_read_in_the_next(store: Store, project: str) -> None:
    keys = [f"note-{number}" for number in range(60)]
    notes = [{"key": key, "role": "work", "required": True} for key in keys]
    tools = Client(store, project, msgspec.convert({"work_item_schemas": {"default": {"notes": notes}}}, Settings))
    items = await tools.add_many(20, role="work")
    for item in items:
        written = [{"itemId": item, "key": key, "role": "work", "body": "x"} for key in keys[:-1]]
        assert (await tools("manage_notes", operation="upsert", notes=written))["upserted"] == 59
    runs: list[str] = []
    store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    stalled = (await tools("get_context"))["stalledItems"]
    assert sorted(entry["id"] for entry in stalled) == sorted(items)
    assert all(entry["missingNotes"] == keys[-1:] for entry in stalled)
    assert runs.count("list_items") == 3  # 59 notes an item, and a run ends after about 500


def test_several_classes_come_in_one_order_by_rank_then_id() -> None:
    last, first = 2 * CLASS_SIZE - 1, CLASS_SIZE * 3 + 1
    classes = [Ranked(2, ["b", "1", "d", f"{last}"]), Ranked(0, []), Ranked(3, ["a", f"{first}", "c", f"{first + 1}"])]
    assert list(best_first(classes)) == ["a", "b", "c", "d"]
    assert [ranked.cut for ranked in classes] == [False, False, True]


@pytest.mark.parametrize(("tool", "arguments"), READS)
async def test_a_store_that_does_not_answer_is_reported(
    tools: Client, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any]
) -> None:
    async def unavailable(script: Script[Any], project: str, *args: object, **more: Any) -> Any:
        raise ToolFailure("store_unavailable", "the store does not answer", retry_after_ms=100)

    monkeypatch.setattr(tools.store, "run", unavailable)
    failure = await tools.refusal(tool, **arguments)
    assert (failure.code, failure.retry_after_ms) == ("store_unavailable", 100)


async def test_a_deleted_parent_is_reported(tools: Client) -> None:
    parent = await tools.add()
    await tools.delete(parent)
    for gone in (parent, fresh_id()):
        assert (await tools.refusal("get_blocked_items", parentId=gone)).code == "RESOURCE_NOT_FOUND"
