"""Results of a real MCP server that have no room in the context, read by a real MCP client through two front-ends."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import CallToolResult, ImageContent, TextContent

from tests.gateway.fleet import Agent, GatewayFleet, Json, importing
from tests.gateway.published import FASTMCP, items
from tests.support.wait import wait_until_sync


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFleet]:
    with importing(tmp_path_factory.mktemp("served"), {"fast": FASTMCP}) as one:
        items(one.agent(), "fast.read", "fast.screenshot")
        yield one


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def calling(tool: str, request: str = "", **arguments: Any) -> Json:
    named = {"requestId": request} if request else {}
    return {"definitionId": "proxy_default", "input": {"capability": f"fast.{tool}", "arguments": arguments}, **named}


async def whole(client: Client, answer: Json) -> tuple[str, list[Any]]:
    """The text of the last result, from all pages, and the content beside it."""
    text = ""
    beside: list[Any] = []
    (link,) = [one for one in answer["links"] if one["rel"] == "result"]
    while link is not None:
        result = await client.call_tool(link["method"], link["args"])
        page = body(result)
        assert isinstance(result.content[0], TextContent)
        assert json.loads(result.content[0].text) == page
        assert len(result.content[0].text) < 60_000
        text, beside = text + page["text"], [*beside, *result.content[1:]]
        link = next((one for one in page["links"] if one["rel"] == "next"), None)
    return text, beside


def body(result: CallToolResult) -> Json:
    assert not result.is_error, result
    found: Json = result.structured_content
    return found


async def started(client: Client, asked: Json) -> Json:
    """A start, answered when all is done."""
    answer = body(await client.call_tool("workflow.start", asked))
    while "inFlight" in answer:
        waits = {"workflowId": answer["workflowId"], "waitFor": "attention", "waitMs": 10_000}
        answer = body(await client.call_tool("workflow.get", waits))
        answer.pop("waited")
    return answer


@pytest.mark.anyio
async def test_a_long_result_is_read_whole(served: GatewayFleet, log: Path) -> None:
    url = f"http://127.0.0.1:{served.fleet.port}/mcp/gateway"
    async with Client(url, mode="legacy") as client, Client(url) as other:
        asked = calling("read", "r-1", size=300_000, log=str(log))
        answer = await started(client, asked)
        cut = answer["context"]["lastResult"]
        expected = json.dumps({"result": "\u00e9x" * 150_000}, ensure_ascii=False, separators=(",", ":"))
        assert cut == {
            "truncated": True,
            "bytes": len(expected.encode()),
            "beginning": expected.encode()[:16_384].decode(errors="ignore"),
        }
        for one in (client, other):
            assert await whole(one, answer) == (expected, [])
            assert body(await one.call_tool("workflow.start", asked)) == answer
            seen = await one.call_tool("workflow.get", {"workflowId": answer["workflowId"]})
            assert body(seen)["context"] == answer["context"]
    assert len(log.read_text().splitlines()) == 1  # noqa: ASYNC240


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_picture_is_shown(served: GatewayFleet, mode: Any) -> None:
    async with Client(f"http://127.0.0.1:{served.fleet.port}/mcp/gateway", mode=mode) as client:
        answer = await started(client, calling("screenshot", size=2_560_000))
        cut = answer["context"]["lastResult"]
        assert cut["bytes"] > 3_400_000
        assert len(json.dumps(answer)) < 10_000
        text, (image,) = await whole(client, answer)
        assert isinstance(image, ImageContent)
        assert image.mime_type == "image/png"
        assert base64.b64decode(image.data) == bytes(range(256)) * 10_000
        assert json.loads(text) == {
            "content": [
                {"type": "text", "text": "taken"},
                {"type": "image", "data": "(content[1] of the answer with offset 0)", "mimeType": "image/png"},
            ]
        }


@pytest.mark.anyio
async def test_a_result_of_5_mb_is_cut_for_good(served: GatewayFleet, log: Path) -> None:
    async with Client(f"http://127.0.0.1:{served.fleet.port}/mcp/gateway") as client:
        answer = await started(client, calling("read", size=5_000_000, log=str(log)))
        cut = answer["context"]["lastResult"]
        assert (cut["bytes"], cut["kept"]) == (7_500_013, False)
        assert not [one for one in answer["links"] if one["rel"] == "result"]
        asked = {"workflowId": answer["workflowId"], "result": "lastResult"}
        refused = await client.call_tool("workflow.get", asked)
        assert refused.is_error
        assert isinstance(refused.content[0], TextContent)
        assert "had 7500013 bytes; of more than 4194304 only the beginning" in refused.content[0].text


def killed(served: GatewayFleet, log: Path) -> tuple[Json, Json]:
    """A start whose worker is killed while it waits for the server's answer, and its result."""
    gate, agent, found = log.with_name("gate"), served.agent(), []
    asked = calling("read", log.parent.name, size=300_000, log=str(log), gate=str(gate))
    thread = Thread(target=lambda: found.append(agent("workflow.start", **asked)))
    thread.start()
    wait_until_sync(lambda: log.exists() and log.read_text().endswith("\n"), what="the call")
    first = int(log.read_text())
    assert first in served.fleet.pids
    os.kill(first, signal.SIGKILL)
    wait_until_sync(lambda: log.read_text().count("\n") == 2, what="the call by another worker")
    gate.touch()
    thread.join()
    answer = found[0]
    while "inFlight" in answer:
        answer = agent("workflow.get", workflowId=answer["workflowId"], waitFor="attention", waitMs=10_000)
        answer.pop("waited")
    return asked, answer


def read(agent: Agent, answer: Json) -> str:
    text = ""
    offset: int | None = 0
    while offset is not None:
        page = agent("workflow.get", workflowId=answer["workflowId"], result="lastResult", offset=offset)
        text, offset = text + page["text"], page.get("nextOffset")
    return text


@pytest.mark.chaos
def test_a_result_is_complete_whatever_dies(served: GatewayFleet, log: Path) -> None:
    """The worker during the call, and then everything else."""
    asked, answer = killed(served, log)
    old = {one.slot: served.fleet.pid(one.slot) for one in served.fleet.state.processes}
    for pid in old.values():
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
    wait_until_sync(
        lambda: (
            all(served.fleet.pid(slot) not in (None, pid) for slot, pid in old.items())
            and all(one.ready for one in served.fleet.state.processes)
        ),
        what="new processes",
    )
    assert json.loads(read(served.agent(), answer)) == {"result": "\u00e9x" * 150_000}
    assert served.agent()("workflow.start", **asked)["context"] == answer["context"]
