"""Resources under calls at once, and if callers die. Any sequence of calls: ``test_limits_model.py``."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.items.client import Client, actor, fresh_id
from tests.items.limits import compatible
from tests.items.limits_walk import Walk
from tests.items.resources import held
from tests.items.selectors import take

pytestmark = pytest.mark.anyio


async def test_calls_at_once_never_exceed_what_there_is(clients: list[Client]) -> None:
    chance = random.Random(3)
    walk = Walk(clients, chance)
    await walk.create(60)
    agents = [f"agent-{n}" for n in range(12)]
    holds: dict[str, str] = {}

    async def act(agent: str) -> None:
        tools = walk.tools
        if agent in holds and chance.random() < 0.5:
            item = holds.pop(agent)
            if chance.random() < 0.5:
                await tools.advance(item, "complete", agent)
            await tools.release(agent, item)
            return
        claim = await take(tools, agent)
        if claim["outcome"] == "success":
            holds[agent] = claim["itemId"]

    for _ in range(40):
        await asyncio.gather(*map(act, agents))
        for agent, item in holds.items():
            others = [
                demand for other, its in holds.items() if other != agent for demand in walk.model.items[its].demands
            ]
            assert compatible(walk.model.items[item].demands, others), (agent, item)


async def test_nothing_leaks_if_the_caller_dies(dying: Client, tools: Client) -> None:
    items = [await tools.add(resources=[{"key": "a"}, {"key": f"b/{n}"}]) for n in range(3)]
    for trigger in ("release", "complete", "other"):
        claims = [{"itemId": item} for item in items]
        await dying.attempt("claim_item", actor=actor("x"), claims=claims, requestId=fresh_id())
        assert await held(tools) == {"a": "1.0.0.0", "b": "0.0.1.0", "b/2": "1.0.0.0"}
        if trigger == "release":
            await tools.release("x", items[2])
        elif trigger == "complete":
            cancelled = {"itemId": items[2], "trigger": "cancel", "actor": actor("x")}
            await dying.attempt("advance_item", transitions=[cancelled])
            await tools.advance(items[2], "reopen", "x")
            await tools.release("x", items[2])
        else:
            await tools.claim("x", await tools.add())
        assert await held(tools) == {}
