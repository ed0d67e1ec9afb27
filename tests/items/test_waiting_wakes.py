"""Parked claims are woken at once by everything that can make an item ready for them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator.store import ServerError
from tests.items.client import Client, Json, actor
from tests.items.moments import claim_for
from tests.items.parked import Fronts
from tests.items.selectors import take
from tests.support.between import before

pytestmark = pytest.mark.anyio

Event = Callable[[], Awaitable[Any]]
Scene = Callable[[Client], Awaitable[tuple[Json, Event, str]]]
"""Prepares a project: the selector to wait with, the event, and the item that it makes ready.

If the event creates the item, its id is ''.
"""
SCENES: list[Any] = []


def scene(prepare: Scene) -> Scene:
    SCENES.append(pytest.param(prepare, id=prepare.__name__))
    return prepare


@scene
async def created(tools: Client) -> tuple[Json, Event, str]:
    return {}, lambda: tools.add(), ""


@scene
async def created_below(tools: Client) -> tuple[Json, Event, str]:
    parent = await tools.add(role="work")
    return {"parentId": parent[:8]}, lambda: tools.add(parentId=parent), ""


@scene
async def created_in_a_role(tools: Client) -> tuple[Json, Event, str]:
    return {"role": "review"}, lambda: tools.add(role="review"), ""


@scene
async def created_in_a_tree(tools: Client) -> tuple[Json, Event, str]:
    child = {"ref": "a", "title": "a", "tags": "wanted"}
    return {"tags": "wanted"}, lambda: tools("create_work_tree", root={"title": "root"}, children=[child]), ""


@scene
async def released(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add()
    await tools.claim("holder", item)
    return {}, lambda: tools.release("holder", item), item


@scene
async def let_go_for_another_item(tools: Client) -> tuple[Json, Event, str]:
    item, other = await tools.add(), await tools.add(role="work")
    await tools.claim("holder", item)
    return {}, lambda: tools.claim("holder", other), item


@scene
async def let_go_for_a_selected_item(tools: Client) -> tuple[Json, Event, str]:
    item, _ = await tools.add(), await tools.add(role="work")
    await tools.claim("holder", item)
    return {}, lambda: take(tools, "holder", {"role": "work"}), item


@scene
async def released_while_looking_for_another(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add()
    await tools.claim("holder", item)
    return {}, lambda: take(tools, "holder", {"role": "review"}, releases=[item]), item


@scene
async def expired(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add()
    await tools.claim("holder", item)
    return {}, lambda: claim_for(tools, "holder", item, 300), item


@scene
async def expired_in_another_role(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add()
    await tools.claim("holder", item)
    await tools.advance(item, "start", "holder")
    await claim_for(tools, "holder", item, 3_000)  # by when the call is parked, even on a busy machine
    return {"role": "work"}, nothing, item


@scene
async def unblocked(tools: Client) -> tuple[Json, Event, str]:
    blocker, item = await tools.add(role="work"), await tools.add()
    await tools.link(blocker, item)
    return {}, lambda: tools.advance(blocker, "complete"), item


@scene
async def unblocked_at_a_threshold(tools: Client) -> tuple[Json, Event, str]:
    blocker, item = await tools.add(role="blocked"), await tools.add()
    await tools.link(item, blocker, type="IS_BLOCKED_BY", unblockAt="queue")
    return {"role": "queue"}, lambda: tools.advance(blocker, "cancel"), item


@scene
async def unblocked_by_a_cascade(tools: Client) -> tuple[Json, Event, str]:
    parent, item = await tools.add(role="work"), await tools.add()
    child = await tools.add(parentId=parent, role="work")
    await tools.link(parent, item)
    return {}, lambda: tools.advance(child, "complete"), item


@scene
async def unblocked_by_complete_tree(tools: Client) -> tuple[Json, Event, str]:
    parent, item = await tools.add(role="work"), await tools.add(tags="wanted")
    child = await tools.add(parentId=parent, role="work")
    await tools.link(child, item)
    return {"tags": "wanted"}, lambda: tools("complete_tree", rootId=parent), item


@scene
async def unblocked_by_a_deletion(tools: Client) -> tuple[Json, Event, str]:
    blocker, item = await tools.add(role="work"), await tools.add()
    await tools.link(blocker, item)
    return {}, lambda: tools.delete(blocker), item


@scene
async def unblocked_by_the_deletion_of_a_tree(tools: Client) -> tuple[Json, Event, str]:
    root, item = await tools.add(role="work"), await tools.add()
    await tools.link(await tools.add(parentId=root, role="work"), item)
    return {}, lambda: tools.delete(root, recursive=True), item


@scene
async def unlinked(tools: Client) -> tuple[Json, Event, str]:
    blocker, item = await tools.add(role="work"), await tools.add()
    edge = await tools.link(blocker, item)
    return {}, lambda: tools.unlink(id=edge), item


@scene
async def unlinked_from_everything(tools: Client) -> tuple[Json, Event, str]:
    blocker, item = await tools.add(role="work"), await tools.add()
    await tools.link(blocker, item)
    return {}, lambda: tools.unlink(fromItemId=item, deleteAll=True), item


@scene
async def started(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add()
    return {"role": "work"}, lambda: tools.advance(item, "start"), item


@scene
async def started_by_a_cascade(tools: Client) -> tuple[Json, Event, str]:
    parent = await tools.add(type="feature")
    child = await tools.add(parentId=parent)
    return {"role": "work", "type": "feature", "parents": "any"}, lambda: tools.advance(child, "start"), parent


@scene
async def resumed(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add()
    await tools.move(item, "block")
    return {}, lambda: tools.advance(item, "resume"), item


@scene
async def resumed_into_review(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add(role="review")
    await tools.move(item, "hold")
    return {"role": "review"}, lambda: tools.advance(item, "resume"), item


@scene
async def blocked(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add()
    return {"role": "blocked"}, lambda: tools.advance(item, "block"), item


@scene
async def reopened(tools: Client) -> tuple[Json, Event, str]:
    item = await tools.add(role="terminal")
    return {}, lambda: tools.advance(item, "reopen"), item


@scene
async def reopened_by_a_cascade(tools: Client) -> tuple[Json, Event, str]:
    parent = await tools.add(role="terminal")
    child = await tools.add(parentId=parent, role="terminal")
    return {"role": "work", "parents": "any"}, lambda: tools.advance(child, "reopen"), parent


def updated(name: str, selector: Json, fields: Json, **before: Any) -> None:
    async def prepare(tools: Client) -> tuple[Json, Event, str]:
        item = await tools.add(**before)
        return selector, lambda: tools.update(item, **fields), item

    prepare.__name__ = name
    scene(prepare)


updated("retagged", {"tags": "api,ui"}, {"tags": "db, ui"}, tags="db")
updated("retyped", {"type": "bug"}, {"type": "bug"}, type="feature")
updated("with_another_priority", {"priority": "high"}, {"priority": "high"}, priority="low")
updated("estimated", {"complexityMax": 3}, {"complexity": 3})


@scene
async def moved_below(tools: Client) -> tuple[Json, Event, str]:
    parent, item = await tools.add(role="work"), await tools.add()
    return {"parentId": parent}, lambda: tools.update(item, parentId=parent), item


@scene
async def moved_out_from_below_a_held_item(tools: Client) -> tuple[Json, Event, str]:
    root = await tools.add()
    item = await tools.add(parentId=root)
    await tools.claim("holder", root)
    return {}, lambda: tools.update(item, parentId=None), item


@scene
async def moved_with_its_parent(tools: Client) -> tuple[Json, Event, str]:
    root = await tools.add()
    parent = await tools.add(parentId=root, role="work")
    item = await tools.add(parentId=parent)
    await tools.claim("holder", root)
    return {}, lambda: tools.update(parent, parentId=None), item


async def nothing() -> None:
    """Time passes."""


async def woken(fronts: Fronts, prepare: Scene) -> tuple[str, str, float]:
    """The item that a parked call got, the expected one, and the duration."""
    tools, other = await fronts.pair()
    selector, happens, expected = await prepare(tools)
    call = await other.park("waiter", selector)
    began = time.monotonic()
    await happens()
    item = await call.item()
    assert (await tools.claim("rival", item))["outcome"] == "already_claimed"
    return item, expected, time.monotonic() - began


@pytest.mark.parametrize("prepare", SCENES)
async def test_a_waiting_call_is_woken(fronts: Fronts, prepare: Scene) -> None:
    item, expected, _ = await woken(fronts, prepare)
    assert expected in ("", item)


@pytest.mark.every_store
async def test_a_waiting_call_is_woken_on_every_store(fronts: Fronts) -> None:
    for prepare in (created, expired):
        item, expected, _ = await woken(fronts, prepare)
        assert expected in ("", item)


async def test_an_expired_claim_is_noticed_in_time(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    item = await tools.add()
    await tools.claim("holder", item)
    call = await other.park("waiter")
    began = time.monotonic()
    await tools.claim("holder", item, ttlSeconds=1)
    assert await call.item() == item
    assert 1 <= time.monotonic() - began < 30, "one second, and one between two looks; it would wait for a minute"


async def test_a_failed_sweep_of_expired_claims_is_retried(fronts: Fronts, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an operator removes a command from the store's user."""
    tools, other = await fronts.pair()
    item = await tools.add()
    await tools.claim("holder", item)
    call = await other.park("waiter")

    async def refuse() -> None:
        raise ServerError("NOPERM no permission")

    before(monkeypatch, other.store, "sweep_claims", refuse)
    await tools.claim("holder", item, ttlSeconds=1)
    assert await call.item() == item


async def test_items_without_a_match_wake_nobody(fronts: Fronts) -> None:
    tools, other = await fronts.pair()
    parent = await tools.add(role="work")
    wanted: Json = {"tags": "api", "parentId": parent, "type": "bug", "priority": "high"}
    call = await other.park("waiter", {**wanted, "complexityMax": 3})
    fitting: Json = {**wanted, "complexity": 3}
    before = other.runs["claim_next"]
    wrongs: list[Json] = [{"tags": "ui"}, {"type": "chore"}, {"priority": "low"}, {"role": "work"}]
    wrongs += [{"complexity": 4}, {"complexity": None}]
    for wrong in wrongs:
        await tools.add(**{**fitting, **wrong})
    del fitting["parentId"]
    await tools.add(**fitting)
    fitting["parentId"] = parent
    blocked, item = await tools.add(role="work"), await tools.add(**{**fitting, "tags": "ui"})
    await tools.link(blocked, item)
    await tools.update(item, tags="api")
    await tools.claim("holder", await tools.add(**{**fitting, "tags": "db"}))
    assert call.waits
    assert other.runs["claim_next"] == before, "nobody retried"
    await tools.advance(blocked, "complete", actor=actor("holder"))
    assert await call.item() == item
