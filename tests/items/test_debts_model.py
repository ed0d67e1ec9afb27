"""Hubs with shared dependents: any order of changes, by processes that live or die, against plain counting."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from coordinator.toolsets.items.audit import audit
from tests.items.client import Client
from tests.items.dying import hub, link_pairs, owed, ready

pytestmark = pytest.mark.anyio

ORDER = ("queue", "work", "review", "terminal")
TRIGGERS = ("start", "complete", "complete", "cancel", "hold", "resume", "reopen", "reopen")


@dataclass
class Model:
    """Roles, and edges as (blocker, blocked, type) -> threshold."""

    roles: dict[str, str]
    edges: dict[tuple[str, str, str], str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)

    def satisfies(self, blocker: str, threshold: str) -> bool:
        role = self.roles[blocker]
        return role != "blocked" and ORDER.index(role) >= ORDER.index(threshold)

    def waiting(self) -> Counter[str]:
        """How many edges block each item."""
        return Counter(
            blocked for (blocker, blocked, _), least in self.edges.items() if not self.satisfies(blocker, least)
        )

    def target(self, item: str, trigger: str, waits: int) -> str | None:
        """The role that a trigger leads to, None if it is refused."""
        role = self.roles[item]
        if trigger == "reopen":
            return "queue" if role == "terminal" else None
        if role == "terminal":
            return None
        if role == "blocked":
            return {"cancel": "terminal", "resume": self.held[item]}.get(trigger)
        if trigger == "resume":
            return None
        if trigger == "hold":
            return "blocked"
        if waits and trigger != "cancel":
            return None
        return "work" if (trigger, role) == ("start", "queue") else "terminal"

    def advance(self, item: str, trigger: str) -> tuple[bool, set[str]]:
        """Whether it is applied, and the open items that it unblocks."""
        before = self.waiting()
        target = self.target(item, trigger, before[item])
        if target is None:
            return False, set()
        if target == "blocked":
            self.held[item] = self.roles[item]
        self.roles[item] = target
        after = self.waiting()
        unblocked = {other for other in before if before[other] and not after[other]}
        return True, {other for other in unblocked if self.roles[other] != "terminal"}

    def ready(self, among: list[str]) -> set[str]:
        waits = self.waiting()
        return {item for item in among if self.roles[item] == "queue" and not waits[item]}


class World:
    """A project beside its model."""

    def __init__(self, tools: Client, dying: Client, chance: random.Random) -> None:
        self.tools, self.dying, self.chance = tools, dying, chance
        self.hubs: list[str] = []
        self.items: list[str] = []
        self.model = Model({})
        self.left = 0

    async def begin(self) -> None:
        self.items = await self.tools.add_many(90, tags="dep")
        self.hubs = [await self.tools.add("hub", tags="hub") for _ in range(4)]
        self.model.roles = dict.fromkeys([*self.items, *self.hubs], "queue")
        for item in self.hubs:
            await self.link(item)
        await self.link_hubs()

    def anybody(self) -> Client:
        return self.chance.choice([self.tools, self.dying, self.dying])

    async def link(self, source: str) -> None:
        """Edges from a hub to most of the others, of either kind and with any threshold."""
        new = [item for item in self.items if self.chance.random() < 0.9]
        self.chance.shuffle(new)
        for kind, part in (("BLOCKS", new[::2]), ("IS_BLOCKED_BY", new[1::2] + new[:18:2])):
            threshold = self.chance.choice(["work", "review", "terminal"])
            pairs = [(source, item) if kind == "BLOCKS" else (item, source) for item in part]
            await link_pairs(self.anybody(), pairs, type=kind, unblockAt=threshold)
            self.model.edges |= {(source, item, kind): threshold for item in part}

    async def link_hubs(self) -> None:
        """The last one waits for the first one."""
        await self.tools.link(self.hubs[0], self.hubs[-1])
        self.model.edges[self.hubs[0], self.hubs[-1], "BLOCKS"] = "terminal"

    def step(self) -> tuple[str, str]:
        """An item and a trigger, mostly one that can be applied."""
        item = self.chance.choice(self.hubs if self.chance.random() < 0.7 else self.items)
        waits = self.model.waiting()[item]
        fitting = [trigger for trigger in TRIGGERS if self.model.target(item, trigger, waits)]
        return item, self.chance.choice(fitting if fitting and self.chance.random() < 0.85 else TRIGGERS)

    async def advance(self) -> None:
        """A batch of transitions, of hubs more often than of their dependents."""
        steps = [self.step() for _ in range(self.chance.choice([1, 1, 1, 2, 4]))]
        batch = [{"itemId": item, "trigger": trigger} for item, trigger in steps]
        answer = await self.anybody()("advance_item", transitions=batch)
        for (item, trigger), result in zip(steps, answer["results"], strict=True):
            applied, open_now = self.model.advance(item, trigger)
            assert result["applied"] == applied, (trigger, result)
            if applied:
                named = {entry["itemId"]: entry["title"] for entry in result["unblockedItems"]}
                waits = self.model.waiting()
                assert len(named) == len(result["unblockedItems"])
                assert set(named) >= open_now
                assert not any(waits[other] for other in named)
                assert len(steps) > 1 or not any(self.model.roles[other] == "terminal" for other in named)

    async def next(self) -> None:
        found = await self.tools.next(tags="dep", limit=20)
        all_ready = self.model.ready(self.items)
        assert set(found) <= all_ready
        assert len(found) == min(20, len(all_ready))

    async def unlink(self) -> None:
        source = self.chance.choice(self.hubs)
        count = sum(source in (blocker, blocked) for blocker, blocked, _ in self.model.edges)
        assert (await self.anybody().unlink(fromItemId=source, deleteAll=True))["deleted"] == count
        self.model.edges = {edge: least for edge, least in self.model.edges.items() if source not in (edge[0], edge[1])}
        await self.link(source)

    async def delete(self) -> None:
        if len(self.items) < 70:
            return
        item = self.chance.choice(self.items)
        assert (await self.anybody().delete(item))["deleted"] == 1
        self.items.remove(item)
        del self.model.roles[item]
        self.model.edges = {edge: least for edge, least in self.model.edges.items() if edge[1] != item}

    async def look(self) -> None:
        self.left += bool(await owed(self.tools))
        if self.chance.random() < 0.3:
            await self.tools.next()
            assert await owed(self.tools) == 0
            assert await ready(self.tools) == self.model.ready(self.items)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 12))])
async def test_every_answer_is_as_without_debts(tools: Client, dying: Client, seed: int) -> None:
    world = World(tools, dying, random.Random(seed))
    await world.begin()
    calls = [world.advance] * 8 + [world.next, world.next, world.unlink, world.delete]
    for _ in range(100):
        call = world.chance.choice(calls)
        await call()
        await world.look()
    assert world.left > 5, "processes have died"
    assert (await audit(tools.store, tools.project)).differences == []
    assert await ready(tools) == world.model.ready(world.items)


async def test_two_front_ends_change_two_hubs_with_shared_dependents(clients: list[Client]) -> None:
    items = await clients[0].add_many(110, tags="dep")
    first_only, both, second_only = items[:30], items[30:80], items[80:]
    hubs = await hub(clients[0], first_only + both), await hub(clients[0], both + second_only)
    chance, done = random.Random(7), [False, False]
    for _ in range(25):
        turned = chance.choice([(0, 1), (0, 1), (0,), (1,)])
        changes = [(n, "reopen" if done[n] else "complete") for n in turned]
        looks = [client.next(tags="dep", limit=20) for client in clients]
        starts = clients[2].advance(chance.choice(both), "start")
        results, started, found = await asyncio.gather(
            asyncio.gather(*(clients[n].advance(hubs[n], trigger) for n, trigger in changes)),
            starts,
            asyncio.gather(*looks),
        )
        assert all(result["applied"] for result in results)
        unblocked = [[entry["itemId"] for entry in result["unblockedItems"]] for result in results]
        were = list(done)
        for n in turned:
            done[n] = not done[n]
        if all(done):
            new = {*both, *(first_only if not were[0] else ()), *(second_only if not were[1] else ())}
            assert Counter(item for named in unblocked for item in named) == Counter(new), "each by one of the two"
            await clients[1].next()
        assert all(len(set(listed)) == len(listed) for listed in found)
        if started["applied"]:
            assert all(done) or any(done[n] != were[n] and were[n] for n in turned)
            await clients[2].move(started["itemId"], "complete", "reopen")
        expected = {*(first_only if done[0] else ()), *(second_only if done[1] else ()), *(both if all(done) else ())}
        assert await ready(clients[0]) == expected


async def test_hubs_that_end_concurrently_unblock_each_item_once(clients: list[Client]) -> None:
    items = await clients[0].add_many(70, tags="dep")
    for _ in range(3):
        hubs = [await hub(clients[0], items) for _ in range(6)]
        assert await ready(clients[0]) == set()
        results = await asyncio.gather(*(clients[n % 3].advance(item, "complete") for n, item in enumerate(hubs)))
        named = [entry["itemId"] for result in results for entry in result["unblockedItems"]]
        assert sorted(named) == sorted(items)
        assert await ready(clients[1]) == set(items)
        again = await asyncio.gather(*(clients[n % 3].advance(item, "reopen") for n, item in enumerate(hubs)))
        assert all(result["applied"] for result in again)
        assert await ready(clients[2]) == set()
        deleted = await asyncio.gather(*(clients[n % 3].delete(item) for n, item in enumerate(hubs)))
        assert [answer["deleted"] for answer in deleted] == [1] * 6
        assert await ready(clients[1]) == set(items)
