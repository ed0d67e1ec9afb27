"""Lists of claims, and of items that are held back."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.store import Store
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.base import BaseStore
from coordinator.toolsets.items.store.boards.claim_lists import Claims, read_claims, read_held_back
from coordinator.toolsets.items.store.measures.project_state import read_project_state
from tests.items.client import Client, actor, fresh_id
from tests.items.moments import lapse, server_time, set_state

pytestmark = pytest.mark.anyio


def agents_of(found: Claims) -> list[str]:
    return [claim.row.holder for claim in found.claims]


async def claim(tools: Client, agent: str, item: str, **fields: Any) -> None:
    await tools("claim_item", actor=actor(agent), claims=[{"itemId": item, **fields}], requestId=fresh_id())


async def test_claims_by_their_end_and_by_time_held(tools: Client, store: Store, project: str) -> None:
    ids = await tools.add_many(5)
    now = await server_time(store)
    for n, (item, minutes) in enumerate(zip(ids, (50, 10, 30, 20, 40), strict=True)):
        await claim(tools, f"a{n}", item, ttlSeconds=minutes * 60)
        await set_state(tools, item, first=now - (n * 7 % 5) * 60_000)
    ending = await read_claims(store, project, "ending")
    assert agents_of(ending) == ["a1", "a3", "a2", "a4", "a0"]
    assert (ending.live, ending.total, ending.expiring, ending.looked) == (5, 5, 0, 5)
    held = await read_claims(store, project, "held")
    assert agents_of(held) == ["a2", "a4", "a1", "a3", "a0"]
    assert (held.total, held.claims[0].known_as) == (5, "s-")
    pages = [await read_claims(store, project, "held", offset, 2) for offset in (0, 2, 4, 6)]
    assert [agents_of(page) for page in pages] == [["a2", "a4"], ["a1", "a3"], ["a0"], []]
    pages = [await read_claims(store, project, "ending", offset, 2) for offset in (0, 2, 4, 6)]
    assert [agents_of(page) for page in pages] == [["a1", "a3"], ["a2", "a4"], ["a0"], []]


async def test_expiring_and_expired_claims(tools: Client, store: Store, project: str) -> None:
    soon, late, over = await tools.add_many(3)
    await claim(tools, "soon", soon, ttlSeconds=50)
    await claim(tools, "late", late, ttlSeconds=600)
    await claim(tools, "over", over)
    await lapse(tools, over)
    found = await read_claims(store, project, "expiring")
    assert (agents_of(found), found.live, found.expiring, found.total) == (["soon"], 2, 1, 1)
    assert agents_of(await read_claims(store, project, "ending")) == ["soon", "late"]
    assert agents_of(await read_claims(store, project, "held")) == ["soon", "late"]


async def test_a_list_without_claims_is_empty(tools: Client, store: Store, project: str) -> None:
    assert agents_of(await read_claims(store, project, "ending")) == []
    late, over = await tools.add_many(2)
    await claim(tools, "late", late, ttlSeconds=600)
    assert agents_of(await read_claims(store, project, "expiring")) == []
    await claim(tools, "over", over)
    await lapse(tools, over)
    assert agents_of(await read_claims(store, project, "expiring")) == []


async def test_a_claim_without_a_sign_of_life_for_half_its_ttl_is_stalled(
    tools: Client, store: Store, project: str
) -> None:
    ids = await tools.add_many(3)
    now = await server_time(store)
    for n, item in enumerate(ids):
        await claim(tools, f"a{n}", item, ttlSeconds=600)
        ago = (301_000 + n * 1000, 302_000, 290_000)[n]
        await set_state(tools, item, claimed=now - ago, expires=now - ago + 600_000)
    await set_state(tools, ids[1], modified=now - 200_000)
    found = await read_claims(store, project, "stalled")
    assert (agents_of(found), found.total, found.looked) == (["a0"], 1, 3)
    assert found.claims[0].sign == now - 301_000
    assert [one.stalled for one in (await read_claims(store, project, "ending")).claims] == [True, False, False]
    await claim(tools, "a0", ids[0], ttlSeconds=600)  # renewed
    assert (await read_claims(store, project, "stalled")).claims == []


async def test_hundreds_of_agents_are_one_read_a_page(tools: Client, store: Store, project: str) -> None:
    ids = await tools.add_many(500)
    for n, item in enumerate(ids):
        await claim(tools, f"a{n:03}", item)
    shown: list[str] = []
    for offset in range(0, 500, 100):
        shown += agents_of(await read_claims(store, project, "held", offset))
    assert shown == [f"a{n:03}" for n in range(500)]


async def test_items_held_back(store: Store, project: str) -> None:
    tools = Client(store, project, settings=Settings(attempts=Attempts(max=2, backoff_seconds=3600)))
    plain = Client(store, project)
    left, waiting, failing, once = await tools.add_many(4)
    for client, item, times in ((plain, left, 1), (plain, waiting, 1), (plain, failing, 1), (tools, failing, 1)):
        for _ in range(times):
            await claim(client, "a", item)
            if await client.role(item) == "queue":
                await client.advance(item, "start", actor=actor("a"))
            await client(
                "claim_item", actor=actor("a"), requestId=fresh_id(), releases=[{"itemId": item, "reason": "failed"}]
            )
    blocker = await tools.add()
    await tools.link(blocker, waiting)
    await claim(tools, "a", once)
    await tools.advance(once, "start", actor=actor("a"))
    await tools("claim_item", actor=actor("a"), requestId=fresh_id(), releases=[{"itemId": once, "reason": "failed"}])
    now = await server_time(store)
    found = await read_held_back(store, project, "abandoned")
    assert [row.title for row in found.rows] == ["0"]  # the next agent gets it, as it does not get 1 and 3
    assert found.total == (await read_project_state(store, project)).abandoned == 1
    assert all(now - 60_000 < time <= now for time in found.times)
    found = await read_held_back(store, project, "abandoned", 1, 1)
    assert (found.rows, found.total) == ([], 1)
    found = await read_held_back(store, project, "quarantined")
    assert ([row.title for row in found.rows], found.total, found.rows[0].quarantined) == (["2"], 1, True)
    found = await read_held_back(store, project, "retries")
    assert ([row.title for row in found.rows], found.total) == (["3"], 1)
    assert found.times == [found.rows[0].held_until]
    await BaseStore(store, Settings(), SchemaSource()).expire(project)
