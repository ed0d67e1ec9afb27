"""The demo's agents: how they behave, and how their calls go on through failures."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from coordinator.cli.demo import calls as demo_calls
from coordinator.cli.demo.agent import Agent, Behaviour, Crash
from coordinator.cli.demo.calls import Caller, Endpoint, Refused
from coordinator.cli.demo.pacing import Lanes
from coordinator.client.retries import Retryable
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

ITEM = "00000000-0000-0000-0000-0000000000aa"
OTHER = "00000000-0000-0000-0000-0000000000bb"


class Fleet:
    """A fleet with one item after the other, which answers as its script says."""

    def __init__(self, stop: asyncio.Event, offers: list[list[tuple[str, str]]]) -> None:
        self.stop = stop
        self.offers = offers
        self.asked: list[tuple[str, Any]] = []
        self.urgent: list[str] = []
        """Tools called while an item was at stake."""
        self.claims: dict[str, list[str]] = {}
        """Item -> outcomes of the claims on it, in order; success when there is none left."""
        self.fence = 1
        self.takeover = False
        self.applied = True

    async def call(
        self, tool: str, arguments: dict[str, Any], *, urgent: bool = False, waits: bool = False
    ) -> dict[str, Any]:
        await asyncio.sleep(0)
        if urgent:
            self.urgent.append(tool)
        if tool == "get_next_item":
            if not self.offers:
                self.stop.set()
                return {"recommendations": []}
            return {"recommendations": [{"itemId": item, "role": role} for item, role in self.offers.pop(0)]}
        if tool == "advance_item":
            (transition,) = arguments["transitions"]
            assert transition["fenceToken"] == self.fence
            self.asked.append((transition["trigger"], transition["itemId"]))
            return {"results": [{"applied": self.applied}]}
        assert tool == "claim_item"
        if "waitMs" in arguments:
            assert waits
            (claim,) = arguments["claims"]
            self.asked.append(("wait", claim["selector"]))
            if not self.offers:
                self.stop.set()
                await asyncio.Event().wait()
            if offers := self.offers.pop(0):
                ((item, _),) = offers
                return {"claimResults": [self._claimed(item)]}
            return {"claimResults": [{"outcome": "no_match", "kind": "transient"}]}
        if "releases" in arguments:
            self.asked.append(("release", arguments["releases"][0]["itemId"]))
            return {"releaseResults": [{"outcome": "success"}]}
        self.asked.append(("claim", sorted(claim["itemId"] for claim in arguments["claims"])))
        return {"claimResults": [self._claimed(claim["itemId"]) for claim in arguments["claims"]]}

    def _claimed(self, item: str) -> dict[str, Any]:
        outcome = self.claims[item].pop(0) if self.claims.get(item) else "success"
        return {"itemId": item, "outcome": outcome, "fenceToken": self.fence, "takeover": self.takeover}


@asynccontextmanager
async def agent_on(
    offers: list[list[tuple[str, str]]], crash_rate: float = 0.0, work_ms: float = 0.0, **more: int
) -> AsyncIterator[tuple[Fleet, Callable[[], Awaitable[Crash | None]], Counter[str]]]:
    stop = asyncio.Event()
    fleet, counts = Fleet(stop, offers), Counter[str]()
    behaviour = Behaviour(
        work_ms=work_ms,
        ttl_seconds=more.get("ttl_seconds", 1),
        crash_rate=crash_rate,
        idle_limit=0.01,
        wait_ms=more.get("wait_ms", 0),
    )
    agent = Agent("a1", fleet, behaviour, random.Random(1), stop, counts)
    async with asyncio.timeout(60):
        yield fleet, agent.run, counts


async def test_an_item_is_claimed_started_completed_and_released() -> None:
    async with agent_on([[(ITEM, "queue")]]) as (fleet, run, counts):
        assert await run() is None
    assert fleet.asked == [("claim", [ITEM]), ("start", ITEM), ("complete", ITEM), ("release", ITEM)]
    assert fleet.urgent == ["claim_item", "advance_item", "advance_item", "claim_item"]
    assert counts["done"] == counts["claim_success"] == counts["release_success"] == 1


async def test_a_waiting_agent_takes_its_item_without_polling() -> None:
    async with agent_on([[(ITEM, "queue")], [(OTHER, "queue")]], wait_ms=50) as (fleet, run, counts):
        assert await run() is None
    one = [("wait", {}), ("start", ITEM), ("complete", ITEM), ("release", ITEM)]
    other = [("wait", {}), ("start", OTHER), ("complete", OTHER), ("release", OTHER)]
    assert fleet.asked == [*one, *other, ("wait", {})]
    assert counts["done"] == 2
    assert counts["polls"] == 0


async def test_an_agent_waits_again_after_a_timeout() -> None:
    async with agent_on([[], []], wait_ms=50) as (fleet, run, counts):
        await run()
    assert fleet.asked == [("wait", {})] * 3
    assert counts["polls"] == 2


@pytest.mark.parametrize("wait_ms", [0, 50])
async def test_work_of_a_crashed_agent_is_restarted(wait_ms: int) -> None:
    """As the claim says `takeover`, `start` leaves the item in work."""
    async with agent_on([[(ITEM, "work")]], wait_ms=wait_ms) as (fleet, run, _):
        fleet.takeover = True
        await run()
    assert fleet.asked[1:4] == [("start", ITEM), ("complete", ITEM), ("release", ITEM)]


async def test_an_agents_own_work_is_not_restarted() -> None:
    async with agent_on([[(ITEM, "work")]]) as (fleet, run, _):
        await run()
    assert [asked for asked, _ in fleet.asked] == ["claim", "complete", "release"]


async def test_another_item_is_claimed_after_a_lost_race() -> None:
    async with agent_on([[(ITEM, "queue"), (OTHER, "queue")], [(ITEM, "queue")]]) as (fleet, run, counts):
        fleet.claims = {ITEM: ["already_claimed", "already_claimed"]}
        await run()
    assert fleet.asked[:2] == [("claim", [ITEM, OTHER]), ("start", OTHER)]
    assert counts["claim_already_claimed"] == 2
    assert counts["claims_in_vain"] == 1
    assert counts["done"] == 1


async def test_long_work_renews_the_claim() -> None:
    async with agent_on([[(ITEM, "queue")]], work_ms=1200) as (fleet, run, counts):
        await run()
    assert counts["renewals"] >= 1
    assert counts["done"] == 1
    assert [asked for asked, _ in fleet.asked].count("claim") == 1 + counts["renewals"]


async def test_work_ends_when_the_claim_is_lost() -> None:
    async with agent_on([[(ITEM, "queue")]], work_ms=1200) as (fleet, run, counts):
        fleet.claims = {ITEM: ["success", "already_claimed"]}
        await run()
    assert counts["lost_while_working"] == 1
    assert not counts["done"]
    assert "complete" not in [asked for asked, _ in fleet.asked]


async def test_a_refused_change_releases_the_item() -> None:
    async with agent_on([[(ITEM, "queue")]]) as (fleet, run, counts):
        fleet.applied = False
        await run()
    assert [asked for asked, _ in fleet.asked] == ["claim", "start", "release"]
    assert counts["refused_start"] == counts["lost_while_working"] == 1


async def test_a_crash_leaves_the_item_as_it_is() -> None:
    async with agent_on([[(ITEM, "queue")]], crash_rate=1.0) as (fleet, run, _):
        assert await run() == Crash("a1", ITEM.replace("-", ""), 1)
    assert {asked for asked, _ in fleet.asked} <= {"claim", "start"}


# --- calls ------------------------------------------------------------------------------------

Answer = dict[str, Any] | bytes
"""A result, or bytes to send before the connection is closed."""


class Server:
    """An endpoint that answers each request with the next of some answers."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.port = 0
        self._connected: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield f"http://127.0.0.1:{self.port}/mcp/items"
            server.close()
            for writer in self._connected:
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connected.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                body = json.loads(await reader.readexactly(length))
                self.bodies.append(body["params"])
                answer = self.answers.pop(0)
                if isinstance(answer, bytes):
                    writer.write(answer)
                    return
                message = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": answer}).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                    b"content-length: %d\r\n\r\n%s" % (len(message), message)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._connected.discard(writer)
            writer.close()


