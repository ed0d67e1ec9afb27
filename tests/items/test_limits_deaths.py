"""Front-ends and the server die while claims with resources, renewals that take more, and reports of usage are made.

Nothing leaks and nothing counts twice, and never is more held than there is, whatever dies when.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.embedded.server import EmbeddedServer
from coordinator.toolsets.items.audit import audit
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.store.measures.items import MeasureStore
from coordinator.toolsets.items.store.usage import read_usage
from tests.items.client import SETTINGS, Client, Json, actor, fresh_id
from tests.items.fronts import CONFIG, Front, World
from tests.items.recurrence import age, occurrences
from tests.items.resources import demand, held
from tests.support.servers import kill
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

CAPACITY = {"gpu": 3, "pool": 2}
USED: Json = {"inputTokens": 5, "outputTokens": 2, "costMicroUsd": 3, "wallMs": 1, "model": "m"}
TOKENS = 7
DEMANDS = (
    [demand("gpu", units=2)],
    [demand("gpu/0"), demand("pool", "shared")],
    [demand("pool")],
    [demand("pool/a"), demand("z")],
)
LIMITED = msgspec.structs.replace(SETTINGS, resources=CAPACITY)
CAPACITIES = schema_config(msgspec.convert({"resources": CAPACITY}, Settings))
FURTHER = ([demand("gpu/1")], [demand("pool/b")], [demand("z", "shared")])


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[list[Front]]:
    folder = tmp_path_factory.mktemp("limits")
    config = {**CONFIG, "resources": CAPACITY}
    found = [Front(folder / f"front-{number}", redis_url, config) for number in range(3)]
    with contextlib.ExitStack() as stack:
        for front in found:
            stack.enter_context(front.proxy)
            stack.callback(front.close)
        for front in found:
            front.ready()
        yield found


@pytest.fixture
def three(processes: list[Front]) -> list[Front]:
    """The front-ends, all alive."""
    for front in processes:
        front.revive()
    return processes


async def never_too_much(tools: Client) -> None:
    """What is reserved for items that have waited long is not held."""
    levels = (await MeasureStore(tools.store).measure(tools.project, CAPACITIES)).resources
    for key, most in CAPACITY.items():
        assert levels[key].exclusive <= most, levels


async def tokens(tools: Client) -> int:
    return (await read_usage(tools.store, tools.project, "agent", 10)).total.tokens


@pytest.fixture
def limited(store: Store, project: str) -> Client:
    return Client(store, project, LIMITED)


# --- one call at a time

CALLS: dict[str, tuple[str, str, Json]] = {
    "claim": ("claim_item", "claims", {}),
    "selector": ("claim_next", "claims", {"selector": {}}),
    "renewal": ("claim_item", "claims", {"resources": [demand("gpu/1")]}),
    "release": ("claim_item", "releases", {}),
    "end": ("advance_item", "transitions", {"trigger": "complete", "actor": actor("ann")}),
}
"""By kind: the operation, the list with the one element, and what that has."""
HOLDS: dict[str, Json] = {
    "claim": {"gpu": "2.0.0.0"},
    "selector": {"gpu": "2.0.0.0"},
    "renewal": {"gpu": "2.0.1.0", "gpu/1": "1.0.0.0"},
}


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        pytest.param(kind, point, marks=pytest.mark.chaos if number % 2 == (point == "asked") else ())
        for number, kind in enumerate(CALLS)
        for point in ("asked", "recorded")
    ],
)
async def test_a_front_end_dies_in_the_middle_of_a_call(
    three: list[Front], limited: Client, kind: str, point: str
) -> None:
    """Before the store has the call, or before its answer is back; others are asked again, and it arrives after all."""
    (dies, other, third), project = three, limited.project
    item = await limited.add(resources=DEMANDS[0])
    if kind not in ("claim", "selector"):
        assert (await limited.claim("ann", item))["outcome"] == "success"
    function, part, more = CALLS[kind]
    element = {"itemId": item, **more, "usage": USED}
    if kind == "selector":
        del element["itemId"]
    tool = "advance_item" if kind == "end" else "claim_item"
    call: Json = {part: [element], "requestId": fresh_id()}
    call |= {} if kind == "end" else {"actor": actor("ann")}
    hold = dies.proxy.requests if point == "asked" else dies.proxy.replies
    hold.marker = f"fleet_items_{function}_".encode() if point == "asked" else item.replace("-", "").encode()
    asked = asyncio.create_task(asyncio.to_thread(dies.call, project, tool, **call))
    assert await asyncio.to_thread(hold.held.wait, 60)
    dies.kill()
    assert await asked is None
    answer = await asyncio.to_thread(other.call, project, tool, **call)
    dies.proxy.requests.free.set()
    if point == "asked":
        assert await asyncio.to_thread(dies.proxy.answered.wait, 60)
    assert await asyncio.to_thread(third.call, project, tool, **call) == answer is not None
    assert await held(limited) == HOLDS.get(kind, {})
    assert await tokens(limited) == TOKENS
    assert (await audit(limited.store, project)).differences == []


# --- many agents

Call = Callable[..., Json]


def work(agent: str, chance: random.Random, call: Call) -> int:
    """One round of an agent: it claims, renews with more, and releases, or dies. Returns how often it has reported."""
    who, asked = actor(agent), {"selector": {}, "ttlSeconds": 1, "usage": USED}
    (claim,) = call("claim_item", actor=who, requestId=fresh_id(), claims=[asked])["claimResults"]
    if claim["outcome"] != "success":
        return 0
    entry = {"itemId": claim["itemId"], "usage": USED}
    reported = 1
    for _ in range(chance.randrange(3)):
        further = {**entry, "ttlSeconds": 1, "resources": chance.choice(FURTHER)}
        (more,) = call("claim_item", actor=who, requestId=fresh_id(), claims=[further])["claimResults"]
        reported += more["outcome"] == "success"
    way = chance.random()
    if way < 0.2:
        return reported  # it dies, or does not give it back
    if way < 0.4:
        step = {**entry, "trigger": "start", "actor": who}
        reported += call("advance_item", requestId=fresh_id(), transitions=[step])["results"][0]["applied"]
    (ended,) = call("claim_item", actor=who, requestId=fresh_id(), releases=[entry])["releaseResults"]
    return reported + (ended["outcome"] == "success")


async def must_come_to_rest(limited: Client, reported: int) -> None:
    """Nothing is held once all claims have ended, and what was used is what agents have reported."""

    async def ended() -> bool:
        await limited.claiming.claims.expire(limited.project)
        return await held(limited) == {}

    await wait_until(ended, what="the end of all claims")
    assert await tokens(limited) == reported * TOKENS
    report = await audit(limited.store, limited.project)
    assert (report.differences, report.unjudged) == ([], [])


async def made(limited: Client) -> None:
    await limited.create(*({"title": "x", "resources": DEMANDS[n % len(DEMANDS)]} for n in range(16)))


@pytest.mark.chaos
async def test_agents_work_on_while_front_ends_are_killed(three: list[Front], limited: Client) -> None:
    await made(limited)
    world, reported = World(three, limited.project, 34), [0] * 6

    def live(number: int) -> None:
        try:
            while not world.over.is_set():
                reported[number] += work(f"agent-{number}", world.chance, world.call)
        except BaseException as problem:
            world.problems.append(problem)
            world.over.set()

    agents = [threading.Thread(target=live, args=(number,)) for number in range(len(reported))]
    for agent in agents:
        agent.start()
    try:
        for front in three * 2:
            before = sum(reported)

            async def went_on(before: int = before) -> bool:
                await never_too_much(limited)
                return world.over.is_set() or sum(reported) > before + 15

            await wait_until(went_on, what="progress")
            front.kill()
            await asyncio.to_thread(front.revive)
    finally:
        world.over.set()
        for agent in agents:
            await asyncio.to_thread(agent.join)
    assert world.problems == []
    await must_come_to_rest(limited, sum(reported))


# --- the server

KILLS = 3


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """One of the test's own, whose data is on disk before it answers."""
    server = EmbeddedServer(tmp_path / "data")
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop)


