"""Debts of large trees, long queues of callers and items with many edges, and interruptions."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from coordinator.settings import Settings
from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.trees import MAX_ELEMENTS
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.dying import MANY, LosesAnswers, hub, link_pairs, owed, ready
from tests.items.parked import Front, Fronts, Parked
from tests.items.planting import notes_of
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

KEYS = 6
"""Notes of each item of a tree: more than one script writes."""


def tree(children: int, **fields: Any) -> Json:
    """The arguments of a tree with so many children."""
    items = [{"ref": f"c{n}", "title": f"c{n}", **fields} for n in range(children)]
    return {"root": {"title": "R"}, "children": items, "actor": actor("agent"), "requestId": fresh_id()}


def noted(children: int, **fields: Any) -> Json:
    """The same with notes."""
    refs = ["root", *(f"c{n}" for n in range(children))]
    notes = [
        {"itemRef": ref, "key": f"k{n}", "role": "queue", "body": f"{ref} {n}"} for ref in refs for n in range(KEYS)
    ]
    return {**tree(children, **fields), "notes": notes}


def ids_of(answer: Json) -> dict[str, str]:
    return {"root": answer["root"]["id"], **{child["ref"]: child["id"] for child in answer["children"]}}


async def check_notes(tools: Client, answer: Json) -> None:
    """Exactly the notes of the answer exist, under their ids."""
    by_item: dict[str, dict[str, str]] = {}
    for note in answer["notes"]:
        by_item.setdefault(note["itemRef"], {})[note["key"]] = note["id"]
    ids = ids_of(answer)
    assert set(by_item) == set(ids)
    for ref, expected in by_item.items():
        found = await notes_of(tools, ids[ref])
        assert {note["key"]: note["id"] for note in found} == expected
        assert all(note["body"] == f"{ref} {note['key'][1:]}" for note in found)
        assert {note["actor"]["id"] for note in found} == {"agent"}


# --- notes of a tree


async def test_all_notes_of_a_large_tree_exist_at_its_answer(tools: Client) -> None:
    answer = await tools("create_work_tree", **noted(99))
    assert len(answer["notes"]) == 100 * KEYS
    await check_notes(tools, answer)
    assert (await audit(tools.store, tools.project)).differences == []


async def test_a_retried_tree_has_its_outstanding_notes(tools: Client, dying: Client) -> None:
    call = noted(99)
    first = await dying("create_work_tree", **call)
    assert await owed(tools) > 1
    assert await notes_of(tools, first["root"]["id"]) == []
    assert await tools("create_work_tree", **call) == first
    await check_notes(tools, first)


async def test_writes_to_a_tree_settle_its_notes_first(tools: Client, dying: Client) -> None:
    answer = await dying("create_work_tree", **noted(60))
    (there,) = [note["id"] for note in answer["notes"] if (note["itemRef"], note["key"]) == ("c59", f"k{KEYS - 1}")]
    item = ids_of(answer)["c59"]
    notes = [{"itemId": item, "key": f"k{KEYS - 1}", "role": "queue", "body": "new"}]
    (written,) = (await tools("manage_notes", operation="upsert", notes=notes))["notes"]
    assert written["id"] == there
    assert {note["key"]: note["body"] for note in await notes_of(tools, item)}[f"k{KEYS - 1}"] == "new"


async def test_a_tree_deleted_before_settling_leaves_nothing(tools: Client, dying: Client) -> None:
    answer = await dying("create_work_tree", **noted(60))
    assert await owed(tools) > 1
    assert (await tools.delete(answer["root"]["id"], recursive=True))["deleted"] == 61
    for family in (keys.note, keys.notes, keys.item):
        pattern = keys.project_prefix(tools.project) + family.suffix.encode() + b":*"
        assert [key async for key in tools.store.client.scan_iter(match=pattern)] == []


async def test_outstanding_notes_of_a_tree_can_be_deleted(tools: Client, dying: Client) -> None:
    answer = await dying("create_work_tree", **noted(60))
    ids = [note["id"] for note in answer["notes"][-90:]]
    assert (await tools("manage_notes", operation="delete", ids=ids))["deleted"] == 90
    assert await notes_of(tools, ids_of(answer)["c59"]) == []


async def test_gates_see_outstanding_notes(tools: Client, dying: Client) -> None:
    schemas = {"work_item_schemas": {"bug": {"notes": [{"key": "k5", "role": "queue", "required": True}]}}}
    for client in (tools, dying):
        assert client.configure is not None
        client.configure(msgspec.convert(schemas, Settings))
    answer = await dying("create_work_tree", **noted(60, type="bug"))
    assert await owed(tools) > 1
    assert (await tools.advance(ids_of(answer)["c59"], "start"))["applied"]


# --- tags of a tree


async def test_a_tree_is_found_by_all_its_tags_at_its_answer(tools: Client) -> None:
    names = [f"t{n}" for n in range(32)]
    ids = ids_of(await tools("create_work_tree", **tree(100, tags=",".join(names), type="kind")))
    children = set(ids.values()) - {ids["root"]}
    for name in names:
        assert await ready(tools, name) == children
    found = await tools("query_items", operation="search", tags="t31", limit=200)
    assert found["total"] == 100
    assert (await tools("query_items", operation="search", type="kind"))["total"] == 100
    assert set(await tools.next(tags="t7", limit=20)) <= children
    assert (await audit(tools.store, tools.project)).differences == []


@pytest.mark.parametrize("change", ["none", "tags", "claim", "delete", "move"])
async def test_outstanding_tags_follow_the_current_items(tools: Client, dying: Client, change: str) -> None:
    names = [f"t{n}" for n in range(32)]
    answer = await dying("create_work_tree", **tree(60, tags=",".join(names), type="kind"))
    assert await owed(tools) > 1
    ids = ids_of(answer)
    one, rest = ids["c7"], {item for ref, item in ids.items() if ref not in ("root", "c7")}
    if change == "tags":
        await tools.update(one, tags="new")
    elif change == "claim":
        assert (await tools.claim("agent", one))["outcome"] == "success"
    elif change == "delete":
        assert (await tools.delete(one))["deleted"] == 1
    elif change == "move":
        await tools.update(one, parentId=None, type="other")
    found = await take(tools, "other", {"tags": "t31"})
    assert found["outcome"] == "success"
    assert await ready(tools, "t31") == (rest | ({one} if change in ("none", "move") else set())) - {found["itemId"]}
    assert (one in await ready(tools, "new")) == (change == "tags")


# --- more callers than one script handles


async def park_all(front: Front, count: int) -> list[Parked]:
    """Callers in the order of their arrival."""
    return [await front.park(f"agent {n}", {"tags": "dep"}) for n in range(count)]


async def each_has_one(calls: list[Parked], items: set[str]) -> None:
    """The first callers have one of these items each, and the others wait."""
    served = [await call.item() for call in calls[: len(items)]]
    assert len(set(served)) == len(served)
    assert set(served) == items
    assert all(call.waits for call in calls[len(items) :])


@pytest.mark.parametrize("lives", [True, False], ids=["answered", "died"])
async def test_callers_are_served_from_a_large_tree_in_order_of_arrival(
    tools: Client, dying: Client, fronts: Fronts, lives: bool
) -> None:
    """If the caller's process dies, the processes with parked calls settle."""
    calls = await park_all(await fronts.make(), MAX_ELEMENTS + 2)
    answer = await (tools if lives else dying)("create_work_tree", **tree(MAX_ELEMENTS - 1, tags="dep"))
    items = set(ids_of(answer).values()) - {answer["root"]["id"]}
    if lives:
        assert await owed(tools) == 0
        assert await ready(tools) == set()
    await each_has_one(calls, items)


