"""The longest results and contexts on their way: over HTTP by the fast path and the slow one, and over stdio."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from coordinator.toolsets.items.contract.included import MAX_CHARS
from coordinator.toolsets.items.rules.results import MAX_RESULT
from tests.items.client import Json, actor, fresh_id
from tests.support.fleets import MCP_HEADERS, ROOT, Http, RunningFleet, call_body, environment, fork_line, scrape

pytestmark = pytest.mark.anyio

Make = Callable[..., Awaitable[Json]]
"""Calls a tool; its structured result."""
LONGEST: dict[str, Any] = {
    "text": "ä" * (MAX_RESULT // 2),
    "escapes": '"\n' * (MAX_RESULT // 2),
    "JSON": ["x" * (MAX_RESULT - 4)],
    "many values": [[number % 10 for number in range(1000)]] * 120,
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("results")
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "1", "--workers", "0") as fleet:
        fleet.wait_ready()
        yield fleet


async def chain(call: Make, result: Any, quoted: bool = False) -> None:
    """One item with a result, and the next one that is claimed with it.

    Args:
        quoted: some arguments are strings of their JSON, which only the slow path accepts.
    """

    def sent(value: Any) -> Any:
        return json.dumps(value) if quoted else value

    items = [{"title": "first"}, {"title": "second"}]
    first, second = [one["id"] for one in (await call("manage_items", operation="create", items=items))["items"]]
    edge = {"fromItemId": first, "toItemId": second}
    await call("manage_dependencies", operation="create", dependencies=[edge])
    transition = {"itemId": first, "trigger": "complete", "actor": actor("ann"), "result": result}
    advance = {"transitions": sent([transition]), "requestId": fresh_id()}
    ended = await call("advance_item", **advance)
    assert ended["summary"]["succeeded"] == 1, ended
    assert await call("advance_item", **advance) == ended
    claim = {"claims": sent([{"itemId": second}]), "requestId": fresh_id(), "actor": actor("ann")}
    asked = {**claim, "include": sent(["item", "notes", "results"])}
    taken = await call("claim_item", **asked)
    assert await call("claim_item", **asked) == taken
    (entry,) = taken["claimResults"]
    (shown,) = entry["results"]
    assert MAX_CHARS - 1000 < len(json.dumps(taken, ensure_ascii=False, separators=(",", ":"))) < MAX_CHARS + 1000
    note = await call("query_notes", operation="get", id=shown["noteId"])
    whole = note["body"] if isinstance(result, str) else json.loads(note["body"])
    assert whole == result
    assert note["body"].startswith(shown["result"])
    assert shown["size"] == len(note["body"].encode())
    await call("claim_item", actor=actor("ann"), requestId=fresh_id(), releases=[{"itemId": second}])


@pytest.mark.parametrize("kind", LONGEST)
async def test_over_http_by_both_ways(fleet: RunningFleet, kind: str) -> None:
    with Http(fleet.port) as http:

        async def call(tool: str, **arguments: Any) -> Json:
            return dict(http.call(tool, **arguments))

        for quoted in (False, True):
            before = scrape(fleet.port)
            await chain(call, LONGEST[kind], quoted)
            after = scrape(fleet.port)
            name = f"coordinator_fast_path_total{{result={'miss' if quoted else 'hit'}}}"
            assert after[name] - before.get(name, 0) >= 4


async def test_a_body_that_is_too_long_is_refused(fleet: RunningFleet) -> None:
    """By its length, before a result is looked at; and results that only together are too long, by name."""
    one = {"itemId": fresh_id(), "trigger": "complete", "result": "x" * MAX_RESULT}
    for count, status, says in ((20, 413, b""), (11, 200, b"2,621,440 bytes together")):
        with Http(fleet.port) as http:
            body = call_body("advance_item", {"transitions": [one] * count})
            http.connection.request("POST", "/mcp/items", body, MCP_HEADERS)
            response = http.connection.getresponse()
            assert response.status == status
            assert says in response.read()


async def test_over_stdio(tmp_path: Path) -> None:
    command, *arguments = fork_line("stdio", "--toolset", "items", "--data-dir", str(tmp_path / "data"))
    parameters = StdioServerParameters(command=command, args=arguments, env=environment(), cwd=str(ROOT))
    async with Client(stdio_client(parameters), read_timeout_seconds=60) as client:

        async def call(tool: str, **arguments: Any) -> Json:
            answer = await client.call_tool(tool, arguments)
            assert not answer.is_error, answer
            return dict(answer.structured_content or {})

        for result in LONGEST.values():
            await chain(call, result)
