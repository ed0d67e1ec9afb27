"""Every mutating call of the toolset, each prepared to have effects and refusals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.store import keys
from tests.items.client import Client, Json, actor, fresh_id

Prepared = tuple[str, Json]
"""A tool and its arguments, without actor and request id."""
Prepare = Callable[[Client], Awaitable[Prepared]]


async def create(tools: Client) -> Prepared:
    parent = await tools.add("parent")
    items = [{"title": "a"}, {"title": ""}, {"title": "b", "parentId": parent}]
    return "manage_items", {"operation": "create", "items": items, "parentId": parent}


async def create_below_prefix(tools: Client) -> Prepared:
    parent = await tools.add("parent")
    return "manage_items", {"operation": "create", "items": [{"title": "a"}], "parentId": parent[:8]}


async def update(tools: Client) -> Prepared:
    item = await tools.add()
    items = [{"id": item[:8], "title": "x"}, {"id": fresh_id(), "title": "y"}, {"id": item, "role": "work"}]
    return "manage_items", {"operation": "update", "items": items}


async def delete(tools: Client) -> Prepared:
    chain = await tools.chain(1)
    ids = [chain[0][:8], fresh_id(), (await tools.add())[:8]]
    return "manage_items", {"operation": "delete", "ids": ids, "recursive": True}


async def link(tools: Client) -> Prepared:
    a, b = await tools.add_many(2)
    return "manage_dependencies", {"operation": "create", "dependencies": [{"fromItemId": a[:8], "toItemId": b}]}


async def failing_link(tools: Client) -> Prepared:
    a, b = await tools.add_many(2)
    return "manage_dependencies", {"operation": "create", "pattern": "linear", "itemIds": [a, b, a]}


async def unlink_by_id(tools: Client) -> Prepared:
    a, b = await tools.add_many(2)
    return "manage_dependencies", {"operation": "delete", "id": await tools.link(a, b)}


async def unlink_by_pair(tools: Client) -> Prepared:
    a, b = await tools.add_many(2)
    await tools.link(a, b)
    return "manage_dependencies", {"operation": "delete", "fromItemId": a[:8], "toItemId": b[:8]}


async def unlink_all(tools: Client) -> Prepared:
    a, b, c = await tools.add_many(3)
    await tools.link(a, b)
    await tools.link(b, c)
    return "manage_dependencies", {"operation": "delete", "fromItemId": b[:8], "deleteAll": True}


async def advance(tools: Client) -> Prepared:
    parent = await tools.add()
    item, waits = await tools.add_many(2, parentId=parent)
    await tools.link(item, waits)
    steps = [(item[:8], "start"), (waits, "start"), (item, "complete"), (item, "resume"), ("0000", "start")]
    who = actor("agent", parent="boss")
    return "advance_item", {
        "transitions": [{"itemId": each, "trigger": trigger, "actor": who} for each, trigger in steps]
    }


async def claim(tools: Client) -> Prepared:
    held, mine, free = await tools.add_many(3)
    await tools.claim("rival", held)
    await tools.claim("agent", mine)
    wanted = [{"itemId": item} for item in (held, free[:8], fresh_id())]
    return "claim_item", {"claims": wanted, "releases": [{"itemId": mine}, {"itemId": free}]}


async def advance_with_results(tools: Client) -> Prepared:
    first, second, third = await tools.add_many(3)
    await tools.link(first, third)
    await tools.advance(second, "complete", result="before")
    steps: list[tuple[str, str, Any]] = [
        (first, "start", "too soon"), (first[:8], "complete", {"a": [1]}), (second, "cancel", 1), (third, "cancel", "x")
    ]  # fmt: skip
    who = actor("agent")
    transitions = [
        {"itemId": item, "trigger": trigger, "result": value, "actor": who} for item, trigger, value in steps
    ]
    return "advance_item", {"transitions": transitions}


async def claim_with_all(tools: Client) -> Prepared:
    blocker, item = await tools.add_many(2)
    await tools.link(blocker, item)
    await tools.advance(blocker, "complete", result={"a": [1]})
    note = {"itemId": item, "key": "plan", "role": "queue", "body": "text"}
    await tools("manage_notes", operation="upsert", notes=[note])
    return "claim_item", {"claims": [{"itemId": item[:8]}], "include": ["item", "notes", "results"]}


async def claim_the_next(tools: Client) -> Prepared:
    done, after, free = await tools.add_many(3)
    await tools.link(done, after)
    claim = await tools.claim("agent", done)
    await tools.advance(done, "start", "agent")
    released = {"itemId": done, "fenceToken": claim["fenceToken"], "reason": "done", "result": {"a": [1]}}
    more = {"itemId": free[:8], "reason": "untouched"}
    return "claim_item", {"claims": [{"selector": {}}], "releases": [released, more], "start": True}


async def write_notes(tools: Client) -> Prepared:
    item = await tools.add()
    await tools("manage_notes", operation="upsert", notes=[{"itemId": item, "key": "plan", "role": "queue"}])
    notes = [
        {"itemId": item[:8], "key": "plan", "role": "queue", "body": "new"},
        {"itemId": item, "key": "log", "role": "work", "body": "text"},
        {"itemId": fresh_id(), "key": "plan", "role": "queue"},
    ]
    return "manage_notes", {"operation": "upsert", "notes": notes}


async def delete_notes(tools: Client) -> Prepared:
    item = await tools.add()
    notes = [{"itemId": item, "key": key, "role": "queue"} for key in ("plan", "log")]
    made = await tools("manage_notes", operation="upsert", notes=notes)
    ids = [made["notes"][0]["id"], fresh_id()]
    return "manage_notes", {"operation": "delete", "ids": ids, "itemId": item[:8]}


async def create_tree(tools: Client) -> Prepared:
    parent = await tools.add()
    children = [{"ref": "a", "title": "a"}, {"ref": "b", "title": "b"}]
    call = {"root": {"title": "root"}, "children": children, "deps": [{"from": "a", "to": "b"}], "parentId": parent[:8]}
    return "create_work_tree", {**call, "notes": [{"itemRef": "b", "key": "plan", "role": "queue", "body": "text"}]}


async def complete_tree(tools: Client) -> Prepared:
    root = await tools.add()
    first, second, held = await tools.add_many(3, parentId=root)
    await tools.link(second, first)
    await tools.claim("rival", held)
    return "complete_tree", {"rootId": root[:8], "includeRoot": True}


async def complete_items(tools: Client) -> Prepared:
    ids = await tools.add_many(60)
    return "complete_tree", {"itemIds": [ids[0][:8], *ids[1:]], "trigger": "cancel"}


CALLS = [
    create,
    create_below_prefix,
    update,
    delete,
    link,
    failing_link,
    unlink_by_id,
    unlink_by_pair,
    unlink_all,
    advance,
    claim,
    advance_with_results,
    claim_with_all,
    claim_the_next,
    write_notes,
    delete_notes,
    create_tree,
    complete_tree,
    complete_items,
]
every_call = pytest.mark.parametrize("prepare", CALLS, ids=lambda call: call.__name__)


def keyed(prepared: Prepared, request_id: str, agent: str = "agent") -> Json:
    """The arguments with an actor and a request id."""
    tool, arguments = prepared
    who = {} if tool == "advance_item" else {"actor": actor(agent)}
    return {**arguments, **who, "requestId": request_id}


async def contents(tools: Client) -> dict[str, Any]:
    """All of a project's keys but those of requests."""
    client = tools.store.client
    prefix = keys.project_prefix(tools.project)
    found = {}
    async for key in client.scan_iter(match=prefix + b"*"):
        if not key.startswith(prefix + b"q:"):
            found[key] = await client.dump(key)
    return found


async def all_gone(tools: Client) -> None:
    """Deletes every item, so that nothing can be answered from the current state."""
    prefix = keys.item.key(tools.project, "")
    ids = [key.removeprefix(prefix).decode() async for key in tools.store.client.scan_iter(match=prefix + b"*")]
    if ids:
        await tools.delete(*ids, recursive=True)


async def events(tools: Client) -> int:
    """How many changes the project has seen."""
    return int(await tools.store.command("XLEN", keys.events.key(tools.project)))


async def events_of_one(elsewhere: Client, prepare: Prepare) -> int:
    """How many changes one such call makes, measured in another project."""
    tool, arguments = await prepare(elsewhere)
    before = await events(elsewhere)
    await elsewhere(tool, **keyed((tool, arguments), fresh_id()))
    return await events(elsewhere) - before