def result(content: dict[str, Any], failed: bool = False) -> dict[str, Any]:
    text = [{"type": "text", "text": json.dumps(content)}]
    return {"resultType": "complete", "content": text, "structuredContent": content, "isError": failed}


def failure(kind: str, code: str, **more: int) -> dict[str, Any]:
    return result({"error": {"kind": kind, "code": code, "message": "because", **more}}, failed=True)


@asynccontextmanager
async def caller_on(url: str) -> AsyncIterator[tuple[Caller, Endpoint]]:
    endpoint = Endpoint(url, per_second=1000.0)
    async with asyncio.timeout(60), Caller(endpoint, careful=False) as caller:
        yield caller, endpoint


async def test_a_call_is_retried_unchanged_on_transient_failures() -> None:
    server = Server(
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n",
        failure("shedding", "over_capacity", retryAfterMs=20),
        failure("transient", "conflict"),
        result({"done": True}),
    )
    async with server.listening() as url, caller_on(url) as (caller, endpoint):
        began = time.monotonic()
        assert await caller.call("claim_item", {"requestId": "r1"}) == {"done": True}
        assert time.monotonic() - began >= 1, "it came back before it was told to"
        expected = {"connection": 2, "server error": 1, "busy": 1, "over_capacity": 1, "conflict": 1}
        assert dict(endpoint.meter.retries) == expected
        # Answered attempts: the two refusals and the success.
        assert len(endpoint.meter.take()["claim_item"]) == 3
    assert len(server.bodies) == 7
    assert {body["arguments"]["requestId"] for body in server.bodies} == {"r1"}


