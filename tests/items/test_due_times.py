"""What items say about time: from when they can be ready, and when they are due."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.measures.items import MeasureStore
from coordinator.toolsets.timestamp import iso
from tests.items.client import Client, Json, counts
from tests.items.moments import ms, server_time
from tests.items.recurrence import come
from tests.items.selectors import take
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

LATE = 0.25
"""Seconds."""


@pytest.fixture
def tools(store: Store, project: str) -> Client:
    return Client(store, project)


async def must_be_sound(tools: Client) -> None:
    assert (await audit(tools.store, tools.project)).differences == []


@pytest.mark.every_store
@pytest.mark.parametrize("wait_ms", [0, 50])
async def test_selectors_do_not_find_an_item_before_its_time(tools: Client, wait_ms: int) -> None:
    item = await tools.add(notBefore="+1h")
    found = await take(tools, "early", wait_ms=wait_ms)
    assert found["outcome"] == "no_match"
    assert found["heldBack"] == counts(notBefore=1)
    assert await tools.next() == []
    await must_be_sound(tools)
    await come(tools, item)
    assert (await take(tools, "late"))["itemId"] == item
    await must_be_sound(tools)


async def test_an_item_shows_from_when_it_is_ready(tools: Client) -> None:
    at = (await server_time(tools.store)) + 3_600_000
    item = await tools.add(notBefore=iso(at))
    assert (await tools.get(item))["notBefore"] == iso(at)
    assert (await tools("get_context", itemId=item))["notBefore"] == iso(at)
    status = await tools("get_next_status", itemId=item)
    assert (status["recommendation"], status["notBefore"]) == ("Blocked", iso(at))
    assert "attempts" not in await tools.get(item)
    await come(tools, item)
    assert ms((await tools.get(item))["notBefore"]) <= await server_time(tools.store)
    assert (await tools("get_next_status", itemId=item))["recommendation"] == "Ready"


async def test_a_claim_by_id_succeeds_and_says_that_it_is_not_ready(tools: Client) -> None:
    item = await tools.add(notBefore="+1h")
    for _ in range(2):  # a claim, and its renewal
        claim = await tools.claim("early", item)
        assert (claim["outcome"], claim["ready"]) == ("success", False)
        assert "not ready before" in claim["reason"]
        await must_be_sound(tools)
    assert (await tools.advance(item, "start", "early"))["applied"]
    await must_be_sound(tools)
    await tools.release("early", item)
    assert (await take(tools, "other"))["heldBack"]["notBefore"] == 1  # in work, too
    await must_be_sound(tools)


@pytest.mark.parametrize(
    ("text", "after"), [("+30m", 1_800), ("+1h30m", 5_400), ("+1w2d3h4m5s", 788_645), (" +0s ", 0)]
)
async def test_a_time_can_be_given_from_now_on(tools: Client, text: str, after: int) -> None:
    before = await server_time(tools.store)
    item = await tools.add(notBefore=text, dueAt=text)
    shown, now = await tools.get(item), await server_time(tools.store)
    assert shown["notBefore"] == shown["dueAt"]
    assert before <= ms(shown["dueAt"]) - after * 1_000 <= now


@pytest.mark.parametrize(
    "text",
    [
        "+",
        "+30",
        "30m",
        "+30x",
        "+-1m",
        "+\uff13m",
        "+4000d",
        "soon",
        "2026-01-01",
        "1999-12-31T23:59:59Z",
        "2100-01-01T00:00Z",
    ],
)
@pytest.mark.parametrize("field", ["notBefore", "dueAt"])
async def test_other_times_are_refused(tools: Client, field: str, text: str) -> None:
    for result in (
        await tools.create({"title": "x", field: text}),
        await tools.update(await tools.add(), **{field: text}),
    ):
        (failure,) = result["failures"]
        assert failure["error"].startswith(f"{field}: must be"), failure
    refused = await tools.refusal("create_work_tree", root={"title": "x", field: text})
    assert refused.message.startswith(f"root.{field}: must be")


async def test_an_update_moves_and_clears_the_time(tools: Client) -> None:
    item = await tools.add()
    for given, ready in (("+1h", False), ("+2h", False), ("2020-01-01T00:00:00Z", True), ("+1h", False), (None, True)):
        assert (await tools.update(item, notBefore=given))["updated"] == 1
        assert (await tools.next() == [item]) == ready, given
        await must_be_sound(tools)
    assert "notBefore" not in await tools.get(item)


async def test_a_tree_can_say_when(tools: Client) -> None:
    made = await tools(
        "create_work_tree",
        root={"title": "root", "notBefore": "+1h"},
        children=[{"ref": "a", "title": "a", "notBefore": "+1h", "dueAt": "+2h"}, {"ref": "b", "title": "b"}],
        deps=[{"from": "b", "to": "a"}],
    )
    later, first = (child["id"] for child in made["children"])
    assert await tools.next() == [first]
    await tools.move(first, "complete")
    assert await tools.next() == []
    await come(tools, later)
    assert await tools.next() == [later]
    await must_be_sound(tools)


async def test_an_item_that_waits_for_a_dependency_too_waits_for_both(tools: Client) -> None:
    blocker, item = await tools.add("blocker"), await tools.add(notBefore="+1h")
    await tools.link(blocker, item)
    await come(tools, item)
    assert await tools.next() == [blocker]
    await tools.move(blocker, "complete")
    assert await tools.next() == [item]
    await must_be_sound(tools)


async def test_a_terminal_item_waits_for_nothing_until_it_is_reopened(tools: Client) -> None:
    item = await tools.add(notBefore="+1h", dueAt="+1h")
    await tools.move(item, "complete")
    await must_be_sound(tools)
    assert (await MeasureStore(tools.store).measure(tools.project)).postponed == 0
    await tools.move(item, "reopen")
    assert await tools.next() == []
    await must_be_sound(tools)
    await tools.move(item, "block")
    await must_be_sound(tools)
    await tools.move(item, "resume")
    await must_be_sound(tools)
    await tools.delete(item)
    await must_be_sound(tools)


async def measured(tools: Client) -> tuple[int, int]:
    found = await MeasureStore(tools.store).measure(tools.project)
    return found.postponed, found.overdue


async def test_overdue_items_are_counted_while_they_are_open(tools: Client) -> None:
    past, future = iso(await server_time(tools.store) - 1), "+1h"
    late = await tools.add(dueAt=past)
    await tools.add(dueAt=future)
    assert (await tools.get(late))["overdue"] is True
    assert await measured(tools) == (0, 1)
    await tools.update(late, dueAt=future)
    assert await measured(tools) == (0, 0)
    await tools.update(late, dueAt=past)
    await tools.move(late, "complete")
    assert await measured(tools) == (0, 0)
    assert "overdue" not in await tools.get(late)
    await tools.move(late, "reopen")
    assert await measured(tools) == (0, 1)
    await tools.update(late, dueAt=None)
    assert await measured(tools) == (0, 0)
    await must_be_sound(tools)


async def ended(tools: Client) -> None:
    """Ends what a client does beside its calls."""
    assert tools.drain is not None
    await tools.drain()


async def parked(tools: Client, agent: str) -> asyncio.Task[tuple[Json, int]]:
    """A claim that waits for an item; its answer, and the store's time then."""

    async def wait() -> tuple[Json, int]:
        found = await take(tools, agent, wait_ms=20_000)
        return found, await server_time(tools.store)

    task = asyncio.create_task(wait())
    await wait_until(lambda: tools.store.command("EXISTS", keys.waiting.key(tools.project)))
    return task


