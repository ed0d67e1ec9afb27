"""Agents and front-ends that die at any point of an agent's loop: claim with includes, start, complete with a result.

Three front-ends, each a process with a connection of its own to the store. Every item's result is computed from those
of its blockers, as the claim includes them, so the last results show whether any was lost, doubled or stale.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import random
import signal
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.toolsets.items.audit import audit
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.test_included import included
from tests.items.test_results import notes_of, read
from tests.support.fleets import MCP_HEADERS, RunningCommand, call_body
from tests.support.held import Hold, HoldingProxy
from tests.support.history import Event, recorded
from tests.support.wait import wait_until, wait_until_sync

pytestmark = pytest.mark.anyio

INCLUDE = ["item", "notes", "results"]
CONFIG: Json = {"attempts": {"max": 0, "backoff_seconds": 0}}
"""Items of dead agents are offered again at once."""
HEADERS = {**MCP_HEADERS, "accept": "application/json"}
"""So that calls which wait are answered with one message, too."""
TERMINAL = 3


class Front:
    """A front-end process that can be killed, with a proxy before its store."""

    def __init__(self, folder: Path, redis_url: str, config: Json = CONFIG) -> None:
        self._folder, self._config = folder, config
        self._started = 0
        self.proxy = HoldingProxy(redis_url)
        self.port = 0
        self.begin()

    def begin(self) -> None:
        """Starts the process."""
        self._started += 1
        config = self._folder / "config.yaml"
        self._folder.mkdir(exist_ok=True)
        config.write_bytes(msgspec.yaml.encode(self._config))
        arguments = ("serve", "--port", "0", "--frontends", "1", "--config", str(config))
        output, data = self._folder / f"output-{self._started}", str(self._folder / "data")
        self._command = RunningCommand(output, *arguments, "--data-dir", data, FLEET_REDIS_URL=self.proxy.url)

    def ready(self) -> None:
        """Waits until it serves."""
        line = self._command.wait_ready()
        self.port = int(line.split("ready at ")[1].split()[0].rsplit(":", 1)[1])

    def revive(self) -> None:
        """Starts it again, if it is dead, and forgets what was held back."""
        for hold in (self.proxy.requests, self.proxy.replies):
            hold.free.set()
        self.proxy.requests, self.proxy.replies, self.proxy.answered = Hold(), Hold(), threading.Event()
        if self._command.process.poll() is not None:
            self.begin()
            self.ready()

    def close(self) -> None:
        """Ends the process, and what was held back."""
        for hold in (self.proxy.requests, self.proxy.replies):
            hold.free.set()
        self._command.clean_up()

    def kill(self) -> None:
        self._command.end(signal.SIGKILL)

    def call(self, project: str, tool: str, **arguments: Any) -> Json | None:
        """The structured result; None: the process died first, or does not serve."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", f"/p/{project}/mcp/items", call_body(tool, arguments), HEADERS)
            answer = msgspec.json.decode(connection.getresponse().read())
        except (OSError, http.client.HTTPException, msgspec.DecodeError):
            return None
        finally:
            connection.close()
        if answer["result"]["isError"]:
            assert answer["result"]["structuredContent"]["error"]["kind"] != "permanent", answer
            return None
        return dict(answer["result"]["structuredContent"])


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
            front._command.clean_up()


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

ITEMS, AGENTS, TTL_SECONDS = 30, 5, 3
POINTS = ("claimed", "started", "completed")


class World:
    """What the agents of a run share."""

    def __init__(self, fronts: list[Front], project: str, seed: int) -> None:
        self.fronts = fronts
        self.project = project
        self.chance = random.Random(seed)
        self.over = threading.Event()
        self.deaths: list[str] = []
        self.problems: list[BaseException] = []

    def call(self, tool: str, **arguments: Any) -> Json:
        """Makes a call, and repeats it at other front-ends until one answers."""

        def answer() -> Json | None:
            front = self.chance.choice(self.fronts)
            return front.call(self.project, tool, **arguments) if front.port else None

        return wait_until_sync(answer, what=f"an answer of {tool}") or {}

    def dies(self, point: str) -> bool:
        """Whether an agent dies now: at each point a few times."""
        if self.deaths.count(point) >= 3 or self.chance.random() > 0.3:
            return False
        self.deaths.append(point)
        return True

    def live(self, name: str) -> None:
        """An agent; when it dies, another one follows."""
        try:
            life = 0
            while not self.over.is_set():
                life += 1
                self._work(f"{name}-{life}")
        except BaseException as problem:
            self.problems.append(problem)
            self.over.set()

    def _work(self, agent: str) -> None:
        who = actor(agent)
        while not self.over.is_set():
            claim = {"selector": {"tags": "deaths"}, "ttlSeconds": TTL_SECONDS}
            asked = {"actor": who, "requestId": fresh_id(), "claims": [claim], "include": INCLUDE, "waitMs": 500}
            (entry,) = self.call("claim_item", **asked)["claimResults"]
            if entry["outcome"] != "success":
                assert entry["outcome"] == "no_match", entry
                continue
            if self.dies("claimed"):
                return
            step = {"itemId": entry["itemId"], "actor": who, "fenceToken": entry["fenceToken"]}
            start = self.call("advance_item", transitions=[{**step, "trigger": "start"}], requestId=fresh_id())
            if not start["results"][0]["applied"]:
                continue  # the claim was lost meanwhile
            if self.dies("started"):
                return
            total = 1 + sum(one["result"]["sum"] for one in entry["results"])
            end = {**step, "trigger": "complete", "result": {"sum": total}}
            self.call("advance_item", transitions=[end], requestId=fresh_id())
            if self.dies("completed"):
                return


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
