"""Sums of usage and budgets beside a plain model: any interleaving of reports, claims, moves, deletes and budgets."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import msgspec
import pytest

from coordinator.settings.sections.budgets import Budgets, Limits, Periods
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.store.usage import read_usage
from tests.items.client import SETTINGS, Client, Json, actor, fresh_id
from tests.items.quantities import NAMES, NONE, Sum, plus, shown
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

STEPS = 350
AGENTS = ("ann", "bob", "cap-1", "cap-2")
CAP = 400
"""Tokens of each agent whose name begins with cap."""
MODELS = ("", "m1", "m2")


@dataclass
class Item:
    parent: str
    own: Sum = NONE
    gone: Sum = NONE
    """Of deleted items below it."""
    budget: Json = field(default_factory=dict)
    holder: str = ""


@dataclass
class Model:
    items: dict[str, Item] = field(default_factory=dict)
    agents: dict[str, Sum] = field(default_factory=dict)
    models: dict[str, Sum] = field(default_factory=dict)
    total: Sum = NONE

    def children(self, of: str) -> list[str]:
        return [name for name, one in self.items.items() if one.parent == of]

    def depth(self, name: str) -> int:
        return self.depth(self.items[name].parent) + 1 if name else -1

    def height(self, name: str) -> int:
        return max((self.height(child) + 1 for child in self.children(name)), default=0)

    def above(self, name: str) -> list[str]:
        """It and what is above it."""
        return [name, *self.above(self.items[name].parent)] if name else []

    def subtree(self, name: str) -> Sum:
        one = self.items[name]
        found = plus(one.own, one.gone)
        for child in self.children(name):
            found = plus(found, self.subtree(child))
        return found

    def spent(self, name: str) -> bool:
        inputs, outputs, _, cost, wall = self.subtree(name)
        used = {"tokens": inputs + outputs, "costMicroUsd": cost, "wallMs": wall}
        return any(used[measure] >= limit for measure, limit in self.items[name].budget.items())

    def over(self, agent: str) -> bool:
        return agent.startswith("cap") and sum(self.agents.get(agent, NONE)[:2]) >= CAP

    def exhausted(self, agent: str, name: str) -> bool:
        return self.over(agent) or any(map(self.spent, self.above(name)))

    def add(self, agent: str, name: str, used: Sum, model: str) -> None:
        if any(used):
            self.items[name].own = plus(self.items[name].own, used)
            self.agents[agent] = plus(self.agents.get(agent, NONE), used)
            self.models[model] = plus(self.models.get(model, NONE), used)
            self.total = plus(self.total, used)

    def acquire(self, agent: str, name: str) -> None:
        for one in self.items.values():
            if one.holder == agent:
                one.holder = ""
        self.items[name].holder = agent

    def offered(self, agent: str) -> set[str]:
        return {
            name
            for name, one in self.items.items()
            if not one.holder
            and not self.children(name)
            and not self.exhausted(agent, name)
            and all(self.items[up].holder in ("", agent) for up in self.above(one.parent))
        }


class Walk:
    def __init__(self, clients: list[Client], chance: random.Random) -> None:
        self.clients, self.chance, self.model = clients, chance, Model()

    @property
    def tools(self) -> Client:
        return self.chance.choice(self.clients)

    def used(self) -> tuple[Json | None, Sum, str]:
        if self.chance.random() < 0.3:
            return None, NONE, ""
        parts = [self.chance.randrange(30) for _ in NAMES]
        parts[2] = min(parts[2], parts[0])
        model = self.chance.choice(MODELS)
        return {**dict(zip(NAMES, parts, strict=True)), **({"model": model} if model else {})}, tuple(parts), model

    async def step(self) -> None:
        kinds = ("create", "note", "claim", "take", "release", "move", "delete", "budget", "together")
        kind = self.chance.choices(kinds, (3, 6, 6, 4, 3, 2, 1, 3, 2))[0]
        if not self.model.items:
            kind = "create"
        await getattr(self, kind)(self.chance.choice(AGENTS))

    def any_item(self) -> str:
        return self.chance.choice(list(self.model.items))

    async def create(self, _: str) -> None:
        if len(self.model.items) > 14:
            return
        places = ["", *(name for name in self.model.items if self.model.depth(name) < 3)]
        parent = self.chance.choice(places)
        budget = {"tokens": self.chance.randrange(1, 120)} if self.chance.random() < 0.3 else {}
        fields: Json = ({"parentId": parent} if parent else {}) | ({"budget": budget} if budget else {})
        self.model.items[await self.tools.add(**fields)] = Item(parent, budget=budget)

    async def note(self, agent: str) -> None:
        name, (usage, parts, model) = self.any_item(), self.used()
        note = {"itemId": name, "key": "k", "role": "work", "actor": actor(agent), "usage": usage}
        await self.tools("manage_notes", operation="upsert", notes=[note])
        self.model.add(agent, name, parts, model)

    async def together(self, agent: str) -> None:
        """Reports of all front-ends at once."""
        reports = [(self.any_item(), *self.used()) for _ in range(6)]
        await asyncio.gather(
            *(
                client("manage_notes", operation="upsert", notes=[
                    {"itemId": name, "key": "k", "role": "work", "actor": actor(agent), "usage": usage}
                ])
                for client, (name, usage, _, _) in zip(self.clients * 2, reports, strict=True)
            )
        )  # fmt: skip
        for name, _, parts, model in reports:
            self.model.add(agent, name, parts, model)

    async def claim(self, agent: str) -> None:
        name, (usage, parts, model) = self.any_item(), self.used()
        entry = {"itemId": name, "usage": usage}
        call = {"actor": actor(agent), "requestId": fresh_id(), "claims": [entry]}
        found = (await self.tools("claim_item", **call))["claimResults"][0]
        one = self.model.items[name]
        if one.holder and one.holder != agent:
            assert found["outcome"] == "already_claimed"
        elif one.holder == agent:
            assert found["outcome"] == "success"
            self.model.add(agent, name, parts, model)
            assert found.get("stop", False) == self.model.exhausted(agent, name)
            assert found.get("stop", False) == ("stopReason" in found)
        elif self.model.exhausted(agent, name):
            assert found["outcome"] == "budget_exhausted"
            assert found["budget"]["used"] >= found["budget"]["limit"]
        else:
            assert found["outcome"] == "success"
            self.model.acquire(agent, name)
            self.model.add(agent, name, parts, model)
        if self.chance.random() < 0.3:  # a retry adds nothing
            assert (await self.tools("claim_item", **call))["claimResults"][0]["outcome"] == found["outcome"]

    async def take(self, agent: str) -> None:
        found, offered = await take(self.tools, agent), self.model.offered(agent)
        if self.model.over(agent):
            assert found["outcome"] == "budget_exhausted"
        elif offered:
            assert found["itemId"] in offered
            self.model.acquire(agent, found["itemId"])
        else:
            assert found["outcome"] == "no_match"

    async def release(self, agent: str) -> None:
        name, (usage, parts, model) = self.any_item(), self.used()
        releases = [{"itemId": name, "usage": usage}]
        done = await self.tools("claim_item", actor=actor(agent), requestId=fresh_id(), releases=releases)
        held = self.model.items[name].holder == agent
        assert done["releaseResults"][0]["outcome"] == ("success" if held else "not_claimed_by_you")
        if held:
            self.model.add(agent, name, parts, model)
            self.model.items[name].holder = ""

    async def move(self, _: str) -> None:
        name, to = self.any_item(), self.chance.choice(["", *self.model.items])
        allowed = name not in self.model.above(to) and self.model.depth(to) + 1 + self.model.height(name) <= 3
        moved = await self.tools("manage_items", operation="update", items=[{"id": name, "parentId": to or None}])
        assert moved["updated"] == int(allowed)
        if allowed:
            self.model.items[name].parent = to

    async def delete(self, _: str) -> None:
        name = self.any_item()
        await self.tools("manage_items", operation="delete", ids=[name], recursive=True)
        parent, sum_ = self.model.items[name].parent, self.model.subtree(name)
        if parent:
            self.model.items[parent].gone = plus(self.model.items[parent].gone, sum_)
        for gone in [one for one in self.model.items if name in self.model.above(one)]:
            del self.model.items[gone]

    async def budget(self, _: str) -> None:
        name = self.any_item()
        budget: Json = {}
        if self.chance.random() < 0.7:
            budget[self.chance.choice(["tokens", "costMicroUsd", "wallMs"])] = self.chance.randrange(1, 200)
        await self.tools.update(name, budget=budget or None)
        self.model.items[name].budget = budget

    async def compare(self) -> None:
        for name in self.model.items:
            found = await self.clients[0].get(name)
            total = self.model.subtree(name)
            assert found.get("usage", {}).get("subtree", shown(NONE)) == shown(total)
            assert found.get("budgetSpent", False) == self.model.spent(name)
        for by, sums in (("agent", self.model.agents), ("model", self.model.models)):
            report = await read_usage(self.clients[0].store, self.clients[0].project, by, 100)
            assert msgspec.to_builtins(report.total) == shown(self.model.total)
            assert {row.name: msgspec.to_builtins(row.sum) for row in report.rows} == {
                name: shown(parts) for name, parts in sums.items()
            }


@pytest.mark.parametrize("seed", range(3))
async def test_any_interleaving_over_three_front_ends(clients: list[Client], seed: int) -> None:
    agents = {"cap*": Periods(total=Limits(tokens=CAP))}
    settings = msgspec.structs.replace(SETTINGS, budgets=Budgets(agents=agents))
    several = [Client(one.store, one.project, settings) for one in clients]
    walk = Walk(several, random.Random(seed))
    for number in range(STEPS):
        await walk.step()
        if number % 70 == 69:
            await walk.compare()
            assert (await audit(clients[0].store, clients[0].project)).differences == []
