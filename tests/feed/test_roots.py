"""Events name the item at the top of the tree, and listeners follow a tree by it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from coordinator.feed import position
from coordinator.store import keys
from tests.feed.rig import Front, Json
from tests.items.client import Client

pytestmark = pytest.mark.anyio


def tops(events: list[Json]) -> list[tuple[str, str, str]]:
    return [(event["name"], event["data"]["id"], event["data"]["rootId"]) for event in events]


async def test_all_events_of_a_tree_name_its_root(front: Front, tools: Client) -> None:
    cursor = (await front.poll(tools.project))["cursor"]
    chain = await tools.chain(3)
    for item in chain:
        await tools.claim("a", item)
        await tools.advance(item, "start", "a")
        await tools.update(item, title="new")
        await tools(
            "manage_notes", operation="upsert", notes=[{"itemId": item, "key": "k", "role": "queue", "body": "b"}]
        )
        await tools("manage_notes", operation="delete", itemId=item, key="k")
    await tools.release("a", chain[-1])
    single = await tools.add("single")
    await tools.link(chain[3], single)
    await tools.unlink(fromItemId=chain[3], toItemId=single, type="BLOCKS")
    await tools.delete(chain[0], recursive=True)
    answer = await front.poll(tools.project, after=cursor, kinds="item.*", limit=1000)
    roots = dict.fromkeys(chain, chain[0]) | {single: single}
    found = tops(answer["events"])
    names = {"create", "update", "delete", "transition", "note", "unnote", "link", "unlink", "claim", "release"}
    assert {top[0] for top in found} == {f"item.{name}" for name in names}
    assert [top for top in found if top[2] != roots[top[1]]] == []
    tree = await front.poll(tools.project, after=cursor, kinds="item.*", limit=1000, id=chain[2])
    assert {event["name"] for event in tree["events"]} >= {"item.create", "item.claim", "item.delete"}
    tree = await front.poll(tools.project, after=cursor, root=chain[0], limit=1000)
    assert tree["events"][-1]["name"] == "item.delete"
    for name, item in (("id", chain[2]), ("root", chain[0])):
        named: Json = {"after": tree["cursor"], name: item}
        assert (await front.get(tools.project, **named)).status_code == 404


async def test_a_listener_follows_one_tree(front: Front, tools: Client) -> None:
    one, two = await tools.chain(3), await tools.chain(3)
    async with front.stream(tools.project, root=one[0]) as first, front.stream(tools.project, root=two[0]) as second:
        for chain in (one, two, one):
            for item in chain:
                await tools.update(item, title="new")
        assert [event["data"]["id"] for event in await first.events(8)] == [*one, *one]
        assert [event["data"]["id"] for event in await second.events(4)] == two


async def test_listeners_to_both_trees_hear_of_a_move(front: Front, tools: Client) -> None:
    one, two = await tools.chain(3), await tools.chain(1)
    async with front.stream(tools.project, root=one[0]) as before, front.stream(tools.project, root=two[0]) as after:
        await tools.update(one[2], parentId=two[1])
        await tools.update(one[3], title="new")
        await tools.update(one[1], title="new")
        assert [event["data"]["id"] for event in await before.events(2)] == [one[2], one[1]]
        assert [event["data"]["id"] for event in await after.events(2)] == [one[2], one[3]]
    async with front.stream(tools.project) as stream:
        await tools.update(one[2], parentId=None)
        await tools.update(one[3], title="newer")
        await tools.update(one[2], title="within its tree", parentId=one[1])
        assert [top[1:] for top in tops(await stream.events(5))] == [
            (one[2], two[0]),
            (one[2], one[2]),
            (one[3], one[2]),
            (one[2], one[2]),
            (one[2], one[0]),
        ]


async def test_an_item_without_a_parent_writes_nothing_more(tools: Client) -> None:
    item, child = await tools.chain(1)
    for one in (item, child):
        await tools.claim("a", one)
        await tools.advance(one, "start", "a")
    entries = await tools.store.command("XRANGE", keys.events.key(tools.project), "-", "+")
    marked = {flat[3].decode() for _, flat in entries if b"R" in flat[4::2]}
    assert marked == {child.replace("-", "")}


@pytest.mark.parametrize("followed", [False, True])
async def test_who_goes_on_from_before_a_deletion_hears_of_it(
    front: Front, other: Front, tools: Client, followed: bool
) -> None:
    """At once, also while another listener makes the process follow the project, whose reader may be behind."""
    project = tools.project
    async with contextlib.AsyncExitStack() as stack:
        for one in (front, other) if followed else ():
            await stack.enter_async_context(one.stream(project))
        for n in range(6):
            here, there = (front, other) if n % 2 else (other, front)
            root, child = await tools.chain(1)
            names: Json = {"root": root} if n < 3 else {"id": child}
            cursor = (await here.poll(project, **names))["cursor"]
            await tools.advance(child, "complete")
            await tools.delete(root, recursive=True)
            answer: Json = {}
            for one, wait in ((here, 0), (there, 0), (there, 50_000)):
                answer = await one.poll(project, **names, after=cursor, waitMs=wait)
                if wait and answer["events"][-1]["name"] != "item.delete":  # the reader gives them as it reads them
                    answer = await one.poll(project, **names, after=answer["cursor"], waitMs=wait)
                assert answer["events"][-1]["name"] == "item.delete"
            for one in (here, there):
                async with one.stream(project, {"last-event-id": cursor}, **names) as stream:
                    assert (await stream.until("item.delete")).data["data"]["rootId"] == root
            assert (await here.get(project, **names, after=answer["cursor"])).status_code == 404


async def test_who_goes_on_from_before_a_move_hears_of_it(front: Front, tools: Client) -> None:
    root, other = await tools.add_many(2)
    cursor = (await front.poll(tools.project, root=root))["cursor"]
    await tools.update(root, parentId=other)
    answer = await front.poll(tools.project, root=root, after=cursor)
    assert tops(answer["events"]) == [("item.update", root, root)]
    refused = await front.get(tools.project, root=root, after=answer["cursor"])
    assert refused.status_code == 400
    assert "is an item with a parent; name the item at the top of its tree" in refused.text


async def test_who_goes_on_from_before_what_was_trimmed_hears_of_the_gap(front: Front, tools: Client) -> None:
    root, child = await tools.chain(1)
    cursor = (await front.poll(tools.project))["cursor"]
    await tools.delete(root, recursive=True)
    await tools.add_many(3)
    await tools.store.command("XTRIM", keys.events.key(tools.project), "MAXLEN", 1)
    asked: list[Json] = [{"root": root}, {"id": child}]
    for names in asked:
        answer = await front.poll(tools.project, **names, after=cursor)
        assert (answer["gap"], answer["events"]) == ({"reason": "trimmed"}, [])
        assert (await front.get(tools.project, **names, after=answer["cursor"])).status_code == 404
        async with front.stream(tools.project, **names, after=cursor) as stream:
            assert (await stream.until("gap")).data["reason"] == "trimmed"
    answer = await front.poll(tools.project, after="oldest")
    assert answer["gap"] == {"reason": "trimmed"}
    for names in asked:  # it has no cursor from before the deletion: a name of nothing is refused at once
        assert (await front.get(tools.project, **names, after="oldest")).status_code == 404


async def test_names_of_much_that_was_deleted_are_looked_for_once(
    front: Front, tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = await tools.add_many(30)
    cursor = (await front.poll(tools.project))["cursor"]
    await tools.delete(*roots)
    reads: list[Any] = []
    read = position.read

    async def counted(*words: Any) -> position.Slice:
        reads.append(words)
        return await read(*words)

    monkeypatch.setattr(position, "read", counted)
    asked: list[Json] = [{"root": ",".join(roots)}, {"id": ",".join(roots)}]
    for names in asked:
        reads.clear()
        answer = await front.poll(tools.project, **names, after=cursor)
        assert {event["name"] for event in answer["events"]} == {"item.delete"}
        assert len(answer["events"]) == 30
        assert len(reads) == 3  # where it begins, what is ahead, what it gets