@pytest.mark.parametrize("after_ms", [5, 400, 1_300])
async def test_a_waiting_claim_gets_the_item_on_time(tools: Client, store: Store, project: str, after_ms: int) -> None:
    """Whether or not the process that holds the call has looked since the item came."""
    other = Client(store, project)
    await tools.add()
    await take(tools, "first")  # so that the answer's schema is known
    try:
        waits = await parked(tools, "waits")
        at = await server_time(store) + after_ms
        item = await other.add(notBefore=iso(at))
        found, now = await waits
        assert found["itemId"] == item
        assert at <= now <= at + LATE * 1_000
    finally:
        await ended(other)
        await ended(tools)


async def test_the_later_of_backoff_and_not_before_counts(store: Store, project: str) -> None:
    from tests.items.attempts import begun, client

    tools = client(store, project, most=9, backoff=600)
    item = await begun(tools)
    await tools.release("lost", item, reason="failed")
    until = (await tools.get(item))["attempts"]["notBefore"]
    held: Any = (await take(tools, "next"))["heldBack"]
    assert held == counts(backoff=1)
    await tools.update(item, notBefore="+1h")
    await must_be_sound(tools)
    assert (await take(tools, "next"))["heldBack"] == counts(notBefore=1)
    assert "notBefore" not in (await tools.get(item))["attempts"]
    await tools.update(item, notBefore="+1m")
    assert (await tools.get(item))["attempts"]["notBefore"] == until
    await tools.update(item, retryBackoffSeconds=0)
    await must_be_sound(tools)
    assert (await take(tools, "next"))["heldBack"]["notBefore"] == 1
    await come(tools, item)
    assert (await take(tools, "next"))["itemId"] == item
    await must_be_sound(tools)
