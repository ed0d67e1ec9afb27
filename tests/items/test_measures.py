"""Metrics of items: roles, the oldest ready item, durations of claims and their losers."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.metrics import MemoryCells, Recording
from coordinator.settings import Settings
from coordinator.store import Script, Store, keys
from coordinator.store.projects.lists import ProjectList
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.live.metrics import ItemMetrics
from coordinator.toolsets.items.metrics.claims import AGENTS_WAITING, CLAIM_HOLD, CLAIM_LOSERS
from coordinator.toolsets.items.metrics.levels import ITEMS, OLDEST_READY
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaConfig
from coordinator.toolsets.items.store.base import pack
from coordinator.toolsets.items.store.measures.items import EMPTY_SECONDS, MEASURE, MeasureStore
from coordinator.toolsets.items.store.measures.project_state import read_project_state
from tests.items.client import SETTINGS, Client, Json, actor, fresh_id
from tests.items.moments import lapse, next_ms, server_time, set_state, state
from tests.items.parked import Fronts
from tests.items.resources import demand, with_limits
from tests.support.between import before
from tests.support.counts import by_bucket, counted, recorded_in
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

NOTHING = (SchemaConfig().terms(""), pack([]))
"""The arguments of the script where the settings name no resources."""


async def held(tools: Client) -> dict[str, tuple[dict[int, int], float]]:
    """Claims ended since the last call: counts by bucket and seconds, by kind of end."""
    found = await MeasureStore(tools.store).measure(tools.project)
    return {one.end: (one.counts, one.seconds) for one in found.held}


async def ends(tools: Client) -> dict[str, int]:
    """The number of ended claims, by kind of end."""
    return {end: sum(counts.values()) for end, (counts, _) in (await held(tools)).items()}


async def lost(tools: Client) -> tuple[dict[int, int], int]:
    """Claims ended since the last call, by bucket of losers; and all losers."""
    found = (await MeasureStore(tools.store).measure(tools.project)).lost
    return found.counts, found.losers


async def fail(tools: Client, item: str, count: int, agent: str = "loser") -> None:
    """Failing claims of other agents."""
    for number in range(count):
        result = await tools.claims(f"{agent}-{number}", [{"itemId": item}])
        assert result["claimResults"][0]["outcome"] == "already_claimed"


async def backdate(tools: Client, item: str, seconds: float) -> None:
    """Backdates the item's claim."""
    await set_state(tools, item, first=(await state(tools, item)).first - round(seconds * 1000))


def waiting() -> float:
    """The parked claims of this process in its metrics."""
    return counted(AGENTS_WAITING)


async def release(tools: Client, agent: str, item: str) -> None:
    result = await tools.claims(agent, [], [{"itemId": item}])
    assert result["releaseResults"][0]["outcome"] == "success"


async def test_scripts_count_in_the_buckets_of_the_catalogue(tools: Client) -> None:
    for bucket, bound in enumerate(CLAIM_HOLD.buckets):
        for more in (0, 1):
            item = await tools.add()
            await tools.claim("ann", item)
            await lapse(tools, item)
            held_ms = round(bound * 1000) + more
            await set_state(tools, item, first=(await state(tools, item)).expires - held_ms)
            await tools.claim(f"next-{held_ms}", item)
            assert await held(tools) == {"expired": ({bucket + more: 1}, held_ms / 1000)}


async def test_scripts_count_losers_in_the_buckets_of_the_catalogue(tools: Client) -> None:
    item = await tools.add()
    for bucket, bound in enumerate(CLAIM_LOSERS.buckets[1:], 1):
        for more in (0, 1):
            await tools.claim("ann", item)
            losers = round(bound) + more
            await tools.store.command("HSET", keys.item.key(tools.project, item.replace("-", "")), "lo", losers)
            await release(tools, "ann", item)
            reached = bucket + 1 if losers > bound and bucket + 1 <= len(CLAIM_LOSERS.buckets) else bucket
            assert await lost(tools) == ({reached: 1}, losers)


