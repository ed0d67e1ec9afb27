"""Real clients in Python: the official SDK's in each of its modes, and FastMCP's."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import fastmcp
import pytest
from fastmcp.exceptions import ToolError
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from tests.support.wait import wait_until
from tests.transport.live import Live, serving
from tests.transport.rig import Rig, make_app

pytestmark = pytest.mark.anyio

CALLS = 60


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(make_app) as live:
        yield live


@asynccontextmanager
async def hit_rate(live: Live) -> AsyncIterator[None]:
    """Asserts that the fast path answers at least 98 of 100 calls made in the block."""
    before = live.app.fast_path.counts.copy()
    yield
    made = live.app.fast_path.counts - before
    hits = made.pop("hit", 0)
    assert hits >= 0.98 * (hits + made.total()), made


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_sdks_client(live: Live, mode: Any) -> None:
    async with Client(live.url, mode=mode) as client:
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools} >= {"add", "echo", "fail"}
        async with hit_rate(live):
            for number in range(CALLS):
                result = await client.call_tool("add", {"left": number, "right": 1})
                assert result.structured_content == {"sum": number + 1}
            assert (await client.call_tool("nothing")).structured_content == {"ok": True}
        failed = await client.call_tool("fail", {"code": "already_claimed", "retryAfterMs": 5})
        assert failed.is_error
        assert failed.structured_content["error"]["retryAfterMs"] == 5
        refused = await client.call_tool("add", {"left": "many"})
        assert refused.is_error
        with pytest.raises(MCPError, match="Unknown tool: nope"):
            await client.call_tool("nope")


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_is_cancelled_when_its_client_gives_up(mode: Any) -> None:
    rig = Rig()
    with serving(lambda: make_app(rig)) as live:
        async with Client(live.url, mode=mode) as client:
            with pytest.raises(MCPError, match=r"[Tt]imed out"):
                await client.call_tool("watch", {"gate": "never"}, read_timeout_seconds=0.2)
            assert (await client.call_tool("add", {"left": 1})).structured_content == {"sum": 2}
            if mode != "legacy":
                await wait_until(lambda: not rig.waiting, what="the call's end")
        # A client of an older revision keeps the call's stream open until it disconnects.
        await wait_until(lambda: not rig.waiting and not live.app.in_flight, what="the call's end")
        assert rig.calls[0][0] == "watch"


async def test_fastmcps_client(live: Live) -> None:
    logging.getLogger("fastmcp").setLevel(logging.CRITICAL)
    async with fastmcp.Client(live.url) as client:
        assert {tool.name for tool in await client.list_tools()} >= {"add", "echo", "fail"}
        async with hit_rate(live):
            for number in range(CALLS):
                result = await client.call_tool("add", {"left": number, "right": 1})
                assert result.structured_content == {"sum": number + 1}
        with pytest.raises(ToolError, match="already_claimed"):
            await client.call_tool("fail", {"code": "already_claimed"})


async def test_a_combination_and_a_project(live: Live) -> None:
    url = live.url.replace("/mcp", "/p/team-1/mcp/gateway,rig")
    async with Client(url) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[0] == "add"
        assert names[-1] == "workflow.list"
        async with hit_rate(live):
            for _ in range(CALLS):
                echoed = await client.call_tool("echo", {"text": "x"})
                assert echoed.structured_content["project"] == "team-1"