async def test_agents_work_on_while_the_server_is_killed(server: EmbeddedServer) -> None:
    """Three front-ends lose it, and whatever they were doing; agents repeat what has not been answered."""
    stores = [Store(server.url, timeout_ms=5000) for _ in range(3)]
    for store in stores:
        await store.open()
    fronts = [Client(store, "default", LIMITED) for store in stores]
    await made(fronts[0])
    loop, over, reported, lost = asyncio.get_running_loop(), threading.Event(), [0] * 4, [0]

    def call(tool: str, **arguments: Any) -> Json:
        async def answer() -> Json | None:
            try:
                return await random.choice(fronts)(tool, **arguments)
            except ToolFailure as failure:
                if failure.code not in ("store_unavailable", "deadline_exceeded"):
                    raise
                lost[0] += 1
                await asyncio.sleep(0)
                return None

        while (found := asyncio.run_coroutine_threadsafe(answer(), loop).result()) is None:
            pass
        return found

    def live(number: int) -> None:
        chance = random.Random(number)
        while not over.is_set():
            reported[number] += work(f"agent-{number}", chance, call)

    def went_on(enough: int) -> bool:
        return sum(reported) > enough

    agents = [asyncio.create_task(asyncio.to_thread(live, number)) for number in range(len(reported))]
    try:
        for _ in range(KILLS):
            enough = sum(reported) + 20
            await wait_until(partial(went_on, enough), what="progress")
            await never_too_much(fronts[0])
            kill(server)
            await wait_until(lambda: server.poll() is not None, what="the server's end")
            await asyncio.to_thread(server.start)
            await wait_until(lambda: all(store.connected for store in stores), what="the links")
    finally:
        over.set()
        await asyncio.gather(*agents)
    assert lost[0] > 0
    await must_come_to_rest(fronts[0], sum(reported))
    for store in stores:
        await store.close()


# --- recurrence


async def test_each_occurrence_is_made_once_although_processes_are_killed(three: list[Front], limited: Client) -> None:
    """Whenever one dies that has begun to make what has been missed for ten hours; and after all have died."""
    recurs = {"cron": "*/10 * * * *", "missed": "all", "overlap": "allow"}
    item = await limited.add("report", recurs=recurs, budget={"tokens": 5}, resources=DEMANDS[0])
    await limited.claiming.claims.expire(limited.project)
    await age(limited, item, 36_000_000)

    async def made(least: int) -> bool:
        return len(await occurrences(limited, item)) >= least

    for least, front in zip((1, 21, 41), three, strict=True):
        assert await asyncio.to_thread(front.call, limited.project, "query_items", operation="search") is not None
        await wait_until(partial(made, least), what=f"{least} occurrences")
        front.kill()
    await asyncio.to_thread(three[0].revive)
    assert await asyncio.to_thread(three[0].call, limited.project, "query_items", operation="search") is not None
    await wait_until(partial(made, 60), what="all occurrences")
    await limited.claiming.claims.expire(limited.project)
    found = await occurrences(limited, item)
    # One more if the clock has passed a time of its own meanwhile.
    assert len({one["notBefore"] for one in found}) == len(found) in (60, 61)
    assert all((one["budget"], one["resources"]) == ({"tokens": 5}, DEMANDS[0]) for one in found)
    assert (await audit(limited.store, limited.project)).differences == []