@pytest.mark.every_store
async def test_items_are_counted_by_role(tools: Client) -> None:
    assert not any((await MeasureStore(tools.store).measure(tools.project)).roles.values())
    for role, count in {"queue": 3, "work": 2, "review": 1, "blocked": 2, "terminal": 4}.items():
        for _ in range(count):
            await tools.add(role=role)
    found = await MeasureStore(tools.store).measure(tools.project)
    assert found.roles == {"queue": 3, "work": 2, "review": 1, "blocked": 2, "terminal": 4}
    await tools.claim("ann", await tools.add())
    assert (await MeasureStore(tools.store).measure(tools.project)).roles["queue"] == 4


async def test_the_oldest_ready_item_is_found_at_any_rank(tools: Client) -> None:
    chosen, items = random.Random(7), []
    for _ in range(30):
        more: dict[str, Any] = {"complexity": chosen.randint(1, 10)} if chosen.random() < 0.7 else {}
        items.append(await tools.add(priority=chosen.choice(["high", "medium", "low"]), **more))
    await tools.add(role="work")
    chosen.shuffle(items)
    ready = {}
    base = (await tools.store.run(MEASURE, tools.project, *NOTHING)).now
    for number, item in enumerate(items):
        # As if created minutes apart, in another order than by rank.
        inner, created = item.replace("-", ""), base - number * 60_000
        before = (await state(tools, item)).score
        score = before - before % 2**41 + created - 1_577_836_800_000
        await set_state(tools, item, score=score)
        await tools.store.command("ZADD", keys.ranked.key(tools.project, "p"), score, inner)
        ready[item] = created
    for number, item in enumerate(reversed(items)):
        assert (await tools.store.run(MEASURE, tools.project, *NOTHING)).oldest == min(ready.values())
        age = (await MeasureStore(tools.store).measure(tools.project)).oldest_seconds
        assert age >= (base - ready[item]) / 1000
        await tools.claim(f"agent-{number}", item)
        del ready[item]
    found = await MeasureStore(tools.store).measure(tools.project)
    assert found.oldest_seconds == 0.0, "held items and items in work are not ready"


async def test_the_oldest_item_is_one_that_agents_are_offered(tools: Client) -> None:
    def with_budget(tokens: int) -> SchemaConfig:
        given = {"resources": {"gpu": 1}, "budgets": {"projects": {tools.project: {"total": {"tokens": tokens}}}}}
        return schema_config(msgspec.convert(given, Settings))

    async def oldest(config: SchemaConfig) -> str:
        await next_ms(tools.store)
        found = await read_project_state(tools.store, tools.project, config)
        measured = await MeasureStore(tools.store).measure(tools.project, config)
        assert (found.oldest == "") == (measured.oldest_seconds == 0)
        return found.oldest

    limited = with_limits(tools, resources={"gpu": 1})
    spent, held = await tools.add(budget={"tokens": 1}), await tools.add()
    used: Json = {"itemId": spent, "key": "k", "role": "work", "usage": {"inputTokens": 5}}
    await tools("manage_notes", operation="upsert", notes=[used])
    below = []
    for parent in (spent, held):
        below.append(await tools.add(parentId=parent))
        await next_ms(tools.store)
    busy = await limited.add(resources=[demand("gpu")], priority="low")
    await next_ms(tools.store)
    taken = await limited.add(resources=[demand("gpu")])
    await tools.claim("ann", held)
    await limited.claim("bob", taken)
    for _ in range(2):
        assert await oldest(with_budget(9)) == "", "others hold what it needs, or is above it, or a budget is spent"
        item = await tools.add(requires=["vision"])
        assert await oldest(with_budget(9)) == item.replace("-", ""), "who has the capability gets it"
        assert await oldest(with_budget(5)) == "", "the budget of the project is spent"
        await tools.delete(item)
    for ends, freed in (("bob", busy), ("ann", below[1])):
        await release(limited, ends, taken if ends == "bob" else held)
        assert await oldest(with_budget(9)) == freed.replace("-", "")
    await tools("manage_items", operation="update", items=[{"id": spent, "budget": {"tokens": 9}}])
    assert await oldest(with_budget(9)) == below[0].replace("-", "")


