"""Usage and budgets in trees, beside the model: any interleaving of reports, claims, moves, deletes and budgets."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.items.client import Client, Json
from tests.items.limits import Item
from tests.items.limits_walk import Walk
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

STEPS = 350


class Trees(Walk):
    chances = {
        "add": 3, "note": 6, "claim": 6, "take": 4, "release": 3, "move": 2, "delete": 1, "budget": 3, "together": 2,
    }  # fmt: skip
    agents = ("ann", "bob", "cap-1", "cap-2")

    async def add(self, _: str) -> None:
        if len(self.model.items) > 14:
            return
        parent = self.chance.choice(["", *(name for name in self.model.items if self.model.depth(name) < 3)])
        budget = {"tokens": self.chance.randrange(1, 120)} if self.chance.random() < 0.3 else {}
        fields: Json = ({"parentId": parent} if parent else {}) | ({"budget": budget} if budget else {})
        self.model.items[await self.tools.add(**fields)] = Item(parent=parent, budget=budget)

    async def together(self, agent: str) -> None:
        """Reports of all front-ends at once."""
        await asyncio.gather(*(self.note(agent) for _ in range(6)))

    async def take(self, agent: str) -> None:
        found = await take(self.tools, agent)
        offered = [
            name
            for name in self.model.offered("")
            if not (self.model.why_not(agent, name) or self.model.children(name))
            and all(self.model.items[above].holder in ("", agent) for above in self.model.path(name))
        ]
        if self.model.over(agent):
            assert found["outcome"] == "budget_exhausted"
        elif offered:
            assert found["itemId"] in offered
            self.model.acquire(agent, found["itemId"], [], by_id=False)
        else:
            assert found["outcome"] == "no_match"

    async def move(self, _: str) -> None:
        name, to = self.item(), self.chance.choice(["", *self.model.items])
        allowed = name not in self.model.path(to) and self.model.depth(to) + 1 + self.model.height(name) <= 3
        moved = await self.tools("manage_items", operation="update", items=[{"id": name, "parentId": to or None}])
        assert moved["updated"] == int(allowed)
        if allowed:
            self.model.items[name].parent = to

    async def delete(self, _: str) -> None:
        name = self.item()
        await self.tools.delete(name, recursive=True)
        self.model.delete(name)
        if not self.model.items:
            await self.add("")


@pytest.mark.parametrize("seed", range(3))
async def test_any_interleaving_over_three_front_ends(clients: list[Client], seed: int) -> None:
    walk = Trees(clients, random.Random(seed))
    await walk.add("")
    for number in range(STEPS):
        await walk.step()
        if number % 70 == 69:
            await walk.compare(walk.clients[0])
    assert {"success", "already_claimed", "budget_exhausted"} <= walk.seen
