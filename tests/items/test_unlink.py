"""manage_dependencies delete: by id, by pair, all of an item, and readiness."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, fresh_id

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ids(tools: Client) -> list[str]:
    return await tools.add_many(4)


@pytest.mark.every_store
async def test_by_id(tools: Client, ids: list[str]) -> None:
    a, b, c, _ = ids
    first, second = await tools.link(a, b), await tools.link(c, b, type="RELATES_TO")
    assert await tools.unlink(id=first) == {"id": first, "deleted": 1}
    assert b in await tools.next(limit=9)
    assert await tools.unlink(id=first) == {"id": first, "deleted": 0, "message": "no such dependency"}
    assert await tools.unlink(id=second.upper()) == {"id": second.upper(), "deleted": 1}
    assert (await audit(tools.store, tools.project)).edges == 0


async def test_by_pair_in_this_direction_only(tools: Client, ids: list[str]) -> None:
    a, b, c, _ = ids
    await tools.link(a, b)
    await tools.link(a, b, type="RELATES_TO")
    await tools.link(b, a, type="RELATES_TO")
    await tools.link(a, c)
    assert await tools.unlink(fromItemId=a, toItemId=b) == {"fromItemId": a, "toItemId": b, "deleted": 2}
    assert (await tools.unlink(fromItemId=a, toItemId=b))["deleted"] == 0
    assert (await audit(tools.store, tools.project)).edges == 2


async def test_by_id_deletes_one_of_several_between_two_items(tools: Client, ids: list[str]) -> None:
    a, b, *_ = ids
    await tools.link(a, b)
    related = await tools.link(a, b, type="RELATES_TO")
    assert (await tools.unlink(id=related))["deleted"] == 1
    assert b not in await tools.next(limit=9)


@pytest.mark.parametrize("kind", ["BLOCKS", "IS_BLOCKED_BY"])
async def test_deleting_a_satisfied_edge_does_not_change_readiness(tools: Client, ids: list[str], kind: str) -> None:
    done, open_one, item, _ = ids
    await tools.link(open_one, item)
    edge = await (tools.link(done, item) if kind == "BLOCKS" else tools.link(item, done, type=kind))
    await tools.move(done, "complete")
    assert (await tools.unlink(id=edge))["deleted"] == 1
    assert item not in await tools.next(limit=9), "the other one still blocks it"


@pytest.mark.parametrize("kind", ["BLOCKS", "RELATES_TO", "is-blocked-by"])
async def test_by_pair_and_type(tools: Client, ids: list[str], kind: str) -> None:
    a, b, *_ = ids
    for each in ("BLOCKS", "RELATES_TO"):
        await tools.link(a, b, type=each)
    deleted = (await tools.unlink(fromItemId=a, toItemId=b, type=kind))["deleted"]
    assert deleted == (0 if kind == "is-blocked-by" else 1)
    assert (b in await tools.next(limit=9)) == (kind == "BLOCKS")


@pytest.mark.parametrize("side", ["fromItemId", "toItemId"])
async def test_all_of_an_item_in_both_directions(tools: Client, ids: list[str], side: str) -> None:
    a, b, c, d = ids
    await tools.link(a, b)
    await tools.link(b, c)
    await tools.link(b, d, type="RELATES_TO")
    await tools.link(d, b, type="IS_BLOCKED_BY", unblockAt="work")
    await tools.link(a, d)
    assert await tools.unlink(**{side: b}, deleteAll=True) == {"itemId": b, "deleted": 4}
    assert (await audit(tools.store, tools.project)).edges == 1
    assert set(await tools.next(limit=9)) == {a, b, c}


async def test_nothing_to_delete_is_no_failure(tools: Client) -> None:
    one, two = fresh_id(), fresh_id()
    assert (await tools.unlink(fromItemId=one, toItemId=two))["deleted"] == 0
    assert await tools.unlink(fromItemId=one, deleteAll=True) == {"itemId": one, "deleted": 0}


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"id": "abcd"},
        {"id": "nonsense"},
        {"fromItemId": "00000000-0000-4000-8000-000000000000"},
        {"toItemId": "00000000-0000-4000-8000-000000000000"},
        {"deleteAll": True},
        {"fromItemId": "00000000-0000-4000-8000-000000000000", "toItemId": "x"},
        {"fromItemId": fresh_id(), "toItemId": fresh_id(), "type": "NEEDS"},
    ],
)
async def test_a_malformed_delete_is_rejected(tools: Client, selector: dict[str, Any]) -> None:
    failure = await tools.refusal("manage_dependencies", operation="delete", **selector)
    assert failure.code == "VALIDATION_ERROR"


async def test_an_item_stays_waiting_while_another_blocker_is_left(tools: Client, ids: list[str]) -> None:
    a, b, c, _ = ids
    first = await tools.link(a, c)
    second = await tools.link(c, b, type="IS_BLOCKED_BY")
    await tools.unlink(id=first)
    assert c not in await tools.next(limit=9)
    await tools.unlink(id=second)
    assert c in await tools.next(limit=9)


async def test_a_satisfied_edge_leaves_no_trace_in_the_count(tools: Client, ids: list[str]) -> None:
    a, b, c, _ = ids
    satisfied = await tools.link(a, c, unblockAt="queue")
    await tools.link(b, c)
    await tools.unlink(id=satisfied)
    assert c not in await tools.next(limit=9)
    assert not (await audit(tools.store, tools.project)).differences