async def test_few_of_the_oldest_items_are_looked_at(tools: Client) -> None:
    held = await tools.add()
    await tools.add_many(99, parentId=held)
    await next_ms(tools.store)
    item = await tools.add()
    await tools.claim("ann", held)
    assert (await read_project_state(tools.store, tools.project)).oldest == item.replace("-", "")
    await tools.delete(item)
    await tools.add(parentId=held)
    await next_ms(tools.store)
    await tools.add()
    assert (await read_project_state(tools.store, tools.project)).oldest == ""


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0, 0), (1.5, 2), (3, 3), (7, 4), (20, 5), (45, 6), (100, 7), (200, 8), (600, 9), (2_000, 10), (50_000, 13)],
)
async def test_a_released_claim_is_counted_once_by_its_duration(tools: Client, seconds: float, bucket: int) -> None:
    item = await tools.add()
    await tools.claim("ann", item)
    await backdate(tools, item, seconds)
    assert await held(tools) == {}, "it is still held"
    await release(tools, "ann", item)
    (end, (counts, total)), *more = (await held(tools)).items()
    assert (end, counts, more) == ("released", {bucket: 1}, [])
    assert seconds <= total < seconds + 60
    assert await held(tools) == {}, "it was counted"


async def test_claims_end_without_a_reader_of_the_counts(tools: Client) -> None:
    item = await tools.add()
    await tools.store.command("HSET", keys.holds.key(tools.project), "r1", 2**63 - 1)
    await tools.claim("ann", item)
    await release(tools, "ann", item)
    assert (await ends(tools))["released"] > 500_000


async def test_durations_add_up(tools: Client) -> None:
    for seconds in (100, 200, 4_000):
        item = await tools.add()
        await tools.claim("ann", item)
        await backdate(tools, item, seconds)
        await release(tools, "ann", item)
    counts, total = (await held(tools))["released"]
    assert counts == {7: 1, 8: 1, 11: 1}
    assert 4_300 <= total < 4_360


async def test_a_heartbeat_ends_nothing(tools: Client) -> None:
    item = await tools.add()
    for _ in range(3):
        await tools.claim("ann", item)
    assert await ends(tools) == {}


async def test_a_claim_on_a_finished_item_counts_when_that_ends(tools: Client) -> None:
    first, second, third = [await tools.add() for _ in range(3)]
    await tools.claim("ann", first)
    await tools.claim("ann", second)
    assert await ends(tools) == {"released": 1}
    await tools.advance(second, "complete", agent="ann")
    assert await ends(tools) == {"completed": 1}
    await tools.claim("ann", third)
    assert await ends(tools) == {}
    await tools("manage_items", operation="delete", requestId=fresh_id(), ids=[third])
    assert await ends(tools) == {"released": 1}


@pytest.mark.parametrize("then", ["released", "expired", "completed"])
async def test_a_claim_under_which_its_item_is_reopened_counts_once(tools: Client, then: str) -> None:
    item = await tools.add()
    await tools.claim("ann", item)
    await fail(tools, item, 1)
    await backdate(tools, item, 100)
    await tools.advance(item, "complete", agent="ann")
    ((end, (counts, seconds)),) = (await held(tools)).items()
    assert (end, counts) == ("completed", {7: 1})
    assert 100 <= seconds < 160
    assert (await tools.advance(item, "reopen", agent="ann"))["applied"]
    await fail(tools, item, 1)
    if then == "released":
        await release(tools, "ann", item)
    elif then == "completed":
        await tools.advance(item, "complete", agent="ann")
    else:
        await lapse(tools, item)
    await tools.claim("bob", await tools.add())
    assert (await ends(tools), await lost(tools)) == ({}, ({}, 0))
    assert (await audit(tools.store, tools.project)).differences == []
    if then != "completed":
        await tools.claim("carl", item)
        await release(tools, "carl", item)
        assert await ends(tools) == {"released": 1}, "the next claim counts again"


