"""Front-ends whose settings differ, as during a reload: whatever they are asked, nothing fails, and indexes agree."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.toolsets.items.audit import audit
from tests.items.client import LONG_MS, Client, Json, actor
from tests.items.moments import lapse
from tests.items.note_machine import SEEDS
from tests.items.resources import demand, held
from tests.items.selectors import take

pytestmark = pytest.mark.anyio

SETTINGS: tuple[Json, ...] = (
    {"resources": {"gpu": 3, "slow": {"capacity": 2, "perMinute": 600}}, "rank": "due", "attempts": {"max": 2}},
    {"resources": {"gpu": 1}, "budgets": {"agents": {"b*": {"day": {"tokens": 40}}}}},
    {
        "traits": {"t": {"resources": [{"key": "gpu"}, {"key": "z", "mode": "shared"}]}},
        "work_item_schemas": {"bug": {"resources": [{"key": "gpu/1"}], "lifecycle": "auto-reopen"}},
        "rank": "due",
        "attempts": {"max": 0, "backoff_seconds": 0},
    },
)
STEPS = 500
MOST = 14
"""Items, roughly."""
AGENTS = ("ann", "bob", "ben", "cid")
FIELDS: dict[str, list[Any]] = {
    "resources": [None, [], [demand("gpu", units=3)], [demand("gpu/0"), demand("gpu/1")], [demand("gpu/0")] * 1,
                  [demand("slow/x", units=2)], [demand("z", "shared"), demand("gpu", "shared")], [demand("z/y")]],
    "dueAt": [None, "+1h", "+1d", "2026-01-01T00:00:00Z"],
    "notBefore": [None, "+1h", "+0s", "2026-01-01T00:00:00Z"],
    "budget": [None, {"tokens": 5}, {"wallMs": 10**15}],
    "requires": [[], ["gpu"]],
    "assignee": [None, None, "ann", "bob"],
    "tags": [None, "x", "x,y"],
    "type": [None, "bug"],
    "traits": [None, "t"],
    "priority": ["high", "low"],
    "recurs": [None, None, None, {"cron": "* * * * *", "overlap": "allow"}],
    "maxAttempts": [None, 1],
}  # fmt: skip
SELECTORS: tuple[Json, ...] = ({}, {}, {"tags": "x"}, {"type": "bug"}, {"orderBy": "newest"}, {"role": "work"})
TRIGGERS = ("start", "start", "complete", "cancel", "block", "resume", "reopen", "reopen")
USED = {"outputTokens": 3, "model": "m"}


class Walk:
    def __init__(self, fronts: list[Client], chance: random.Random) -> None:
        self.fronts, self.chance, self.items = fronts, chance, list[str]()
        self.last = ""
        self.waiting: list[asyncio.Task[Json]] = []

    def fields(self, most: int) -> Json:
        names = self.chance.sample(list(FIELDS), self.chance.randint(1, most))
        return {name: self.chance.choice(FIELDS[name]) for name in names}

    async def step(self) -> None:
        tools, agent = self.chance.choice(self.fronts), self.chance.choice(AGENTS)
        if self.last not in self.items or self.chance.random() < 0.4:  # mostly the same one for a while
            self.last = self.chance.choice(self.items) if self.items else ""
        item, action = self.last, self.chance.random()
        if not item or (action < 0.1 and len(self.items) < MOST):
            parent = {"parentId": item} if item and self.chance.random() < 0.6 else {}
            made = await tools.create(*({"title": "x", **parent, **self.fields(3)} for _ in range(3)))
            self.items += [one["id"] for one in made["items"]]
        elif action < 0.35:
            fields = self.fields(2)
            if self.chance.random() < 0.2:
                fields["parentId"] = self.chance.choice([None, *self.items])
            await tools.update(item, **fields)
        elif action < 0.5:
            await tools.claim(agent, item, usage=USED, resources=self.chance.choice(FIELDS["resources"]) or [])
        elif action < 0.7:
            selector = self.chance.choice(
                ({}, {}, {"tags": "x"}, {"type": "bug"}, {"orderBy": "newest"}, {"role": "work"})
            )
            await take(tools, agent, selector, capabilities=self.chance.choice((["gpu"], [])), usage=USED)
        elif action < 0.73:
            call = take(tools, f"{agent}-{len(self.waiting)}", self.chance.choice(SELECTORS), wait_ms=80, usage=USED)
            self.waiting.append(asyncio.create_task(call))
        elif action < 0.78:
            await tools.release(agent, item, reason="failed", usage=USED)
        elif action < 0.9:
            await tools.advance(item, self.chance.choice(TRIGGERS), agent, usage=USED)
        elif action < 0.96:
            if (await tools("get_context", itemId=item)).get("claimDetail", {}).get("isExpired") is False:
                await lapse(tools, item)
            await tools.claiming.claims.expire(tools.project)
        else:
            await tools.delete(item, recursive=True)
            found = await tools("query_items", operation="search", limit=200)
            self.items = [one["id"] for one in found["items"]]


@pytest.mark.parametrize("seed", range(SEEDS // 2))
async def test_any_sequence_leaves_all_indexes_in_agreement(clients: list[Client], seed: int) -> None:
    given = [msgspec.convert({"request_deadline_ms": LONG_MS, **one}, Settings) for one in SETTINGS]
    fronts = [Client(one.store, one.project, settings) for one, settings in zip(clients, given, strict=True)]
    walk = Walk(fronts, random.Random(seed))
    for number in range(STEPS):
        try:
            await walk.step()
        except ToolFailure as failure:  # a refusal as any other
            if failure.code not in ("RESOURCE_NOT_FOUND", "VALIDATION_ERROR"):
                raise
        if number % 50 == 49:
            outcomes = [one["outcome"] for one in await asyncio.gather(*walk.waiting)]
            assert {*outcomes} <= {"success", "no_match", "budget_exhausted"}
            walk.waiting = []
            assert (await audit(clients[0].store, clients[0].project)).differences == []
    for item in walk.items:
        await fronts[0].attempt("manage_items", operation="delete", ids=[item], recursive=True)
    assert await held(fronts[0]) == {}
    for front in fronts:
        assert front.drain is not None
        await front.drain()


def client(tools: Client, **given: Any) -> Client:
    """One with other settings."""
    return Client(tools.store, tools.project, msgspec.convert({"request_deadline_ms": LONG_MS, **given}, Settings))


async def test_a_capacity_is_lowered_below_what_is_held(clients: list[Client]) -> None:
    """What is held stays; nothing more is taken until less than the new capacity is held; larger demands wait."""
    before, after = client(clients[0], resources={"gpu": 3}), client(clients[1], resources={"gpu": 1})
    items = await before.add_many(4, resources=[demand("gpu")])
    large = await before.add(resources=[demand("gpu", units=2)], priority="low")
    for agent, item in zip("abc", items, strict=False):
        assert (await before.claim(agent, item))["outcome"] == "success"
    for front in (before, after):
        busy = await front.claim("d", items[3])
        assert (busy["outcome"], busy["resources"]) == ("resource_busy", [demand("gpu")])
    assert (await after.claim("a", items[0]))["outcome"] == "success"
    assert await held(after) == {"gpu": "3.0.0.0"}
    for agent, item in zip("ab", items, strict=False):
        await after.release(agent, item)
        assert (await take(after, "d"))["heldBack"]["resources"] == (3 if agent == "a" else 4)
    await after.release("c", items[2])
    assert (await take(after, "d"))["itemId"] == items[0]
    assert (await after.claim("e", large))["outcome"] == "resource_busy"
    assert (await before.claim("e", large))["outcome"] == "success"
    assert (await audit(before.store, before.project)).differences == []


async def test_a_resource_that_is_not_configured_any_more_has_one_unit_and_is_given_back(clients: list[Client]) -> None:
    limits = {"slow": {"capacity": 2, "perMinute": 1}, "pool": 2}
    before, after = client(clients[0], resources=limits), client(clients[1])
    items = await before.add_many(3, resources=[demand("slow/x"), demand("pool/a")])
    assert (await before.claim("a", items[0]))["outcome"] == "success"
    assert (await after.claim("b", items[1]))["outcome"] == "resource_busy"
    await after.release("a", items[0])
    assert await held(after) == {}
    for item in items[1:]:  # no units of a minute are counted any more
        assert (await after.claim("b", item))["outcome"] == "success"
    assert (await before.claim("c", items[0]))["outcome"] == "resource_busy"
    await before.release("b", items[2])
    assert (await before.claim("c", items[0]))["outcome"] == "success"
    assert (await before.claim("d", items[1]))["resources"] == [demand("slow/x"), demand("pool/a")]
    assert (await audit(before.store, before.project)).differences == []


async def test_sums_of_usage_end_where_numbers_are_not_exact_any_more(clients: list[Client]) -> None:
    """Also of very many reports at once; what follows still works."""
    tools = clients[0]
    root = await tools.add(budget={"costMicroUsd": 10**15})
    item = await tools.add(parentId=root)
    most = {"costMicroUsd": 10**12, "wallMs": 10**12, "inputTokens": 10**12, "cachedTokens": 10**12}
    note = {"itemId": item, "key": "k", "role": "work", "body": "x", "actor": actor("ann"), "usage": most}
    for _ in range(20):
        calls = (one("manage_notes", operation="upsert", notes=[note] * 160) for one in clients)
        await asyncio.gather(*calls)
    shown = (await tools.get(root))["usage"]["subtree"]
    assert shown["costMicroUsd"] == shown["inputTokens"] == shown["cachedTokens"] == 2**53 - 1
    spent = await tools.claim("b", item)
    assert (spent["outcome"], spent["budget"]["used"]) == ("budget_exhausted", 2**53 - 1)
    assert (await tools.update(item, parentId=None))["updated"] == 1
    assert (await tools.claim("b", item))["outcome"] == "success"
    assert (await tools.get(root))["usage"]["subtree"]["costMicroUsd"] == 0
    await tools.delete(item)
    await tools.delete(root)
