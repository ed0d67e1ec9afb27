"""Waiting claims on a real fleet: two front-ends, real clients, kills and drains."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from mcp.client import Client

from coordinator.store import Store, keys
from coordinator.store.embedded.server import find_running
from coordinator.toolsets.items.audit import audit
from tests.support.fleets import RunningFleet, call_body, scrape
from tests.support.mcp_tasks import Tasks
from tests.support.wait import wait_until, wait_until_sync

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes through /proc"),
]

Json = dict[str, Any]
LONG_MS = 60_000
BOTH = "application/json, text/event-stream"
CLIENT = {
    "protocolVersion": "2026-07-28",
    "clientInfo": {"name": "raw", "version": "1"},
    "clientCapabilities": {},
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with RunningFleet(tmp_path_factory.mktemp("waiting") / "fleet", "--port", "0", "--workers", "0") as fleet:
        fleet.wait_ready()
        yield fleet


class Project:
    """One project of the fleet, with access to its store."""

    def __init__(self, fleet: RunningFleet, url: str) -> None:
        self.fleet = fleet
        self.name = f"t{uuid.uuid4().hex[:12]}"
        self.path = f"/p/{self.name}/mcp"
        self.store: Any = redis.Redis.from_url(url, decode_responses=True)
        self.agents: list[Agent] = []

    @property
    def url(self) -> str:
        return self.fleet.state.base_url + self.path

    def waiters(self) -> dict[str, str]:
        """Agent -> the process that holds its parked call."""
        found = {}
        for key in self.store.scan_iter(match=keys.waiter.key(self.name, "") + b"*"):
            process, agent = self.store.hmget(key, ["p", "a"])
            if process is not None:
                found[agent] = process
        return found

    async def parked(self, count: int) -> dict[str, str]:
        """Waits until ``count`` calls are parked."""

        def all_there() -> dict[str, str] | None:
            found = self.waiters()
            return found if len(found) == count else None

        if count:
            return await wait_until(all_there, what=f"{count} parked calls") or {}
        await wait_until(lambda: not self.waiters(), what="no parked calls")
        return {}

    async def connect(self) -> Connection:
        """A connection to any front-end."""
        return Connection(self.path, *await asyncio.open_connection("127.0.0.1", self.fleet.port))

    async def post(self, tool: str, arguments: Json, version: str = "2025-06-18", accept: str = BOTH) -> Connection:
        """A call on a new connection."""
        connection = await self.connect()
        connection.send(tool, arguments, version, accept)
        return connection

    async def call(self, tool: str, arguments: Json) -> Json:
        """The answer to a call."""
        connection = await self.post(tool, arguments)
        try:
            return await connection.answer()
        finally:
            connection.close()

    async def create(self, count: int) -> list[str]:
        """Creates items, through any front-end."""
        arguments = creation(count)

        async def attempt() -> list[str] | None:
            with contextlib.suppress(OSError, EOFError):
                return [item["id"] for item in (await self.call("manage_items", arguments))["items"]]
            return None

        return await wait_until(attempt, what="items to be created") or []

    async def ready(self) -> list[str]:
        """The ready items."""
        found = await self.call("get_next_item", {"limit": 20})
        return [row["itemId"] for row in found["recommendations"]]

    def claims_made(self) -> int:
        """The total number of claims so far."""
        return sum(fields["k"] == "claim" for _, fields in self.store.xrange(keys.events.key(self.name)))

    async def differences(self) -> list[Any]:
        """The differences that the audit finds."""
        url = find_running(self.fleet.data_dir)
        assert url is not None
        store = Store(url, timeout_ms=5000)
        await store.open()
        try:
            return list((await audit(store, self.name)).differences)
        finally:
            await store.close()


class Connection:
    """One call, and its answer from the wire."""

    def __init__(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._path = path
        self._reader = reader
        self._writer = writer

    def send(self, tool: str, arguments: Json, version: str = "2025-06-18", accept: str = BOTH) -> None:
        """Makes the call, in the form of a protocol revision."""
        headers = {"host": "127.0.0.1", "content-type": "application/json", "accept": accept}
        message = json.loads(call_body(tool, arguments))
        headers["mcp-protocol-version"] = version
        if version > "2026":
            headers |= {"mcp-method": "tools/call", "mcp-name": tool}
            client = {f"io.modelcontextprotocol/{name}": value for name, value in CLIENT.items()}
            message["params"]["_meta"] = client
        body = json.dumps(message).encode()
        lines = [f"{name}: {value}" for name, value in (headers | {"content-length": str(len(body))}).items()]
        self._writer.write("\r\n".join([f"POST {self._path} HTTP/1.1", *lines, "", ""]).encode() + body)

    def hang_up(self) -> None:
        """Closes the connection; the other side has the FIN when this returns."""
        self._writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._writer.close()

    async def answer(self) -> Json:
        """The structured result, from a plain answer or an event stream."""
        async with asyncio.timeout(60):
            head = await self._reader.readuntil(b"\r\n\r\n")
            if b"text/event-stream" not in head:
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                message = json.loads(await self._reader.readexactly(length))
            else:
                line = b""
                while not line.startswith(b"data: {"):
                    line = await self._reader.readuntil(b"\n")
                message = json.loads(line.removeprefix(b"data: "))
        result: Json = message["result"]["structuredContent"]
        return result

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def project(fleet: RunningFleet) -> AsyncIterator[Project]:
    """A project on the fleet when all of it is up; afterwards it must have no waiters and be consistent."""
    wait_until_sync(lambda: fleet.state.ready and all(one.ready for one in fleet.state.processes), what="the fleet")
    url = find_running(fleet.data_dir)
    assert url is not None
    project = Project(fleet, url)
    yield project
    for agent in project.agents:
        agent.task.cancel()
        await asyncio.wait([agent.task])
    await project.parked(0)
    assert await project.differences() == []
    project.store.close()


def creation(count: int) -> Json:
    return {
        "operation": "create",
        "items": [{"title": str(number)} for number in range(count)],
        "actor": {"id": "source", "kind": "orchestrator"},
        "requestId": str(uuid.uuid4()),
    }


def waiting_claim(agent: str, request_id: str = "") -> Json:
    return {
        "actor": {"id": agent, "kind": "subagent"},
        "claims": [{"selector": {}}],
        "requestId": request_id or str(uuid.uuid4()),
        "waitMs": LONG_MS,
    }


class Agent:
    """An agent with the official client: waits for an item, and retries failed calls."""

    def __init__(self, project: Project, name: str, mode: Any, extensions: Sequence[Tasks] = ()) -> None:
        self.project = project
        self.name = name
        self.mode = mode
        self.extensions = extensions
        self.attempts = 0
        self.failures: list[str] = []
        """The reasons of retries."""
        self.request_id = str(uuid.uuid4())
        self.task = asyncio.create_task(self._run())
        project.agents.append(self)

    async def attempt(self) -> Json | None:
        self.attempts += 1
        try:
            async with Client(self.project.url, mode=self.mode, extensions=self.extensions) as client:
                result = await client.call_tool(
                    "claim_item", waiting_claim(self.name, self.request_id), read_timeout_seconds=90
                )
        except Exception as error:  # any error of a client with a broken connection
            self.failures.append(repr(error))
            return None
        content: Json = result.structured_content or {}
        if result.is_error:
            assert content["error"]["code"] in ("draining", "store_unavailable"), content
            self.failures.append(content["error"]["code"])
            return None
        claim: Json = content["claimResults"][0]
        return claim

    async def _run(self) -> Json:
        return await wait_until(self.attempt, what=f"{self.name} to get an item") or {}

    async def item(self) -> str:
        async with asyncio.timeout(80):
            claim = await self.task
        assert claim["outcome"] == "success"
        return str(claim["itemId"])


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.chaos)])
async def test_the_end_of_a_front_end(project: Project, fleet: RunningFleet, how: signal.Signals) -> None:
    """Calls on the other one keep waiting and are served; those on the dead one are retried, and get one item each."""
    agents = [Agent(project, f"agent-{number}", ("auto", "legacy")[number % 2]) for number in range(16)]
    holders = await project.parked(len(agents))
    assert len(set(holders.values())) == 2, "both front-ends hold some"
    first = await project.create(2)
    await wait_until(lambda: sum(agent.task.done() for agent in agents) == 2, what="two to be served")
    assert {await agent.item() for agent in agents if agent.task.done()} == set(first)

    ended = fleet.pid("fe-0")
    assert ended is not None
    os.kill(ended, how)
    items = await project.create(len(agents) - 2)
    got = [await agent.item() for agent in agents]
    assert sorted(got) == sorted(first + items)
    assert project.claims_made() == len(agents)
    # The older clients have a second connection, which may lead to the dead one.
    again = [agent for agent in agents if agent.attempts > 1 and agent.mode == "auto"]
    repeated = {(holders[agent.name], tuple(agent.failures)) for agent in again}
    assert len({holder for holder, _ in repeated}) <= 1, (
        f"only calls on the front-end that ended are made again: {repeated}"
    )
    # It counts as ready until the supervisor notices its exit, and later tests need both front-ends.
    await wait_until(lambda: fleet.pid("fe-0") != ended, what="the supervisor to notice")


@pytest.mark.chaos
async def test_claims_that_wait_as_tasks_outlive_a_front_end(project: Project, fleet: RunningFleet) -> None:
    """They are parked in no process, so polls go on at the other front-end, and each gets one item."""
    agents = [Agent(project, f"agent-{number}", "2026-07-28", [Tasks()]) for number in range(6)]
    places = await project.parked(len(agents))

    def as_tasks() -> bool:
        return all(agent.extensions[0].polls for agent in agents)

    await wait_until(as_tasks, what="polls of all tasks")
    ended = fleet.pid("fe-1")
    assert ended is not None
    os.kill(ended, signal.SIGKILL)
    items = await project.create(len(agents))
    assert sorted([await agent.item() for agent in agents]) == sorted(items)
    assert project.claims_made() == len(agents) == len(set(places.values()))
    await wait_until(lambda: fleet.pid("fe-1") != ended, what="the supervisor to notice")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_disconnected_client_gets_no_item(project: Project, mode: Any) -> None:
    agents = [Agent(project, f"agent-{number}", mode) for number in range(3)]
    await project.parked(3)
    agents[1].task.cancel()
    await asyncio.wait([agents[1].task])
    await project.parked(2)
    items = await project.create(3)
    assert {await agents[0].item(), await agents[2].item()} < set(items)
    assert project.claims_made() == 2


@pytest.mark.parametrize("others", [0, 1], ids=["nobody", "somebody"])
@pytest.mark.parametrize("rounds", [12, pytest.param(48, marks=pytest.mark.chaos)])
async def test_an_item_assigned_right_after_a_disconnect_is_not_lost(
    project: Project, others: int, rounds: int
) -> None:
    """The front-end has not noticed yet when the item is assigned; it releases it to the next waiter."""
    forms = [("2025-06-18", BOTH), ("2025-06-18", "application/json"), ("2026-07-28", BOTH)]
    forms.append(("2026-07-28", "application/json"))
    for number in range(rounds):
        request_id = str(uuid.uuid4())
        gone = await project.post("claim_item", waiting_claim(f"gone-{number}", request_id), *forms[number % 4])
        await project.parked(1)
        waiting = [await project.post("claim_item", waiting_claim(f"stays-{number}")) for _ in range(others)]
        await project.parked(1 + others)
        maker = await project.connect()
        gone.hang_up()
        maker.send("manage_items", creation(1))
        (created,) = (await maker.answer())["items"]
        maker.close()
        for one in waiting:
            assert (await one.answer())["claimResults"][0]["itemId"] == created["id"]
            one.close()

        async def is_free(item: str = created["id"]) -> bool:
            return await project.ready() == [item]

        if not others:
            await wait_until(is_free, what="the item to be given back")
            again = await project.call("claim_item", {**waiting_claim(f"gone-{number}", request_id), "waitMs": 0})
            assert again["claimResults"][0]["itemId"] == created["id"], "a repeated call claims again"
        await project.parked(0)
    claims = [
        fields["a"] for _, fields in project.store.xrange(keys.events.key(project.name)) if fields["k"] == "claim"
    ]
    assert len(claims) > rounds, "none was handed over before the hang-up was noticed"


def spent(store: Any) -> Counter[str]:
    """Commands that the store has executed, including those in scripts."""
    stats = store.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()})


async def test_hundreds_of_waiting_calls_cost_almost_nothing(project: Project) -> None:
    calls = 100
    connections = [await project.post("claim_item", waiting_claim(f"agent-{number}")) for number in range(calls)]
    await project.parked(calls)
    before, began, done, seconds = spent(project.store), 0.0, Counter(hello=1_000), 0.0

    def looked() -> bool:
        # A rate needs some time: what is measured now and then comes in bursts.
        return time.monotonic() > began + 1 and spent(project.store)["fcall"] >= before["fcall"] + 12

    # Each front-end reads the clock and its drains about once a second, however many calls wait.
    # Longer if a process that an earlier test has killed reconnects meanwhile, which costs calls. Every second the
    # supervisor pings the server, over a separate connection.
    while done["hello"] > seconds + 2:
        before, began = spent(project.store), time.monotonic()
        await wait_until(looked, what="three looks by each front-end")
        seconds, done = time.monotonic() - began, spent(project.store) - before
    for of_links in ("info", "ping", "hello"):
        del done[of_links]
    # One front-end also measures each project of earlier tests from time to time, and samples it.
    assert done["fcall"] / seconds < calls / 4, done
    assert done.total() / done["fcall"] < 16, done
    assert not done.keys() & {"publish", "hset"}, done
    assert done["zadd"] < calls / 2, done  # processes note themselves and what is due, calls do not

    answers = [asyncio.create_task(connection.answer()) for connection in connections]
    (item,) = await project.create(1)
    finished, others = await asyncio.wait(answers, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result()["claimResults"][0]["itemId"] for task in finished] == [item]
    assert project.claims_made() == 1
    assert len(project.waiters()) == calls - 1
    for task in others:
        task.cancel()
    await asyncio.wait(others)
    for connection in connections:
        connection.close()
    await project.parked(0)


async def test_the_waiting_time_of_a_claim_is_not_latency(fleet: RunningFleet) -> None:
    """Otherwise waiting agents would use up the error budget of claims that take longer than 100 ms."""
    sums = (
        "coordinator_request_duration_seconds_sum{tool=claim_item",
        "coordinator_claim_wait_seconds_sum{end=in_vain",
    )

    def seconds() -> list[float]:
        found = scrape(fleet.port)
        return [sum(value for name, value in found.items() if name.startswith(one)) for one in sums]

    before = seconds()
    async with Client(f"{fleet.state.base_url}/mcp") as agent:
        answer = await agent.call_tool(
            "claim_item",
            {
                "actor": {"id": "patient", "kind": "subagent"},
                "requestId": str(uuid.uuid4()),
                "claims": [{"selector": {"tags": "there-is-none"}}],
                "waitMs": 4000,
            },
        )
    assert answer.structured_content["claimResults"][0]["outcome"] == "no_match"
    took, waited = (after - earlier for after, earlier in zip(seconds(), before, strict=True))
    assert waited > 3.9
    assert took < waited


async def test_waiting_steps_are_counted_without_workers(fleet: RunningFleet) -> None:
    """The alert NoWorkers uses it, and without workers nothing sweeps."""
    flow = {"start": {"name": "look", "tool": "get_next_item", "done": True}}
    async with Client(f"{fleet.state.base_url}/mcp") as agent:
        created = await agent.call_tool("workflow_create", {"name": "waits", "flow": flow})
        assert not created.is_error
    await wait_until(lambda: scrape(fleet.port).get("coordinator_steps_queued") == 1, what="the step in the metrics")
    assert not scrape(fleet.port).get("coordinator_processes{role=worker}")