async def test_an_expired_claim_is_counted_until_its_expiry(tools: Client) -> None:
    mine, other = await tools.add(), await tools.add()
    await tools.claim("ann", mine)
    await backdate(tools, mine, 100)
    await lapse(tools, mine, ago_ms=50_000)
    # Any claim puts back expired ones.
    await tools.claim("bob", other)
    assert (await held(tools))["expired"][0] == {6: 1}
    await tools.claim("bob", mine)
    assert await ends(tools) == {"released": 1}, "an expired claim is not counted twice"


@pytest.mark.parametrize("how", ["taken over", "released", "released for another"])
async def test_an_expired_claim_not_put_back_is_counted_by_the_call_that_ends_it(tools: Client, how: str) -> None:
    """Not even put back by this call, which handles 16 other claims first."""
    *items, mine, other = await tools.add_many(21)
    for number, item in enumerate((*items, mine)):
        await tools.claim(f"agent-{number:02}", item)
    for item in items:
        await lapse(tools, item, ago_ms=60_000)
    await backdate(tools, mine, 100)
    await lapse(tools, mine, ago_ms=50_000)
    if how == "released":
        await release(tools, "agent-19", mine)
    else:
        await tools.claim(*(("bob", mine) if how == "taken over" else ("agent-19", other)))
    ((end, (counts, _)),) = (await held(tools)).items()
    assert (end, sum(counts.values())) == ("expired", 17)
    assert counts[6] == 1, "it was good for 50 seconds"


async def test_claims_that_are_handed_over_to_parked_calls_are_counted(fronts: Fronts, tools: Client) -> None:
    item = await tools.add()
    await tools.claim("ann", item)
    front = await fronts.make()
    parked = await front.park("bob")
    assert waiting() == 1
    await release(tools, "ann", item)
    assert await parked.item() == item
    assert waiting() == 0
    assert await ends(tools) == {"released": 1}


# --- losers -------------------------------------------------------------------------------------


@pytest.mark.every_store
@pytest.mark.parametrize(("losers", "bucket"), [(0, 0), (1, 1), (2, 2), (3, 3), (5, 3), (6, 4), (11, 5)])
async def test_a_claim_is_counted_by_its_losers(tools: Client, losers: int, bucket: int) -> None:
    item = await tools.add()
    await tools.claim("ann", item)
    await fail(tools, item, losers)
    assert await lost(tools) == ({}, 0), "it is still held"
    await release(tools, "ann", item)
    assert await lost(tools) == ({bucket: 1}, losers)
    assert await lost(tools) == ({}, 0), "it was counted"


async def test_many_losers_are_counted_in_the_last_buckets(tools: Client) -> None:
    for number, (losers, bucket) in enumerate([(100, 7), (101, 8), (1_000, 10), (1_001, 11)]):
        item = await tools.add()
        await tools.claim("ann", item)
        await tools.store.command("HSET", keys.item.key(tools.project, item.replace("-", "")), "lo", losers - 1)
        await fail(tools, item, 1, f"loser-{number}")
        await release(tools, "ann", item)
        assert await lost(tools) == ({bucket: 1}, losers)


async def test_losers_count_across_heartbeats_and_for_one_claim_only(tools: Client) -> None:
    item = await tools.add()
    await tools.claim("ann", item)
    await fail(tools, item, 2)
    await tools.claim("ann", item)
    await fail(tools, item, 1)
    await release(tools, "ann", item)
    await tools.claim("bob", item)
    await tools.advance(item, "complete", agent="bob")
    await release(tools, "bob", item)
    assert await lost(tools) == ({3: 1, 0: 1}, 3)