@pytest.mark.parametrize("lives", [True, False], ids=["answered", "died"])
async def test_callers_are_served_when_a_hub_ends_in_order_of_arrival(
    tools: Client, dying: Client, fronts: Fronts, lives: bool
) -> None:
    waiting = await tools.add_many(60, tags="dep")
    item = await hub(tools, waiting)
    first, second = await fronts.pair()
    calls = [await (first, second)[n % 2].park(f"agent {n}", {"tags": "dep"}) for n in range(63)]
    assert (await (tools if lives else dying).advance(item, "complete"))["applied"]
    await each_has_one(calls, set(waiting))


async def test_the_oldest_callers_get_scarce_items(tools: Client, fronts: Fronts) -> None:
    """Each item goes to its longest waiting caller."""
    front = await fronts.make()
    picky = [await front.park(f"picky {n}", {"tags": "dep", "priority": "high"}) for n in range(12)]
    any_will_do = [await front.park(f"any {n}", {"tags": "dep"}) for n in range(12)]
    high = await tools.create(*({"title": "h", "tags": "dep", "priority": "high"} for _ in range(14)))
    first = {item["id"] for item in high["items"]}
    got = [await call.item() for call in [*picky, *any_will_do[:2]]]
    assert set(got) == first
    low = await tools.create(*({"title": "l", "tags": "dep", "priority": "low"} for _ in range(10)))
    assert {await call.item() for call in any_will_do[2:]} == {item["id"] for item in low["items"]}


