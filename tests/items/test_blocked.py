"""get_blocked_items: the blocked items, their blockers, and the answer."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.toolsets.items.tools import blocked as tool
from tests.items.client import Client, Json
from tests.items.moments import lapse

pytestmark = pytest.mark.anyio

ROLES = ("blocked", "queue", "work", "review")


async def blocked(tools: Client, **options: Any) -> list[Json]:
    answer = await tools("get_blocked_items", **options)
    found: list[Json] = answer["blockedItems"]
    assert answer["total"] == len(found)
    return found


async def test_a_project_without_waiting_items_has_none(tools: Client) -> None:
    first, second = await tools.add_many(2)
    await tools.link(first, second, type="RELATES_TO")
    assert await tools("get_blocked_items") == {"blockedItems": [], "total": 0}


async def test_an_answer_shows_the_item_and_its_blockers(tools: Client) -> None:
    blocker = await tools.add("first")
    parent = await tools.add("parent")
    fields: Json = {"priority": "high", "complexity": 5, "summary": "s" * 70, "tags": "a,b", "parentId": parent}
    item = await tools.add("then", **fields)
    await tools.link(blocker, item, unblockAt="work")
    short = {
        "itemId": item,
        "title": "then",
        "role": "queue",
        "priority": "high",
        "complexity": 5,
        "blockType": "dependency",
        "blockedBy": [
            {
                "itemId": blocker,
                "title": "first",
                "role": "queue",
                "unblockAt": "work",
                "effectiveUnblockRole": "work",
                "satisfied": False,
            }
        ],
        "blockerCount": 1,
    }
    assert await blocked(tools) == [short]
    details = {"summary": "s" * 70, "tags": "a,b"}
    assert await blocked(tools, includeItemDetails=True) == [short | details]
    ancestors = {"ancestors": [{"id": parent, "title": "parent", "depth": 0}]}
    assert await blocked(tools, includeAncestors=True) == [short | ancestors]


async def test_absent_fields_are_null_empty_or_left_out(tools: Client) -> None:
    item = await tools.add("stuck", role="blocked")
    assert await blocked(tools, includeItemDetails=True, includeAncestors=True) == [
        {
            "itemId": item,
            "title": "stuck",
            "role": "blocked",
            "priority": "medium",
            "complexity": None,
            "blockType": "explicit",
            "blockedBy": [],
            "blockerCount": 0,
            "summary": "",
            "ancestors": [],
        }
    ]


@pytest.mark.every_store
async def test_explicit_ones_come_first_then_queue_work_review_each_best_first(tools: Client) -> None:
    blocker = await tools.add("blocker")
    expected: list[str] = []
    for role in ROLES:
        low = await tools.add(role=role, priority="low")
        high = await tools.add(role=role, priority="high")
        await tools.add(role=role)
        for item in (low, high):
            if role == "blocked":
                continue
            await tools.link(blocker, item)
        expected += [high, low]
    done = await tools.add(role="terminal")
    await tools.link(blocker, done)
    found = await blocked(tools)
    explicit = [entry["itemId"] for entry in found if entry["blockType"] == "explicit"]
    assert len(explicit) == 3
    assert [entry["itemId"] for entry in found if entry["itemId"] in expected] == expected
    assert [entry["role"] for entry in found] == ["blocked"] * 3 + ["queue"] * 2 + ["work"] * 2 + ["review"] * 2
    assert {entry["blockType"] for entry in found[3:]} == {"dependency"}


async def test_satisfied_blockers_are_listed_but_not_counted(tools: Client) -> None:
    done, open_one, item = await tools.add_many(3)
    await tools.link(done, item)
    await tools.link(item, open_one, type="IS_BLOCKED_BY")
    await tools.link(item, await tools.add(), type="RELATES_TO")
    await tools.link(item, await tools.add("waits for it", role="terminal"))
    await tools.move(done, "complete")
    (entry,) = await blocked(tools)
    assert entry["itemId"] == item
    assert entry["blockerCount"] == 1
    shown = {by["itemId"]: (by["role"], by["effectiveUnblockRole"], by["satisfied"]) for by in entry["blockedBy"]}
    assert shown == {done: ("terminal", "terminal", True), open_one: ("queue", "terminal", False)}
    assert all("unblockAt" not in by for by in entry["blockedBy"])
    await tools.move(open_one, "complete")
    assert await blocked(tools) == []


async def test_an_explicitly_blocked_item_lists_its_dependencies(tools: Client) -> None:
    blocker, item = await tools.add_many(2)
    await tools.link(blocker, item)
    await tools.move(item, "hold")
    (entry,) = await blocked(tools)
    assert (entry["itemId"], entry["blockType"], entry["blockerCount"]) == (item, "explicit", 1)
    await tools.move(blocker, "complete")
    (entry,) = await blocked(tools)
    assert (entry["blockType"], entry["blockerCount"]) == ("explicit", 0)
    assert [by["satisfied"] for by in entry["blockedBy"]] == [True]


@pytest.mark.parametrize("role", ROLES)
async def test_live_and_expired_claims_hide_nothing(tools: Client, role: str) -> None:
    blocker = await tools.add()
    item = await tools.add(role=role)
    await tools.link(blocker, item)
    await tools.claim("holder", item)
    await tools.claim("other", await tools.add(role=role))
    await tools.add(role=role)
    before = await blocked(tools)
    assert item in [entry["itemId"] for entry in before]
    assert len(before) == (3 if role == "blocked" else 1)
    await lapse(tools, item)
    assert await blocked(tools) == before


async def test_a_parent_restricts_the_answer_to_its_children(tools: Client) -> None:
    ids = await tools.chain(2)
    for item in ids:
        await tools.add(f"stuck below {item}", role="blocked", parentId=item)
    waits = await tools.add("waits", parentId=ids[1])
    await tools.link(ids[0], waits)
    titles = [entry["title"] for entry in await blocked(tools, parentId=ids[1])]
    assert titles == [f"stuck below {ids[1]}", "waits"]
    assert len(await blocked(tools)) == 4
    assert len(await blocked(tools, parentId="")) == 4
    assert await blocked(tools, parentId=waits) == []


# --- more than one run reads


@pytest.mark.every_store
async def test_an_item_with_many_blockers_is_shown_once_with_all_of_them(
    tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = await tools.add_many(450)
    before, hub, after = [await tools.add(complexity=number) for number in (1, 2, 3)]
    await tools.link_all((source, hub) for source in sources)
    for item in (before, after):
        await tools.link(sources[0], item)
    await tools.move(sources[0], "hold")
    await tools("advance_item", transitions=[{"itemId": item, "trigger": "complete"} for item in sources[1:100]])
    found = await blocked(tools)
    assert [entry["itemId"] for entry in found] == [sources[0], before, hub, after]
    entry = found[2]
    assert {by["itemId"] for by in entry["blockedBy"]} < set(sources)
    assert not any(by["satisfied"] for by in entry["blockedBy"]), "those that block come first"
    assert (entry["blockerCount"], entry["blockedByTotal"]) == (351, 450)
    assert [len(entry["blockedBy"]) for entry in found] == [0, 1, 20, 1]
    monkeypatch.setattr(tool, "BLOCKED_PER_ROLE", 2)
    await tools.claim(
        "holder", before
    )  # which moves it out of the class of the items behind it: none has more than two
    answer = await tools("get_blocked_items")
    assert [entry.get("blockedByTotal") for entry in answer["blockedItems"]] == [None, None, 450]
    assert answer["truncated"] is True


async def test_a_role_with_too_many_items_is_cut_after_the_best(tools: Client) -> None:
    best = await tools.add(role="blocked", priority="high", complexity=1)
    await tools.add_many(499, role="blocked")
    answer = await tools("get_blocked_items")
    assert answer["total"] == 500
    assert "truncated" not in answer
    held = await tools.add(role="blocked", priority="high")
    await tools.claim("holder", held)
    assert (await tools("get_blocked_items"))["truncated"] is True
    await tools.add_many(3, role="blocked", priority="low")
    answer = await tools("get_blocked_items")
    assert answer["total"] == 500
    assert answer["truncated"] is True
    listed = [entry["itemId"] for entry in await tools.pages("get_blocked_items", "blockedItems", limit=200)]
    assert listed[:2] == [best, held]
    assert len(set(listed)) == 500
