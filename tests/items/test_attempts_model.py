"""Attempts, back-off and quarantine of one item with a review, beside the model: two agents, any calls, and time."""

from __future__ import annotations

import random

import pytest

from coordinator.store import keys
from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.items.limits import Item
from tests.items.limits_walk import Walk

pytestmark = pytest.mark.anyio

STEPS = 600


class Attempts(Walk):
    chances = {"claim": 10, "take": 6, "release": 8, "lapse": 5, "backoff": 3, "start": 3, "advance": 4}
    agents = ("ann", "bob")
    triggers = ("start", "block")

    async def step(self) -> None:
        await super().step()
        if self.noticed:
            (name,) = self.model.items
            await self.compare_item(self.tools, name)
            self.seen.add(self.model.items[name].held)

    async def start(self, agent: str) -> None:
        await self.change(agent, self.item(), "start")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(2, 12))])
async def test_any_sequence_of_calls_follows_the_model(clients: list[Client], seed: int) -> None:
    walk = Attempts(clients, random.Random(seed))
    name = await walk.tools.add(type="reviewed")
    walk.model.items[name] = Item(reviewed=True)
    for _ in range(STEPS):
        await walk.step()
    await walk.notice()
    assert {"backoff", "quarantine"} <= walk.seen
    store, project = walk.tools.store, walk.tools.project
    assert (await audit(store, project)).differences == []
    await walk.tools.delete(name)
    assert (await audit(store, project)).differences == []
    assert not await store.command("EXISTS", keys.retries.key(project), keys.quarantined.key(project))
