"""Items below held ones cost searches nothing: tests count commands, not time, and compare with a plain recount."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.store import Store, keys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from coordinator.store.record_layout import CLASS_SIZE, NO_COMPLEXITY
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.classes import ABANDONED, PARENT, PARENT_LEFT, READY
from coordinator.toolsets.items.rules.records import Score, parts_of, state_of
from coordinator.toolsets.items.rules.roles import PRIORITY_CODES, ROLE_CODES
from tests.items.client import Client, Json, fresh_id
from tests.items.moments import lapse, ms, server_time, state
from tests.items.parked import Fronts
from tests.items.query_world import set_creation
from tests.items.selectors import take
from tests.support import leaks

pytestmark = pytest.mark.anyio

FEW = 160
"""Commands of a call that reads a few items, including its record and events."""
MANY = 5000


async def commands(store: Store) -> int:
    """Commands run by the server, including those of scripts."""
    text = (await store.command("INFO", "commandstats")).decode()
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in text.splitlines() if line.startswith("cmdstat_"))


async def cost(tools: Client, call: Any) -> tuple[Any, int]:
    """The answer of a call, and the commands that it took."""
    before = await commands(tools.store)
    answer = await call
    return answer, await commands(tools.store) - before - 1


async def add_below(tools: Client, parents: list[str], count: int, **fields: Any) -> list[str]:
    """Items below several parents in turn."""
    made: list[str] = []
    while len(made) < count:
        specs = [
            {"title": "t", "parentId": parents[(len(made) + n) % len(parents)], **fields}
            for n in range(min(100, count - len(made)))
        ]
        made += [item["id"] for item in (await tools.create(*specs))["items"]]
    return made


@pytest.mark.parametrize("depth", [1, 3])
async def test_many_items_below_a_held_one_are_skipped_at_once(tools: Client, depth: int) -> None:
    root = await tools.add(role="work")
    parents = [root]
    for _ in range(depth - 1):
        parents = await add_below(tools, parents, 8 * len(parents), role="work")
    await add_below(tools, parents, MANY, priority="high", complexity=1)
    feature = await tools.add(role="work")
    small = await tools.add(priority="low", complexity=2, parentId=feature)
    large = await tools.add(priority="low")
    await tools.claim("holder", root)
    for selector, expected in (
        ({}, [small, large]),
        ({"priority": "high"}, []),
        ({"priority": "low"}, [small, large]),
        ({"complexityMax": 2}, [small]),
        ({"complexityMax": 1}, []),
        ({"parentId": feature}, [small]),
        ({"ancestorId": feature}, [small]),
        ({"role": "work"}, [feature]),
    ):
        found, taken = await cost(tools, tools.next(limit=20, **selector))
        assert found == expected, selector
        assert taken < FEW, (selector, taken)
    result, taken = await cost(tools, take(tools, "agent"))
    assert result["itemId"] == small
    assert taken < FEW
    required = await tools.add(priority="medium", requires=["gpu"])
    for agent, best in (("able", required), ("as able", large)):
        result, taken = await cost(tools, take(tools, agent, capabilities=["gpu"]))
        assert result["itemId"] == best
        assert taken < FEW, "also with sets of required capabilities"
    own, taken = await cost(tools, take(tools, "holder", {"priority": "high"}))
    assert own["outcome"] == "success"
    assert taken < FEW, "items below one's own claim are available"
    found, taken = await cost(tools, tools.next(limit=3))
    assert len(found) == 3
    assert taken < FEW, "the claim above has moved"


async def test_items_below_a_held_one_are_found_when_the_claim_ends(tools: Client) -> None:
    root = await tools.add(role="work")
    child = await tools.add(role="review", parentId=root)
    items = await add_below(tools, [root, child], 40, priority="high")
    other = await tools.add(priority="low")
    for end in ("release", "lapse", "take over", "delete"):
        await tools.claim("holder", root)
        assert await tools.next(limit=20) == [other]
        if end == "release":
            await tools.release("holder", root)
        elif end == "delete":
            await tools.update(child, parentId=None)
            items = [item for item in items if (await tools.get(item)).get("parentId") == child]
            await tools.delete(root, recursive=True)
        else:
            await lapse(tools, root)
        if end == "take over":
            await tools.claim("rival", root)
            assert await tools.next(limit=20) == [other]
            assert (await take(tools, "holder"))["itemId"] == other
            await tools.release("holder", other)
            await tools.release("rival", root)
        assert set(await tools.next(limit=20)) <= set(items)


async def test_each_of_many_held_items_is_skipped_once(tools: Client) -> None:
    features = [item for _ in range(3) for item in await tools.add_many(100, role="work")]
    await add_below(tools, features, 600, priority="high")
    rest = await tools.add(priority="low")
    for number, feature in enumerate(features):
        await tools.claim(f"holder-{number}", feature)
    assert await tools.next(limit=20) == [rest]
    found, taken = await cost(tools, tools.next(limit=20))
    assert found == [rest]
    assert taken < FEW
    result, taken = await cost(tools, take(tools, "agent"))
    assert result["itemId"] == rest
    assert taken < FEW
    own, taken = await cost(tools, take(tools, "holder-7"))
    assert (await tools.get(own["itemId"]))["parentId"] == features[7]
    assert taken < FEW
    assert (await audit(tools.store, tools.project)).differences == []


async def test_finished_subtrees_are_searched_once(tools: Client) -> None:
    """Stale bounds are corrected by the search that finds them, over as many runs as needed."""
    held = await tools.add(role="work")
    await add_below(tools, [held], 40, priority="high", complexity=1)
    features = [item for _ in range(3) for item in await tools.add_many(100, role="work")]
    done = await add_below(tools, features, 300, priority="high")
    for start in range(0, len(features), 30):  # the items of one call are of one moment
        await add_below(tools, features[start : start + 30], 30, priority="low")
    for start in range(0, len(done), 100):
        triggers = [{"itemId": item, "trigger": "complete"} for item in done[start : start + 100]]
        await tools("advance_item", transitions=triggers)
    await tools.claim("holder", held)
    expected = await tools.next(limit=3, priority="low", includeClaimed=True)  # held items are no matter there
    runs: list[str] = []
    tools.store.observe = lambda script, seconds, outcome, *_: runs.append(script)
    assert await tools.next(limit=3) == expected
    assert 3 < len(runs) < 12
    found, taken = await cost(tools, tools.next(limit=3))
    assert found == expected
    assert taken < 2 * FEW, "all features with tasks of the same millisecond are opened"
    assert (await audit(tools.store, tools.project)).differences == []


async def wall(tools: Client) -> str:
    """A held item with so many items below it that searches leave the ranked index; it comes first."""
    held = await tools.add(role="review")
    await add_below(tools, [held], 8, priority="high", complexity=1)
    await tools.claim("mason", held)
    return held


@pytest.mark.every_store
async def test_released_items_are_found_again(tools: Client) -> None:
    """Meanwhile other searches have found nothing ready below its parent."""
    await wall(tools)
    feature = await tools.add(role="work")
    child = await tools.add(role="work", parentId=feature)
    task = await tools.add(parentId=child)
    other = await tools.add(priority="low")
    for back in ("another claim", "a release", "an expired claim", "an expired claim above", "a reopening"):
        assert await tools.next(limit=5) == [task, other]
        held = feature if back == "an expired claim above" else task
        await tools.claim("agent", held)
        assert await tools.next(limit=5) == [other]
        if back == "another claim":
            assert (await take(tools, "agent"))["itemId"] == other
            await tools.claim("agent", child)
            await tools.release("agent", child)
        elif back == "a release":
            await tools.release("agent", task)
        elif held == feature or back == "an expired claim":
            await lapse(tools, held)
        else:
            await tools.advance(task, "complete", "agent")
            await tools.release("agent", task)
            await tools.move(task, "reopen")
    assert await tools.next(limit=5) == [task, other]


async def test_claims_that_expire_together_with_an_ancestors_are_found_again(tools: Client) -> None:
    await wall(tools)
    feature, other = await tools.add(role="work"), await tools.add(priority="low")
    first, second = await tools.add_many(2, parentId=feature)
    await tools.claim("agent", feature)
    await tools.claim("helper", first)
    assert await tools.next(limit=5) == [other]
    await tools.advance(second, "cancel")
    for held in (first, feature):
        await lapse(tools, held)
    assert await tools.next(limit=5) == [first, other]
    assert (await audit(tools.store, tools.project)).differences == []


async def test_an_item_released_by_a_call_without_further_matches_is_found(tools: Client, fronts: Fronts) -> None:
    """A claim expires and its item goes to a parked call; then the search finds nothing there."""
    await wall(tools)
    feature, other = await tools.add(role="work"), await tools.add(priority="low")
    expired, own = [await tools.add(parentId=feature, complexity=number, tags=f"t{number}") for number in (1, 2)]
    await tools.claim("holder", expired)
    await tools.claim("agent", own)
    call = await (await fronts.make()).park("waiter", {"tags": "t1"})
    await lapse(tools, expired)
    assert (await take(tools, "agent"))["itemId"] == other
    assert await call.item() == expired
    assert await tools.next(limit=5) == [own]
    assert (await audit(tools.store, tools.project)).differences == []


async def test_items_completed_below_a_held_one_leave_no_bounds(tools: Client) -> None:
    await wall(tools)
    feature, other = await tools.add(role="work"), await tools.add(priority="low")
    task = await tools.add(parentId=feature)
    await tools.claim("agent", feature)
    assert await tools.next(limit=5) == [other]
    await tools.advance(task, "cancel")
    await tools.release("agent", feature)
    assert (await audit(tools.store, tools.project)).differences == []
    assert await tools.next(limit=5) == [other]


async def test_the_best_item_below_a_released_one_may_be_deeper(tools: Client) -> None:
    await wall(tools)
    feature, other = await tools.add(role="work"), await tools.add(complexity=5)
    below = await tools.add(parentId=feature, role="work")
    best, worst = await tools.add(parentId=below, complexity=1), await tools.add(parentId=feature, complexity=9)
    await tools.claim("agent", feature)
    assert await tools.next(limit=5) == [other]
    await tools.release("agent", feature)
    assert await tools.next(limit=5) == [best, other, worst]


async def test_the_best_item_may_be_deeper_after_better_ones_are_done(tools: Client) -> None:
    await wall(tools)
    feature, other = await tools.add(role="work"), await tools.add(complexity=5)
    below = await tools.add(parentId=feature, role="work")
    best, worst = await tools.add(parentId=below, complexity=2), await tools.add(parentId=feature, complexity=9)
    await tools.advance(await tools.add(parentId=feature, complexity=1), "cancel")
    for _ in range(2):
        assert await tools.next(limit=5) == [best, other, worst]


async def test_moved_items_are_found_at_their_new_place(tools: Client) -> None:
    held = await wall(tools)
    feature, other = await tools.add(role="work"), await tools.add(role="work")
    task = await tools.add(parentId=feature, priority="low")
    for parent, found in ((other, [task]), (held, []), (other, [task]), (None, [task])):
        await tools.update(feature, parentId=parent)
        assert await tools.next(limit=5) == found
        assert (await audit(tools.store, tools.project)).differences == []
    await tools.claim("agent", feature)
    assert await tools.next(limit=5) == []
    await tools.update(feature, parentId=other)
    await tools.release("agent", feature)
    assert await tools.next(limit=5) == [task]
    await tools.delete(feature, recursive=True)
    assert (await audit(tools.store, tools.project)).differences == []
    assert await tools.next(limit=5) == []


async def test_many_features_with_tasks_of_one_moment_are_searched(tools: Client, redis_url: str) -> None:
    """More of them than one run opens, and nothing to correct."""
    await wall(tools)
    top = await tools.add(role="work")
    features = await add_below(tools, [top], 160, role="work")
    tasks = await add_below(tools, features, len(features), priority="low")
    set_creation(redis_url, tools.project, dict.fromkeys(tasks, ms("2026-01-01T00:00:00Z")))
    for asked in ({}, {"ancestorId": top}) * 2:
        assert await tools.next(limit=2, **asked) == sorted(tasks)[:2]


# --- random histories

ROLES = ("queue", "queue", "work")
AGENTS = "abc"
agents, index = st.sampled_from(AGENTS), st.integers(0, 40)
priorities = st.sampled_from(tuple(PRIORITY_CODES))
added = st.fixed_dictionaries(
    {"parent": st.none() | index, "role": st.sampled_from(ROLES), "priority": priorities},
    optional={"complexity": st.integers(1, 10)},
)
selectors = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(("work", "blocked")),
        "priority": priorities,
        "complexityMax": st.integers(1, 10),
        "parentId": index,
    },
)
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(added, min_size=1, max_size=5)),
    st.tuples(st.just("claim"), agents, index),
    st.tuples(st.just("claim"), agents, index),
    st.tuples(st.just("take"), agents, selectors),
    st.tuples(st.just("take"), agents, selectors),
    st.tuples(st.just("release"), agents),
    st.tuples(st.just("lapse"), agents),
    st.tuples(st.just("move"), index, st.none() | index),
    st.tuples(st.just("rank"), index, priorities),
    st.tuples(st.just("advance"), agents, index, st.sampled_from(("start", "complete", "block", "resume", "reopen"))),
    st.tuples(st.just("link"), index, index),
    st.tuples(st.just("delete"), index, st.booleans()),
)


class World:
    """Items behind many others below a held item, which every search has to skip."""

    def __init__(self, tools: Client, client: redis.Redis) -> None:
        self.tools = tools
        self.client = client
        self.ids: list[str] = []

    async def begin(self) -> None:
        wall = await self.tools.add(role="review")
        brick = {"title": "t", "parentId": wall, "complexity": 1}
        await self.tools.create(
            *(
                {**brick, "role": role, "priority": one}
                for role in set(ROLES)
                for one in PRIORITY_CODES
                for _ in "12345"
            )
        )
        await self.tools.claim("mason", wall)

    def pick(self, number: int) -> str:
        return self.ids[number % len(self.ids)] if self.ids else fresh_id()

    def found(self, selector: Json, agent: str, now: int, abandoned: bool) -> list[str]:
        """The expected results of a search, from the items' own fields.

        Args:
            abandoned: whether a search without a role also finds abandoned items, as claims do.
        """
        prefix = keys.item.key(self.tools.project, "").decode()
        names = list(self.client.scan_iter(f"{prefix}*", count=1000))
        with self.client.pipeline(transaction=False) as reads:
            for name in names:
                reads.hmget(name, "w", "pa")
            rows = reads.execute()
        items = {
            name.decode().removeprefix(prefix): (state_of(record.hex()), (parent or b"").decode())
            for name, (record, parent) in zip(names, rows, strict=True)
        }

        scope = (selector.get("parentId") or selector.get("ancestorId") or "").replace("-", "")

        def keepers(item: str) -> set[str]:
            above, found = items[item][1], set[str]()
            while above and above != scope:
                state = items[above][0]
                if state.expires > now:
                    found.add(state.holder)
                above = items[above][1]
            return found - {agent}

        def path(item: str) -> set[str]:
            above = items[item][1]
            return {above} | path(above) if above else set()

        def on_offer(score: Score) -> bool:
            if "role" in selector or not abandoned:
                states = (READY, ABANDONED) if abandoned else (READY, ABANDONED, PARENT, PARENT_LEFT)
                return score.role == ROLE_CODES[selector.get("role", "queue")] and score.state in states
            return score.state == ABANDONED or (score.role == ROLE_CODES["queue"] and score.state == READY)

        def rank(item: str) -> tuple[int, bool, int, str]:
            score = parts_of(items[item][0].score)
            by_state = abandoned and "role" not in selector and score.state != ABANDONED
            return score.priority, by_state, items[item][0].score % CLASS_SIZE, item

        def suits(item: str) -> bool:
            score = parts_of(items[item][0].score)
            return (
                on_offer(score)
                and ("priority" not in selector or score.priority == PRIORITY_CODES[selector["priority"]])
                and ("complexityMax" not in selector or score.complexity <= selector["complexityMax"] < NO_COMPLEXITY)
                and ("parentId" not in selector or items[item][1] == selector["parentId"].replace("-", ""))
                and ("ancestorId" not in selector or selector["ancestorId"].replace("-", "") in path(item))
                and not keepers(item)
            )

        ordered = sorted(filter(suits, items), key=rank)
        dashed = {one.replace("-", ""): one for one in self.ids}
        return [dashed[item] for item in ordered]

    def asked(self, selector: Json) -> Json:
        return {**selector, "parentId": self.pick(selector["parentId"])} if "parentId" in selector else selector

    async def check(self, agent: str, selector: Json) -> None:
        await self.tools.next()  # puts expired claims back
        for more in ({}, {"ancestorId": self.pick(len(agent))} if self.ids else {}):
            asked = {**self.asked(selector), **more}
            if "parentId" in asked and not self.ids:
                continue
            expected = self.found(asked, "", await server_time(self.tools.store), abandoned=False)
            assert await self.tools.next(limit=20, **asked) == expected[:20], asked

    async def held(self, agent: str) -> str:
        item = await self.tools.store.command("HGET", keys.agents.key(self.tools.project), agent)
        return next((one for one in self.ids if item and one.replace("-", "") == item.decode()), "")

    async def add(self, items: list[Json]) -> None:
        specs = []
        for drawn in items:
            spec = {"title": "t", **drawn}
            parent = spec.pop("parent")
            specs.append(spec if parent is None or not self.ids else {**spec, "parentId": self.pick(parent)})
        self.ids += [item["id"] for item in (await self.tools.create(*specs)).get("items", [])]

    async def claim(self, agent: str, number: int) -> None:
        await self.tools.claim(agent, self.pick(number))

    async def take(self, agent: str, selector: Json) -> None:
        asked = self.asked(selector)
        if "parentId" in asked and not self.ids:
            return
        await self.tools.next()  # puts expired claims back, as the claim will
        expected = self.found(asked, agent, await server_time(self.tools.store), abandoned=True)
        result = await take(self.tools, agent, asked)
        assert result.get("itemId") == (expected[0] if expected else None), asked

    async def release(self, agent: str) -> None:
        if item := await self.held(agent):
            await self.tools.release(agent, item)

    async def lapse(self, agent: str) -> None:
        item = await self.held(agent)
        if item and (await state(self.tools, item)).expires > await server_time(self.tools.store):
            await lapse(self.tools, item)

    async def move(self, number: int, parent: int | None) -> None:
        await self.tools.update(self.pick(number), parentId=None if parent is None else self.pick(parent))

    async def rank(self, number: int, priority: str) -> None:
        await self.tools.update(self.pick(number), priority=priority)

    async def advance(self, agent: str, number: int, trigger: str) -> None:
        await self.tools.advance(self.pick(number), trigger, agent)

    async def link(self, one: int, other: int) -> None:
        await self.tools.try_link(self.pick(one), self.pick(other))

    async def delete(self, number: int, recursive: bool) -> None:
        await self.tools.delete(self.pick(number), recursive=recursive)
        self.ids = [item for item in self.ids if await self.tools.exists(item)]


@asynccontextmanager
async def a_world(store: Store, redis_url: str) -> AsyncIterator[World]:
    """A project that is audited and deleted afterwards."""
    tools = Client(store, f"t{fresh_id()[:13]}")
    with redis_client(parse(redis_url), tools.project) as client:
        try:
            world = World(tools, client)
            await world.begin()
            yield world
            assert (await audit(store, tools.project)).differences == []
        finally:
            leaks.delete_keys(client, tools.project)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(st.tuples(steps, agents, selectors), min_size=6, max_size=24))
async def test_searches_match_a_recount(store: Store, redis_url: str, history: list[Any]) -> None:
    async with a_world(store, redis_url) as world:
        await world.add([{"parent": None, "role": "queue", "priority": "medium"}] * 2)
        for (what, *words), agent, selector in history:
            await getattr(world, what)(*words)
            await world.check(agent, selector)