# --- items with many edges, deleted in slices


@pytest.fixture
async def wide(tools: Client) -> tuple[str, list[str], list[str]]:
    """An item with many dependents, its blockers, and its dependents."""
    before, after = await tools.add_many(MANY), await tools.add_many(MANY, tags="dep")
    item = await hub(tools, after)
    await link_pairs(tools, [(other, item) for other in before])
    await link_pairs(tools, [(item, other) for other in after[:20]], type="RELATES_TO")
    return item, before, after


@pytest.mark.parametrize("how", ["item", "edges"])
@pytest.mark.parametrize("lose", [1, *(pytest.param(lose, marks=pytest.mark.chaos) for lose in (2, 3)), 4])
async def test_a_deletion_in_slices_continues_after_a_process_died(
    tools: Client, dying: Client, redis_url: str, wide: tuple[str, list[str], list[str]], how: str, lose: int
) -> None:
    item, _, after = wide
    losing = LosesAnswers(redis_url, lose)
    await losing.open()
    call: Json = {"operation": "delete", "actor": actor("agent"), "requestId": fresh_id()}
    call |= {"ids": [item]} if how == "item" else {"fromItemId": item, "deleteAll": True}
    tool = "manage_items" if how == "item" else "manage_dependencies"
    first = await Client(losing, tools.project).attempt(tool, **call)
    await losing.close()
    answer = await tools(tool, **call)
    assert answer["deleted"] == (1 if how == "item" else 2 * MANY + 20)
    assert first == answer or "lost" in str(first)
    assert await tools(tool, **call) == answer
    assert await ready(tools) == set(after)
    assert (await audit(tools.store, tools.project)).edges == 0
    assert await tools.exists(item) == (how == "edges")


@pytest.mark.parametrize(("before", "after"), [(99, 0), (1, 450), (1, 550), (60, 60)])
async def test_an_item_being_deleted_is_not_handed_out(tools: Client, fronts: Fronts, before: int, after: int) -> None:
    """Its blocking edges are deleted in slices before it, except one."""
    item = await hub(tools, await tools.add_many(after) if after else [])
    ended, *blockers = await tools.add_many(before + 1)
    await link_pairs(tools, [(ended, item), *((other, item) for other in blockers)])
    await tools.move(ended, "complete")
    call = await (await fronts.make()).park("agent", {"tags": "hub"})
    assert (await tools.delete(item))["deleted"] == 1
    assert not await tools.exists(item)
    assert call.waits


async def test_dependents_of_a_deleted_item_go_to_callers(
    tools: Client, wide: tuple[str, list[str], list[str]], fronts: Fronts
) -> None:
    item, _, after = wide
    calls = await park_all(await fronts.make(), 20)
    assert (await tools.unlink(toItemId=item, deleteAll=True))["deleted"] == 2 * MANY + 20
    got = {await call.item() for call in calls}
    assert len(got) == 20
    assert await ready(tools) == set(after) - got


async def test_edges_added_during_a_deletion_do_no_harm(clients: list[Client]) -> None:
    items = await clients[0].add_many(MANY, tags="dep")
    item = await hub(clients[0], items)

    async def add() -> None:
        for other in items[:20]:
            await clients[2].try_link(item, other, type="RELATES_TO")
            await clients[2].try_link(other, item, type="IS_BLOCKED_BY")

    deleted, _, moved = await asyncio.gather(
        clients[0].unlink(fromItemId=item, deleteAll=True), add(), clients[1].advance(item, "complete")
    )
    assert deleted["deleted"] >= MANY
    assert moved["applied"]
    assert await ready(clients[0]) == set(items)
