"""Agents and front-ends that die at any point of an agent's loop: claim with includes, start, complete with a result.

Three front-ends, each a process with a connection of its own to the store. Every item's result is computed from those
of its blockers, as the claim includes them, so the last results show whether any was lost, doubled or stale.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator
from itertools import product

import pytest

from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.fronts import AGENTS, INCLUDE, ITEMS, Front, World
from tests.items.results import included, notes_of, read
from tests.support.history import Event, recorded
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

TERMINAL = 3


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[list[Front]]:
    folder = tmp_path_factory.mktemp("deaths")
    found = [Front(folder / f"front-{number}", redis_url) for number in range(3)]
    with contextlib.ExitStack() as stack:
        for front in found:
            stack.enter_context(front.proxy)
        for front in found:
            front.ready()
        yield found
        for front in found:
            front.revive()
            front.command.clean_up()


@pytest.fixture
def three(processes: list[Front]) -> list[Front]:
    """The front-ends, all alive."""
    for front in processes:
        front.revive()
    return processes


def events(redis_url: str, project: str, kind: str, item: str) -> list[Event]:
    inner = item.replace("-", "")
    return [event for event in recorded(redis_url, project) if (event.kind, event.item) == (kind, inner)]


async def pair(tools: Client) -> tuple[str, str]:
    """A finished item with a result, and the one that depends on it."""
    first, second = await tools.add("first"), await tools.add("second", description="d")
    await tools.link(first, second)
    await tools.advance(first, "complete", result={"n": 1})
    return first, second


# --- one call at a time -----------------------------------------------------------------------


STEPS = ("claim by id", "claim by selector", "start", "complete")


@pytest.mark.parametrize(("step", "point"), [*product(STEPS, ("asked", "recorded")), ("complete", "answered")])
async def test_a_front_end_dies_in_the_middle_of_a_call(
    three: list[Front], tools: Client, redis_url: str, step: str, point: str
) -> None:
    """Before the store has the call, before its answer is back, or after; another one gives the same answer."""
    project, (dies, other, third) = tools.project, three
    _, item = await pair(tools)
    claim: Json = {"actor": actor("ann"), "requestId": fresh_id(), "include": INCLUDE}
    claim["claims"] = [{"selector": {}} if step == "claim by selector" else {"itemId": item}]
    tool, call, kind = "claim_item", claim, "claim"
    if not step.startswith("claim"):
        held = (await tools("claim_item", **claim))["claimResults"][0]
        transition = {"itemId": item, "trigger": step, "actor": actor("ann"), "fenceToken": held["fenceToken"]}
        if step == "complete":
            transition["result"] = {"sum": 2}
        tool, call, kind = "advance_item", {"transitions": [transition], "requestId": fresh_id()}, "transition"
    function = {"claim by id": "claim_item", "claim by selector": "claim_next"}.get(step, "advance_item")
    if point == "asked":
        dies.proxy.requests.marker = f"fleet_items_{function}_".encode()
    elif point == "recorded":
        dies.proxy.replies.marker = item.replace("-", "").encode()
    asked = asyncio.create_task(asyncio.to_thread(dies.call, project, tool, **call))
    if point == "answered":
        first = await asked
        assert first is not None
        dies.kill()
    else:
        hold = dies.proxy.requests if point == "asked" else dies.proxy.replies
        assert await asyncio.to_thread(hold.held.wait, 60)
        assert len(events(redis_url, project, kind, item)) == (point == "recorded")
        dies.kill()
        assert await asked is None
        first = None
    answer = await asyncio.to_thread(other.call, project, tool, **call)
    assert answer is not None
    assert first in (None, answer)
    dies.proxy.requests.free.set()  # the call of the dead process arrives after all
    if point == "asked":
        assert await asyncio.to_thread(dies.proxy.answered.wait, 60)
    assert await asyncio.to_thread(third.call, project, tool, **call) == answer
    assert len(events(redis_url, project, kind, item)) == 1
    if kind == "claim":
        (entry,) = answer["claimResults"]
        assert (entry["outcome"], entry["itemId"]) == ("success", item)
        assert included(entry)["item"] == await tools.get(item)
        assert [one["result"] for one in entry["results"]] == [{"n": 1}]
    else:
        assert answer["results"][0]["applied"]
        results = [read(note) for note in await notes_of(tools, item) if note["key"] == "result"]
        assert results == ([{"sum": 2}] if step == "complete" else [])
    assert (await audit(tools.store, project)).differences == []


async def test_a_front_end_dies_with_a_parked_call(three: list[Front], tools: Client, redis_url: str) -> None:
    """The item is handed to the call; its retry elsewhere gets it with everything that it asked for."""
    project, (dies, other, third) = tools.project, three
    first, second = await tools.add("first", role="work"), await tools.add("second")
    await tools.link(first, second)
    call: Json = {"actor": actor("ann"), "requestId": fresh_id(), "include": INCLUDE, "claims": [{"selector": {}}]}
    asked = asyncio.create_task(asyncio.to_thread(dies.call, project, "claim_item", **call, waitMs=40_000))
    key = f"fc:{{{project}}}:wg"
    await wait_until(lambda: tools.store.command("ZCARD", key), what="the parked call")
    dies.kill()
    assert await asked is None
    await tools.advance(first, "complete", result="text")
    answers = [
        await asyncio.to_thread(front.call, project, "claim_item", **call, waitMs=40_000) for front in (other, third)
    ]
    assert answers[0] == answers[1] is not None
    (entry,) = answers[0]["claimResults"]  # type: ignore[index]
    assert (entry["itemId"], [one["result"] for one in entry["results"]]) == (second, ["text"])
    assert entry["item"]["title"] == "second"
    assert len(events(redis_url, project, "claim", second)) == 1
    assert (await audit(tools.store, project)).differences == []


# --- many agents ------------------------------------------------------------------------------

POINTS = ("claimed", "started", "completed")


@pytest.mark.chaos
async def test_every_result_is_right_although_agents_and_front_ends_die(
    three: list[Front], tools: Client, redis_url: str
) -> None:
    seed = 20261126
    chance = random.Random(seed)
    ids = await tools.add_many(ITEMS, tags="deaths")
    blockers = {n: sorted(chance.sample(range(n), min(n, chance.randrange(3)))) for n in range(ITEMS)}
    await tools.link_all([(ids[blocker], ids[n]) for n, of in blockers.items() for blocker in of])
    expected: list[int] = []
    for n in range(ITEMS):
        expected.append(1 + sum(expected[blocker] for blocker in blockers[n]))
    world = World(three, tools.project, seed)
    agents = [threading.Thread(target=world.live, args=(f"agent-{n}",)) for n in range(AGENTS)]
    for agent in agents:
        agent.start()

    async def left() -> int:
        found = await tools("query_items", operation="search", role="terminal", tags="deaths", limit=1)
        return ITEMS - int(found["total"])

    try:
        for front in (*three, three[0]):
            before = await left()

            async def advanced(before: int = before) -> bool:
                return world.over.is_set() or await left() < max(1, before - 2)

            await wait_until(advanced, what="progress")
            front.kill()
            await asyncio.to_thread(front.revive)

        async def done() -> bool:
            return world.over.is_set() or not await left()

        await wait_until(done, timeout=120, what="all items")
    finally:
        world.over.set()
        for agent in agents:
            await asyncio.to_thread(agent.join)
    assert world.problems == []
    for n, item in enumerate(ids):
        assert [read(note) for note in await notes_of(tools, item)] == [{"sum": expected[n]}], f"item {n}"
        ends = [event for event in events(redis_url, tools.project, "transition", item) if event.after == TERMINAL]
        assert len(ends) == 1
    assert set(world.deaths) == set(POINTS)
    assert (await audit(tools.store, tools.project)).differences == []
