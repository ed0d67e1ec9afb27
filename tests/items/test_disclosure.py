"""Disclosure: proofs, and the holders of claims."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.store import keys
from coordinator.toolsets.actor import MAX_PROOF
from coordinator.toolsets.timestamp import iso
from tests.items.calls import Prepare, every_call
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import lapse

pytestmark = pytest.mark.anyio

PROOF = "eyJhbGciOiJFZERTQSJ9.c2VjcmV0LXByb29m"


async def everything_stored(tools: Client) -> str:
    """All of a project's keys and values as one text."""
    client: Any = tools.store.client
    readers = {
        b"string": lambda key: client.get(key),
        b"hash": lambda key: client.hgetall(key),
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"stream": lambda key: client.xrange(key),
    }
    every_key = client.scan_iter(match=keys.project_prefix(tools.project) + b"*")
    return repr([(key, await readers[await client.type(key)](key)) async for key in every_key])


@every_call
async def test_a_proof_is_neither_echoed_nor_stored(tools: Client, prepare: Prepare) -> None:
    tool, arguments = await prepare(tools)
    who = actor("agent", parent="boss", proof=PROOF)
    if tool == "advance_item":
        arguments["transitions"] = [{**each, "actor": who} for each in arguments["transitions"]]
    else:
        arguments["actor"] = who
    answer = await tools.answer(tool, **arguments, requestId=fresh_id())
    assert PROOF not in answer.decode()
    assert b"proof" not in answer
    stored = await everything_stored(tools)
    assert "fc:" in stored
    assert PROOF not in stored


async def test_the_proof_of_a_rejected_actor_is_not_shown(tools: Client) -> None:
    item = await tools.add()
    proof = PROOF * (MAX_PROOF // len(PROOF) + 1)
    for who in ({"id": "", "kind": "user", "proof": PROOF}, {"id": "a", "kind": "user", "proof": proof}):
        call = {"claims": [{"itemId": item}], "actor": who, "requestId": fresh_id()}
        assert PROOF not in (await tools.refusal("claim_item", **call)).message
        transition = {"itemId": item, "trigger": "start", "actor": who}
        answer = await tools.answer("advance_item", transitions=[transition])
        assert PROOF not in answer.decode()


@pytest.mark.parametrize("expired", [False, True])
async def test_the_holder_of_a_claim_is_not_disclosed(tools: Client, expired: bool) -> None:
    parent = await tools.add("parent")
    item, other = await tools.add("item", parentId=parent), await tools.add("other", parentId=parent)
    await tools.link(item, other)
    await tools.claim("the-holder", item)
    if expired:
        await lapse(tools, item)
    calls: list[tuple[str, Json]] = [
        ("query_items", {"operation": "get", "id": item, "includeAncestors": True}),
        ("get_next_item", {"includeClaimed": True, "includeDetails": True, "includeAncestors": True, "limit": 20}),
        ("get_next_item", {"parentId": parent}),
        ("manage_items", {"operation": "update", "items": [{"id": item, "title": "new"}]}),
        ("manage_items", {"operation": "create", "items": [{"title": "below", "parentId": item}]}),
        ("manage_items", {"operation": "delete", "ids": [item]}),
        ("manage_dependencies", {"operation": "delete", "fromItemId": item, "deleteAll": True}),
        ("advance_item", {"transitions": [{"itemId": other, "trigger": "block"}]}),
    ]
    if not expired:
        calls += [
            ("claim_item", {"claims": [{"itemId": item}], "actor": actor("b"), "requestId": fresh_id()}),
            ("claim_item", {"releases": [{"itemId": item}], "actor": actor("b"), "requestId": fresh_id()}),
            ("advance_item", {"transitions": [{"itemId": item, "trigger": "start", "actor": actor("b")}]}),
            ("advance_item", {"transitions": [{"itemId": item, "trigger": "start"}]}),
        ]
    for tool, arguments in calls:
        answer = (await tools.answer(tool, **arguments)).decode()
        assert "the-holder" not in answer
        assert "claimedBy" not in answer


async def test_history_names_who_has_changed_an_item(tools: Client) -> None:
    """So it names a holder that has begun the work, though nothing there is about claims."""
    since, item = iso(await tools.store.time()), await tools.add("item")
    await tools.claim("the-holder", item)
    assert "the-holder" not in (await tools.answer("query_items", operation="get", id=item)).decode()
    await tools.advance(item, "start", "the-holder")
    written = {"itemId": item, "key": "k", "role": "work", "body": "b", "actor": actor("the-holder")}
    await tools("manage_notes", operation="upsert", notes=[written])
    (told,) = (await tools.get(item))["transitions"]
    (later,) = (await tools("get_context", since=since))["recentTransitions"]
    (note,) = (await tools("query_notes", operation="list", itemId=item))["notes"]
    assert [one["actor"]["id"] for one in (told, later, note)] == ["the-holder"] * 3