async def test_a_retried_request_loses_once(tools: Client) -> None:
    item, request = await tools.add(), fresh_id()
    await tools.claim("ann", item)
    for _ in range(3):
        await tools("claim_item", actor=actor("bob"), requestId=request, claims=[{"itemId": item}])
    await release(tools, "ann", item)
    assert await lost(tools) == ({1: 1}, 1)


async def test_any_end_of_a_claim_counts_its_losers(tools: Client) -> None:
    moved, expired, unseen, deleted = [await tools.add() for _ in range(4)]
    await tools.claim("ann", moved)
    await fail(tools, moved, 1)
    await tools.claim("ann", expired)
    assert await lost(tools) == ({1: 1}, 1), "released for another one"
    await fail(tools, expired, 2)
    await lapse(tools, expired)
    await tools.claim("bob", deleted)
    assert await lost(tools) == ({2: 1}, 2), "put back"
    await fail(tools, deleted, 3)
    await tools("manage_items", operation="delete", requestId=fresh_id(), ids=[deleted])
    assert await lost(tools) == ({3: 1}, 3), "deleted"
    await tools.claim("bob", unseen)
    await fail(tools, unseen, 2)
    await lapse(tools, unseen)
    await tools.claim("carl", unseen)
    await fail(tools, unseen, 1)
    await release(tools, "carl", unseen)
    assert await lost(tools) == ({2: 1, 1: 1}, 3), "taken over, and released"
    assert (await audit(tools.store, tools.project)).differences == []


async def test_losers_are_audited_while_their_item_is_held(tools: Client) -> None:
    item = await tools.add()
    key = keys.item.key(tools.project, item.replace("-", ""))
    await tools.claim("ann", item)
    await fail(tools, item, 2)
    assert await tools.store.command("HGET", key, "lo") == b"2"
    assert (await audit(tools.store, tools.project)).differences == []
    await release(tools, "ann", item)
    assert await tools.store.command("HEXISTS", key, "lo") == 0, "nothing remains on the item"
    await tools.store.command("HSET", key, "lo", 2)
    (found,) = (await audit(tools.store, tools.project)).differences
    assert "counts failed claims" in str(found)
    await tools.store.command("HDEL", key, "lo")


async def test_losers_at_several_front_ends_are_counted_together(fronts: Fronts, tools: Client) -> None:
    item = await tools.add()
    await tools.claim("ann", item)
    clients = [Client(front.store, tools.project) for front in await fronts.pair()]
    await asyncio.gather(*(fail(client, item, 8, f"front-{at}") for at, client in enumerate(clients)))
    await release(clients[0], "ann", item)
    assert await lost(tools) == ({5: 1}, 16)


# --- one process for all ------------------------------------------------------------------------


class Process:
    """The measuring part of a front-end."""

    def __init__(self, store: Store, name: str) -> None:
        self.recording = Recording(MemoryCells(), name)
        self.metrics = ItemMetrics(store, name, SETTINGS)

    async def round(self) -> bool:
        with recorded_in(self.recording):
            return await self.metrics.round()

    async def run(self) -> None:
        with recorded_in(self.recording):
            await self.metrics.run()

    @property
    def shown(self) -> tuple[float, float, float]:
        """Items in the queue and in work, and the age of the oldest."""
        queued, working = (counted(ITEMS, role, of=self.recording) for role in ("queue", "work"))
        return queued, working, counted(OLDEST_READY, of=self.recording)

    @property
    def held(self) -> float:
        return sum(by_bucket(CLAIM_HOLD, "released", of=self.recording))

    @property
    def losers(self) -> list[float]:
        """Ended claims, by bucket of losers."""
        return by_bucket(CLAIM_LOSERS, of=self.recording)


