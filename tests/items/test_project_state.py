"""A project in numbers, and lists of agents with what they hold."""

from __future__ import annotations

import pytest

from coordinator.store import Store, keys
from coordinator.toolsets.items.store.agents.presence import list_agents
from coordinator.toolsets.items.store.measures.project_state import read_project_state
from tests.items.client import Client, actor, fresh_id
from tests.items.moments import lapse, next_ms, server_time, set_state
from tests.items.parked import Fronts

pytestmark = pytest.mark.anyio


async def claim(tools: Client, agent: str, item: str, **fields: object) -> None:
    call = {"actor": actor(agent), "claims": [{"itemId": item, **fields}], "requestId": fresh_id()}
    assert (await tools("claim_item", **call))["claimResults"][0]["outcome"] == "success"


async def test_an_empty_project(store: Store, project: str) -> None:
    found = await read_project_state(store, project)
    assert found[1:] == ((0, 0, 0, 0, 0), 0, "", *[0] * 14)
    assert found.total == 0


async def test_each_item_counts_where_it_is(tools: Client, store: Store, project: str) -> None:
    first = await tools.add("first", priority="low")
    await next_ms(store)
    await tools.add("second", priority="high")
    special = await tools.add("only for some", requires=["gpu"])
    waits, done, left, soon = [await tools.add(name) for name in ("waits", "done", "left", "soon")]
    await tools.link(first, waits)
    await tools.move(done, "start", "complete")
    await claim(tools, "gone", left)
    await tools.advance(left, "start", "gone")
    await lapse(tools, left)
    await tools.claims("other", [{"selector": {"tags": "none"}}])  # puts back what has expired
    await claim(tools, "busy", soon, ttlSeconds=40)
    found = await read_project_state(store, project)
    assert found.roles == (5, 1, 0, 1, 0)
    assert (found.ready, found.waiting, found.claims, found.expiring, found.abandoned) == (3, 1, 1, 1, 1)
    assert found.oldest == first.replace("-", "")
    assert found.oldest_created <= found.changed <= found.now
    assert found.agents == 3
    assert found.agent_seen <= found.now < found.agent_seen + 60_000
    await tools.delete(first, special)
    assert (await read_project_state(store, project)).oldest != first.replace("-", "")


async def test_all_agents_by_when_they_were_seen(tools: Client, store: Store, project: str) -> None:
    ids = await tools.add_many(4)
    now = await server_time(store)
    for n, item in enumerate(ids):
        await claim(tools, f"Agent-{n}", item)
        await store.command("ZADD", keys.agent_seen.key(project), now - n * 1000, f"Agent-{n}")
    pages = [await list_agents(store, project, "seen", offset=offset, limit=3) for offset in (0, 3)]
    assert [[one.id for one in page.agents] for page in pages] == [["Agent-0", "Agent-1", "Agent-2"], ["Agent-3"]]
    assert (pages[0].known, pages[0].holding, pages[0].total, pages[0].more) == (4, 4, 4, False)
    assert [row and row.id for row in pages[1].items] == [ids[3].replace("-", "")]
    named = await list_agents(store, project, "seen", "NT-2")
    assert ([one.id for one in named.agents], named.total, named.known) == (["Agent-2"], 1, 4)
    assert (await list_agents(store, project, "seen", "%a")).total == 0


async def test_those_that_hold_and_those_that_wait(tools: Client, store: Store, project: str, fronts: Fronts) -> None:
    ids = await tools.add_many(3, tags="taken")
    now = await server_time(store)
    for n, item in enumerate(ids):
        await claim(tools, f"h{n}", item)
        await set_state(tools, item, first=now - (n * 2 % 3) * 60_000)
    front = await fronts.make()
    parked = [await front.park(f"w{n}", {"tags": f"t{n % 2}"}) for n in range(4)]
    holding = await list_agents(store, project, "holding")
    assert [one.id for one in holding.agents] == ["h1", "h2", "h0"]
    assert holding.agents[0].holds_since == now - 120_000
    assert [row and row.holder for row in holding.items] == ["h1", "h2", "h0"]
    waiting = await list_agents(store, project, "waiting")
    assert [one.id for one in waiting.agents] == ["w0", "w1", "w2", "w3"]
    assert (waiting.total, waiting.waiting, waiting.holding, waiting.items) == (4, 4, 3, [False] * 4)
    page = await list_agents(store, project, "waiting", offset=1, limit=2)
    assert [one.id for one in page.agents] == ["w1", "w2"]
    assert [one.id for one in (await list_agents(store, project, "holding", "h2")).agents] == ["h2"]
    assert (await read_project_state(store, project)).parked == 4
    for one in parked:
        await one.leave()
