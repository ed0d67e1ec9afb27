"""manage_items delete: children, subtrees over several slices, counts, and the data of items."""

from __future__ import annotations

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.measures.items import MeasureStore
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse

pytestmark = pytest.mark.anyio


@pytest.mark.every_store
async def test_listed_items_are_deleted(tools: Client) -> None:
    first, second, kept = await tools.add(), await tools.add(), await tools.add()
    assert await tools.delete(first, second) == {"ids": [first, second], "deleted": 2, "failed": 0}
    assert not await tools.exists(first)
    assert await tools.exists(kept)


async def test_an_item_with_children_is_rejected_with_their_number(tools: Client) -> None:
    parent, leaf = await tools.add(), await tools.add()
    for role in ("queue", "work", "terminal"):
        await tools.add(parentId=parent, role=role)
    assert await tools.delete(parent, leaf) == {
        "ids": [leaf],
        "deleted": 1,
        "failed": 1,
        "failures": [{"id": parent, "error": "item has 3 children; use recursive to delete them too"}],
    }
    assert await tools.exists(parent)


async def test_recursive_deletes_the_subtree_and_counts_it(tools: Client) -> None:
    ids = await tools.chain(3)
    side = await tools.add(parentId=ids[1])
    other = await tools.add()
    assert await tools.delete(ids[1], recursive=True) == {
        "ids": [ids[1]],
        "deleted": 4,
        "failed": 0,
        "descendantsDeleted": 3,
    }
    assert [await tools.exists(item) for item in (*ids, side, other)] == [True, False, False, False, False, True]


async def test_a_recursive_delete_of_leaves_reports_no_descendants(tools: Client) -> None:
    assert "descendantsDeleted" not in await tools.delete(await tools.add(), recursive=True)


async def test_a_listed_descendant_counts_as_listed(tools: Client) -> None:
    ids = await tools.chain(2)
    result = await tools.delete(ids[0], ids[2], recursive=True)
    assert result == {"ids": [ids[0], ids[2]], "deleted": 3, "failed": 0, "descendantsDeleted": 1}


async def test_children_listed_before_their_parent_need_no_recursive(tools: Client) -> None:
    ids = await tools.chain(1)
    assert (await tools.delete(ids[1], ids[0]))["deleted"] == 2


async def test_a_parent_repeated_after_its_children_is_deleted(tools: Client) -> None:
    parent, child = await tools.chain(1)
    unknown = fresh_id()
    assert await tools.delete(parent, unknown, child, parent.upper()) == {
        "ids": [parent, child, parent.upper()],
        "deleted": 2,
        "failed": 1,
        "failures": [{"id": unknown, "error": "no such item"}],
    }


async def test_unknown_ids_fail_alone_as_the_caller_wrote_them(tools: Client) -> None:
    item, unknown = await tools.add(), fresh_id()
    result = await tools.delete(item, item, unknown, "00000", "0000")
    assert result == {
        "ids": [item],
        "deleted": 1,
        "failed": 3,
        "failures": [{"id": text, "error": "no such item"} for text in (unknown, "00000", "0000")],
    }


async def test_a_malformed_id_fails_the_call(tools: Client) -> None:
    item = await tools.add()
    failure = await tools.refusal("manage_items", operation="delete", ids=[item, "nope"])
    assert (failure.code, failure.message.split(":")[0]) == ("VALIDATION_ERROR", "ids[1]")
    assert await tools.exists(item)


@pytest.mark.parametrize("listed", ["root", "children"])
async def test_a_delete_over_many_slices_is_complete(tools: Client, listed: str) -> None:
    root = await tools.add("root")
    children = await tools.add_many(120, parentId=root)
    grandchildren = await tools.add_many(60, parentId=children[60])
    result = await tools.delete(*([root] if listed == "root" else children), recursive=True)
    below = len(children) + len(grandchildren) if listed == "root" else len(grandchildren)
    assert (result["deleted"], result["descendantsDeleted"]) == (below + len(result["ids"]), below)
    assert await tools.exists(root) == (listed == "children")
    report = await audit(tools.store, tools.project)
    assert (report.items, report.differences) == (int(listed == "children"), [])


async def test_dependents_become_ready(tools: Client) -> None:
    blocker, one, two = await tools.add("blocker"), await tools.add("one"), await tools.add("two")
    await tools.link(blocker, one)
    await tools.link(two, blocker, type="IS_BLOCKED_BY")
    await tools.delete(blocker)
    assert set(await tools.next(limit=5)) == {one, two}
    assert (await tools.advance(one, "complete"))["applied"]