@pytest.mark.parametrize(
    "answer",
    [
        failure("permanent", "VALIDATION_ERROR"),
        result({"no": "error"}, failed=True),
        {"resultType": "complete", "content": []},
    ],
    ids=["refused", "no error object", "no content"],
)
async def test_permanent_failures_are_reported_at_once(answer: dict[str, Any]) -> None:
    server = Server(answer)
    async with server.listening() as url, caller_on(url) as (caller, endpoint):
        with pytest.raises(Refused, match="claim_item"):
            await caller.call("claim_item", {})
        assert not endpoint.meter.retries


async def test_callers_share_one_probe_until_the_fleet_is_back() -> None:
    server = Server(b"", b"")
    async with AsyncExitStack() as stack:
        async with server.listening() as url:
            endpoint = Endpoint(url, per_second=1000.0)
            callers = [await stack.enter_async_context(Caller(endpoint, careful=False)) for _ in range(2)]
            calls = [asyncio.create_task(caller.call("get_next_item", {})) for caller in callers]
            await wait_until(lambda: len(server.bodies) == 2, what="both calls to arrive")
        # Nobody listens any more.
        await wait_until(lambda: endpoint.gate.closed, what="the gate to close")
        calls.append(asyncio.create_task(callers[0].call("get_next_item", {})))
        assert not endpoint.meter.retries["unreachable"]
        async with Server(*(result({"n": n}) for n in range(3))).listening(server.port):
            answers = await asyncio.gather(*calls)
        assert all(set(answer) == {"n"} for answer in answers)
        assert not endpoint.meter.retries["unreachable"], "one look for all of them, and no call before it succeeded"


async def test_retries_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_calls, "TIMEOUT_SECONDS", 0.2)
    server = Server(*(failure("shedding", "draining") for _ in range(100)))
    async with server.listening() as url, caller_on(url) as (caller, _):
        with pytest.raises(Retryable, match="draining"):
            await caller.call("claim_item", {})


async def test_calls_of_claim_holders_go_first() -> None:
    lanes, order = Lanes(2), list[str]()
    free = asyncio.Event()

    async def go(name: str, urgent: bool) -> None:
        async with lanes.lane(urgent):
            order.append(name)
            await free.wait()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        tasks = {
            name: group.create_task(go(name, name.startswith("h"))) for name in ("l1", "l2", "l3", "h1", "l4", "h2")
        }
        await wait_until(lambda: len(order) == 2)
        assert order == ["l1", "l2"]
        tasks["h1"].cancel()
        free.set()
    assert order == ["l1", "l2", "h2", "l3", "l4"]
    # Every place is free again.
    async with asyncio.timeout(60), lanes.lane(False), lanes.lane(False):
        pass


async def test_a_slot_given_to_a_cancelled_waiter_goes_to_the_next() -> None:
    lanes, held = Lanes(1), asyncio.Event()

    async def wait_for_place() -> bool:
        async with lanes.lane(False):
            held.set()
        return True

    async with asyncio.timeout(60):
        async with lanes.lane(True):
            gives_up, stays = asyncio.create_task(wait_for_place()), asyncio.create_task(wait_for_place())
            await asyncio.sleep(0)
        gives_up.cancel()  # the place is its own already, but it has not run since
        assert await stays
        assert gives_up.cancelled()


async def test_a_refusal_is_raised_without_a_group() -> None:
    """Not in a group, which is how the client's tasks would raise it."""
    server = Server(failure("permanent", "VALIDATION_ERROR"))
    async with server.listening() as url:
        with pytest.raises(Refused, match="VALIDATION_ERROR"):
            async with caller_on(url) as (caller, _):
                await caller.call("manage_dependencies", {})


async def test_a_failure_to_connect_is_raised_without_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a group either."""
    monkeypatch.setattr(demo_calls, "TIMEOUT_SECONDS", 0.2)
    server = Server(*[b""] * 100)
    async with asyncio.timeout(60), server.listening() as url:
        with pytest.raises(Retryable, match="connection"):
            await Caller(Endpoint(url, per_second=1000.0)).__aenter__()
