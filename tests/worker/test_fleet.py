"""A real fleet with two front-ends that are killed: agents with clients of the SDK work a dependency graph off."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.support.fleets import Http, RunningFleet
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

AGENTS = 6
LAYERS, WIDTH = 5, 6
Asked = tuple[str, dict[str, Any]]
"""A tool and its arguments."""
TAKE: Asked = ("work_next", {"waitMs": 1500})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    arguments = ("--port", "0", "--frontends", "2", "--workers", "0")
    with RunningFleet(tmp_path_factory.mktemp("worker") / "data", *arguments) as running:
        running.wait_ready()
        yield running


def graph(http: Http) -> list[str]:
    """Layers of items, each of which waits for two of the layer before."""
    items = [{"ref": f"{n}-{m}", "title": f"item {n}-{m}"} for n in range(LAYERS) for m in range(WIDTH)]
    edges = [
        {"from": f"{n - 1}-{(m + k) % WIDTH}", "to": f"{n}-{m}"}
        for n in range(1, LAYERS)
        for m in range(WIDTH)
        for k in (0, 1)
    ]
    made = http.call("create_work_tree", root={"title": "root"}, children=items, deps=edges)
    return [item["id"] for item in made["children"]]


async def work(port: int, name: str, stop: asyncio.Event, done: list[str]) -> None:
    """An agent that only knows: after a lost answer, repeat the call."""
    headers, call = {"Fleet-Agent": name}, [TAKE]
    while not stop.is_set():
        with contextlib.suppress(Exception):
            async with (
                httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
                Client(
                    streamable_http_client(f"http://127.0.0.1:{port}/mcp/worker", http_client=http),
                    read_timeout_seconds=30,
                ) as client,
            ):
                await loop(client, call, stop, done)


async def loop(client: Client, call: list[Asked], stop: asyncio.Event, done: list[str]) -> None:
    """Makes the call that is to be made, and what follows; each item is ended by the call that takes the next one."""
    while not stop.is_set():
        tool, arguments = call[0]
        answer: Any = (await client.call_tool(tool, arguments)).structured_content
        if tool == "work_done":
            assert answer.get("role") == "terminal", answer
            done.append(answer["itemId"])
            answer = answer["next"]
        call[0] = TAKE
        if answer.get("outcome") == "item":
            results = [one["result"] for one in answer.get("results", ())]
            item = {"itemId": answer["item"]["id"], "result": {"of": len(results)}}
            call[0] = "work_done", {**item, "next": {"waitMs": 1500}}
            await client.call_tool("work_note", {"key": "progress", "body": "begun"})


async def test_a_graph_is_worked_off_although_front_ends_are_killed(fleet: RunningFleet) -> None:
    with Http(fleet.port) as http:
        items = await asyncio.to_thread(graph, http)
    stop, done = asyncio.Event(), list[str]()
    agents = [asyncio.create_task(work(fleet.port, f"agent-{n}", stop, done)) for n in range(AGENTS)]
    for count, slot in ((4, "fe-0"), (12, "fe-1"), (20, "fe-0")):

        def some(least: int = count) -> bool:
            return len(done) >= least

        await wait_until(some, what=f"{count} items to be done")
        pid = fleet.pid(slot)
        if pid:
            os.kill(pid, signal.SIGKILL)

    def states() -> dict[str, int]:
        with Http(fleet.port) as http:
            found = http.call("query_items", operation="search", role="terminal", limit=200)
        return Counter(one["id"] for one in found["items"])

    async def over() -> bool:
        with contextlib.suppress(Exception):
            return set(items) <= (await asyncio.to_thread(states)).keys()
        return False

    await wait_until(over, 120, what="all items to be done")
    await wait_until(lambda: len(done) >= len(items), 120, what="the end of each item to be answered")
    stop.set()
    await asyncio.gather(*agents)
    with Http(fleet.port) as http:
        for item in items:
            history = http.call("query_items", operation="get", id=item)["transitions"]
            assert Counter(one["trigger"] for one in history)["complete"] == 1, history
            assert "attempts" not in http.call("query_items", operation="get", id=item)
    assert sorted(done) == sorted(items), "each end was answered, by whatever process"