async def test_deleting_a_dependent_leaves_its_blocker_free(tools: Client) -> None:
    blocker, waits = await tools.add(), await tools.add()
    dependency = await tools.link(blocker, waits)
    await tools.delete(waits)
    assert (await tools.unlink(id=dependency))["deleted"] == 0
    assert (await tools.advance(blocker, "complete"))["unblockedItems"] == []


async def test_a_claim_ends_with_its_item(tools: Client) -> None:
    held, lapsed, other = await tools.add(), await tools.add(), await tools.add()
    await tools.claim("one", held)
    await tools.claim("two", lapsed)
    await lapse(tools, lapsed)
    await tools.next()
    await tools.delete(held, lapsed)
    assert (await tools.claim("one", other))["outcome"] == "success"
    assert (await tools.release("two", held))["outcome"] == "not_found"


async def test_a_delete_does_not_cascade(tools: Client) -> None:
    parent = await tools.add()
    done, last = await tools.add(parentId=parent, role="terminal"), await tools.add(parentId=parent)
    await tools.delete(last)
    assert await tools.role(parent) == "queue"
    await tools.delete(done)
    assert await tools.role(parent) == "queue"


async def test_deleting_all_items_leaves_only_the_streams(tools: Client) -> None:
    long = "long " * 30
    ids = [await tools.add(long, description=long, tags="a,b", type="c", requires=["d", "e"]) for _ in range(3)]
    await tools.link(ids[0], ids[1])
    await tools.link(ids[1], ids[2], type="RELATES_TO")
    await tools.claim("agent", ids[0])
    await tools.move(ids[2], "block")
    await tools.delete(*ids)
    # Fetches the counts of the claim.
    await MeasureStore(tools.store).measure(tools.project)
    left = [key async for key in tools.store.client.scan_iter(match=keys.project_prefix(tools.project) + b"*")]
    families = [family for key in left if (family := keys.declared(key))]
    assert {keys.agents, keys.agent_seen} <= set(families), "agents are remembered for a day"
    lasting = (keys.agents, keys.agent_seen, keys.marker)  # the last one only in a cluster
    families = [family for family in families if family not in lasting]
    assert {family.type for family in families if family.ttl is None} == {"stream"}


@pytest.mark.parametrize("keyed", [True, False])
async def test_a_large_subtree_is_deleted_by_repeated_calls(tools: Client, keyed: bool) -> None:
    """Each call deletes for part of its deadline, reports its progress, and leaves nothing half done."""
    root = await tools.add()
    for parent in await tools.add_many(4, parentId=root):
        await tools.add_many(60, parentId=parent)
    hurried = Client(tools.store, tools.project, Settings(request_deadline_ms=1))
    call: Json = {"operation": "delete", "ids": [root], "recursive": True}
    if keyed:
        call |= {"actor": actor("agent"), "requestId": fresh_id()}
    refused, counted = 0, 0
    while True:
        answer = await hurried.attempt("manage_items", **call)
        if isinstance(answer, dict):
            break
        assert (answer.code, answer.kind, answer.retry_after_ms) == ("deadline_exceeded", "transient", 0)
        assert "repeat the call to continue" in answer.message
        so_far = int(answer.message.split()[1])
        refused, counted = refused + 1, so_far if keyed else counted + so_far
        report = await audit(tools.store, tools.project)
        assert (report.items, report.differences) == (1 + 4 + 240 - counted, [])
        assert await tools.exists(root)
    assert refused >= 4
    assert answer["deleted"] == (245 if keyed else 245 - counted)
    assert (answer["ids"], answer["failed"]) == ([root], 0)
    assert (await audit(tools.store, tools.project)).items == 0


async def test_a_waiting_item_is_not_offered_while_its_edges_are_deleted(tools: Client) -> None:
    item = await tools.add()
    for satisfied in (True, True, True, False):
        sources = await tools.add_many(100 if satisfied else 1, role="work")
        pattern = {"pattern": "fan-in", "sources": sources, "target": item}
        await tools("manage_dependencies", operation="create", unblockAt="work" if satisfied else None, **pattern)
    hurried = Client(tools.store, tools.project, Settings(request_deadline_ms=1))
    refused = 0
    while isinstance(await hurried.attempt("manage_items", operation="delete", ids=[item]), ToolFailure):
        assert await tools.next() == []
        refused += 1
    assert refused >= 2
