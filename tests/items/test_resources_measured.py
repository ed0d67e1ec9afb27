"""What metrics say of resources and of the budgets of the settings."""

from __future__ import annotations

import random

import msgspec
import pytest

from coordinator.metrics import MemoryCells, Recording
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.audit.resources import Numbers, at_nodes
from coordinator.toolsets.items.field_types.resources import GivenResource
from coordinator.toolsets.items.live.metrics import ItemMetrics
from coordinator.toolsets.items.metrics.resources import CAPACITY, HELD, LEFT, RESERVATIONS, WAITED, WAITING
from coordinator.toolsets.items.metrics.usage import AGENT_BUDGET, PROJECT_BUDGET, TODAY_COST, TODAY_TOKENS
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.resources import demands
from coordinator.toolsets.items.store.measures.items import MeasureStore, ResourceLevel
from tests.items.client import SETTINGS, Client, Json, actor, fresh_id
from tests.items.moments import next_ms
from tests.items.resources import PATIENCE_MS, demand, wait_as_if, with_limits
from tests.items.selectors import take
from tests.support.counts import counted, recorded_in

pytestmark = pytest.mark.anyio

LIMITS: Json = {"gpu": 2, "repo": 1, "gpu/big": 1, "model": {"capacity": 3, "perMinute": 1}}


async def levels(tools: Client, limits: Json = LIMITS) -> dict[str, ResourceLevel]:
    """What is measured of each key of the settings."""
    config = schema_config(msgspec.convert({"resources": limits}, Settings))
    return (await MeasureStore(tools.store).measure(tools.project, config)).resources


async def test_what_claims_hold_and_what_waits(tools: Client) -> None:
    limited = with_limits(tools, resources=LIMITS)
    nothing = ResourceLevel(0, 0, -1, 0, 0, 0)
    unused = {"gpu": nothing, "repo": nothing, "gpu/big": nothing, "model": nothing._replace(left=3)}
    assert await levels(tools) == unused
    await limited.create(*({"title": "x", "resources": [demand("gpu")]} for _ in range(20)))
    shared = [await limited.add(resources=[demand("repo/docs", "shared")]) for _ in range(2)]
    await next_ms(tools.store)
    alone = await limited.add(resources=[demand("repo")])
    asked = await limited.add(resources=[demand("model", units=2), demand("gpu/big", "shared")])
    assert await levels(tools) == unused
    for agent in ("a", "b"):
        assert (await take(limited, agent))["outcome"] == "success"
    for agent, item in zip("cde", (*shared, asked), strict=True):
        expected = "resource_busy" if item == asked else "success"
        assert (await limited.claim(agent, item))["outcome"] == expected
    found = await levels(tools)
    # Those that were created before the key was popular are counted once callers have passed over them.
    assert found["gpu"] == nothing._replace(exclusive=2, waited_ms=found["gpu"].waited_ms, waiting=found["gpu"].waiting)
    assert 11 <= found["gpu"].waiting < 19
    assert found["repo"] == nothing._replace(shared=2)
    assert (await take(limited, "f"))["outcome"] == "no_match"
    await wait_as_if(tools)
    found = await levels(tools)
    assert (found["gpu"].waiting, found["repo"].waiting, found["model"].waiting) == (19, 1, 0)
    assert found["gpu"].waited_ms >= PATIENCE_MS <= found["repo"].waited_ms
    assert found["gpu/big"].waited_ms == 0
    assert (await take(limited, "f"))["outcome"] == "no_match"
    found = await levels(tools)
    assert found["repo"].reservations == 1
    assert (found["repo"].exclusive, found["repo"].shared) == (0, 2), "what is reserved is not held"
    for agent, item in zip("cd", shared, strict=True):
        await limited.release(agent, item)
    assert (await take(limited, "f"))["itemId"] == alone
    freed = (await levels(tools))["repo"]
    assert (freed.exclusive, freed.shared, freed.reservations, freed.waiting) == (1, 0, 0, 2)
    assert freed.waited_ms < PATIENCE_MS


async def test_units_per_minute_are_those_that_are_left(tools: Client) -> None:
    limited = with_limits(tools, resources=LIMITS)
    items = [await limited.add(resources=[demand("model", units=2)]) for _ in range(2)]
    assert (await limited.claim("a", items[0]))["outcome"] == "success"
    await limited.release("a", items[0])
    found = (await levels(tools))["model"]
    assert (found.exclusive, found.waiting) == (0, 0)
    assert 1 <= found.left < 1.5
    assert (await limited.claim("b", items[1]))["outcome"] == "resource_busy"
    assert (await levels(tools))["model"].waiting == 1, "for units per minute"


def fits(wanted: Numbers, others: Numbers, units: int) -> bool:
    """Whether demands at a node can be met beside those of others."""
    here, shared, below, shared_below = wanted
    if (here and others[1] + others[3]) or (below and others[1]):
        return False
    if (shared and others[0] + others[2]) or (shared_below and others[0]):
        return False
    return not here + below or here + below + others[0] + others[2] <= units