async def test_one_process_measures_all_projects_until_another_takes_over(alone: Store) -> None:
    for project, count in {"a": 2, "b": 3}.items():
        client = Client(alone, project)
        items = [await client.add() for _ in range(count)]
        await client.add(role="work")
        await client.claim("ann", items[0])
        await release(client, "ann", items[0])
    first, second = Process(alone, "h/fe-0"), Process(alone, "h/fe-1")
    assert await first.round()
    assert not await second.round()
    assert (first.shown[:2], second.shown, first.held, second.held) == ((5, 2), (0, 0, 0), 2, 0)
    assert first.shown[2] > 0
    assert await first.round()
    assert first.held == 2
    client = Client(alone, "a")
    item = await client.add()
    await client.claim("ann", item)
    await release(client, "ann", item)
    assert not await second.round()
    await first.metrics.stop()
    await first.run()
    assert await second.round()
    assert not await first.round()
    assert (first.shown, second.shown[:2], first.held, second.held) == ((0, 0, 0), (6, 2), 2, 1)


async def test_losers_are_reported_once_by_the_measuring_process(alone: Store) -> None:
    first, second = Process(alone, "h/fe-0"), Process(alone, "h/fe-1")
    client = Client(alone, "a")
    for losers in (0, 0, 2):
        item = await client.add()
        await client.claim("ann", item)
        await fail(client, item, losers)
        await release(client, "ann", item)
    assert [await process.round() for process in (first, second, first)] == [True, False, True]
    assert first.losers[:4] == [2, 0, 1, 0]
    assert sum(first.losers) == 3
    assert sum(second.losers) == 0


async def test_a_stopped_process_adds_its_counts_and_releases_the_lease(alone: Store) -> None:
    client = Client(alone, "a")
    item = await client.add()
    await client.claim("ann", item)
    await release(client, "ann", item)
    first, second = Process(alone, "h/fe-0"), Process(alone, "h/fe-1")
    running = asyncio.create_task(first.run())
    await wait_until(lambda: first.held == 1)
    assert not await second.round()
    await first.metrics.stop()
    await running
    assert await second.round()
    assert (first.held, second.held) == (1, 0)


async def test_projects_without_items_are_measured_only_for_a_while(alone: Store) -> None:
    projects, process = ProjectList(alone, "items"), Process(alone, "h/fe-0")
    for project in ("fresh", "old", "used"):
        client = Client(alone, project)
        item = await client.add()
        if project != "used":
            await client("manage_items", operation="delete", requestId=fresh_id(), ids=[item])
    long_ago = await server_time(alone) // 1000 - EMPTY_SECONDS - 60
    for project in ("old", "used"):
        await alone.command("ZADD", keys.item_projects.key(keys.FLEET), long_ago, project)
    await process.round()
    assert set(await projects.ages()) == {"fresh", "used"}
    # A new item there makes it measured again.
    await Client(alone, "old").add()
    assert set(await projects.ages()) == {"fresh", "used", "old"}


async def test_a_project_that_gets_items_during_a_measurement_stays(
    alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago = await server_time(alone) // 1000 - EMPTY_SECONDS - 60
    await alone.command("ZADD", keys.item_projects.key(keys.FLEET), long_ago, "old")
    before(monkeypatch, alone, "forget_project", Client(alone, "old").add)
    await Process(alone, "h/fe-0").round()
    assert [*await ProjectList(alone, "items").ages()] == ["old"]


async def test_a_project_that_could_not_be_recorded_is_recorded_with_the_next_change(
    alone: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = alone.run

    async def unavailable(script: Script[Any], *args: Any, **more: Any) -> Any:
        if script.name == "note_project":
            raise ToolFailure("store_unavailable", "the store does not answer")
        return await run(script, *args, **more)

    tools = Client(alone, "new")
    monkeypatch.setattr(alone, "run", unavailable)
    await tools.add()
    monkeypatch.undo()
    assert await ProjectList(alone, "items").ages() == {}
    await tools.add()
    assert [*await ProjectList(alone, "items").ages()] == ["new"]