@pytest.mark.parametrize("seed", range(4))
async def test_the_numbers_are_those_of_a_plain_count(tools: Client, seed: int) -> None:
    rng = random.Random(seed)
    limits = {"a": 3, "a/b": 2, "c": 1}
    limited = with_limits(tools, resources=limits)
    keys = ("a", "a/b", "a/b/x", "a/d", "c", "c/e", "other")
    for key in keys:  # so that many items demand each of them, of which none is ready
        await limited.create(*({"title": "x", "role": "blocked", "resources": [demand(key)]} for _ in range(9)))
    stored: dict[str, str] = {}
    for _ in range(60):
        chosen = rng.sample(keys, rng.choice((1, 1, 2)))
        wanted = [demand(key, rng.choice(("exclusive", "exclusive", "shared"))) for key in chosen]
        if (made := await limited.create({"title": "x", "resources": wanted}))["created"]:
            stored[made["items"][0]["id"]] = demands(msgspec.convert(wanted, list[GivenResource]))
    assert len(stored) > 40
    held: dict[str, str] = {}
    for step in range(8):
        while (found := await take(limited, f"{step}-{len(held)}"))["outcome"] == "success":
            held[found["itemId"]] = f"{step}-{len(held)}"
        measured = await levels(tools, limits)
        for key, units in limits.items():
            of_key = [at_nodes(stored[item]).get(key, (0, 0, 0, 0)) for item in held]
            taken: Numbers = tuple(map(sum, zip(*of_key, strict=True)))  # type: ignore[assignment]
            waiting = sum(
                not fits(at_nodes(text)[key], taken, units)
                for item, text in stored.items()
                if item not in held and key in at_nodes(text)
            )
            level = measured[key]
            assert (level.exclusive, level.shared) == (taken[0] + taken[2], taken[1] + taken[3]), (step, key)
            assert level.waiting == waiting, (step, key)
        for item in rng.sample(sorted(held), 2):
            agent = held.pop(item)
            if rng.random() < 0.5:
                await limited.advance(item, "cancel", agent)
                del stored[item]
            else:
                await limited.release(agent, item)


async def test_budgets_and_resources_become_metrics_until_the_settings_change(alone: Store) -> None:
    spare = {"resources": {"gpu": 2, "model": {"capacity": 3, "perMinute": 6}}}
    budgets = {
        "agents": {"night-*": {"day": {"tokens": 1000}}, "ann": {"total": {"costMicroUsd": 100}}},
        "projects": {"a": {"day": {"costMicroUsd": 12_000}, "total": {"tokens": 10**6, "wallMs": 30_000}}},
    }
    settings = msgspec.convert({"resources": spare["resources"], "budgets": budgets}, Settings)
    in_a, in_b = (Client(alone, name, _with(settings)) for name in ("a", "b"))
    await in_a.create(*({"title": "x", "resources": [demand("gpu"), demand("model")]} for _ in range(3)))
    await in_b.add(resources=[demand("gpu", "shared")])
    used = {"inputTokens": 100, "outputTokens": 20, "costMicroUsd": 3000, "wallMs": 5000}
    for client, agent in ((in_a, "night-1"), (in_a, "night-2"), (in_a, "night-2"), (in_b, "someone")):
        claim = await take(client, agent)
        entry = {"itemId": claim["itemId"], "usage": used}
        await client("claim_item", actor=actor(agent), requestId=fresh_id(), claims=[entry])
    metrics = ItemMetrics(alone, "h/fe-0", settings)
    assert await metrics.round()
    assert [counted(CAPACITY, key) for key in ("gpu", "model")] == [2, 3]
    assert [counted(HELD, "gpu", mode) for mode in ("exclusive", "shared")] == [2, 1]
    assert 0 <= counted(LEFT, "model") < 2
    assert [counted(metric, "gpu") for metric in (WAITING, WAITED, RESERVATIONS)] == [0, 0, 0]
    assert (counted(TODAY_TOKENS), counted(TODAY_COST)) == (480, 12_000)
    assert [counted(PROJECT_BUDGET, "a", period) for period in ("day", "total")] == [0.75, 0.5]
    assert counted(AGENT_BUDGET, "night-*", "day") == 0.24
    assert counted(AGENT_BUDGET, "ann", "total") == 0
    metrics.configure(msgspec.convert({"resources": {"cpu": 4}}, Settings))
    assert await metrics.round()
    assert [counted(CAPACITY, key) for key in ("gpu", "cpu")] == [0, 4]
    assert (counted(HELD, "gpu", "exclusive"), counted(PROJECT_BUDGET, "a", "total")) == (0, 0)
    await metrics.stop()
    await metrics.run()
    with recorded_in(Recording(MemoryCells(), "h/fe-1")):
        assert await ItemMetrics(alone, "h/fe-1", settings).round()
    assert not await metrics.round()
    assert (counted(CAPACITY, "cpu"), counted(TODAY_COST)) == (0, 0)
    names = [values for metric in (CAPACITY, AGENT_BUDGET) for values in metric.cells]
    assert sorted(names) == [("ann", "total"), ("cpu",), ("gpu",), ("model",), ("night-*", "day")]


def _with(settings: Settings) -> Settings:
    return msgspec.structs.replace(SETTINGS, resources=settings.resources, budgets=settings.budgets)
