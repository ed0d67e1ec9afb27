"""Content beside structured content: kept where it says more, in results of the gateway and of flows."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from coordinator.settings.connections import Connection
from coordinator.steps.model import StepRun, Success
from tests.support.downstream import RAW
from workers.downstream.contents import beside, with_content
from workers.downstream.server import DownstreamServer
from workers.gateway.mcp import call_tool
from workers.tools.downstream import ServerTools

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.mark.parametrize(
    ("structured", "content", "more"),
    [
        ({"meta": 1}, [IMAGE], [IMAGE]),
        ({"meta": 1}, [text('{\n "meta": 1}'), IMAGE], [IMAGE]),
        ({"meta": 1}, [text("one of them")], [text("one of them")]),
        ({"meta": 1}, [text("")], []),
        ({"result": 5}, [text("5")], []),
        ({"result": "5"}, [text("5")], []),
        ({"result": "a\nb"}, [text("a\nb")], []),
        ({"result": [1, {"a": 2}]}, [text("1"), text('{"a": 2}')], []),
        ({"result": [1, 2]}, [text("[1, 2]")], []),
        ({"result": [1, 2]}, [text("1"), text("3")], [text("1"), text("3")]),
        ({"content": "of the file"}, [text("of the file")], []),
        ({"content": [IMAGE]}, [IMAGE], []),
        ([1, 2], [text("1"), text("2")], []),
        ({}, [text("{}")], []),
        ({"a": 1}, [], []),
    ],
)
def test_what_only_repeats_structured_content_is_left_out(structured: Any, content: Any, more: Any) -> None:
    assert beside(structured, content) == more


def test_where_it_is_kept() -> None:
    assert with_content({"meta": 1}, [IMAGE], "result") == {"meta": 1, "content": [IMAGE]}
    assert with_content({"content": 1}, [IMAGE], "result") == {"content": 1, "contentBlocks": [IMAGE]}
    assert with_content([1], [IMAGE], "result") == {"result": [1], "content": [IMAGE]}
    assert with_content([1], [IMAGE], "content") == {"content": [1], "contentBlocks": [IMAGE]}
    assert with_content([1], [], "content") == [1]


@pytest.mark.anyio
async def test_results_of_the_gateway_and_of_flows() -> None:
    server = DownstreamServer("it", Connection(kind="mcp", command=sys.executable, args=(str(RAW), "plain")))
    tools = ServerTools("it", lambda: server, lambda step: server)
    step = StepRun("p", "flows", "10", "11", 1, "start", "", "", "", "", 0, 0, 0, 0, "")
    try:
        whole = {"meta": 1, "content": [IMAGE]}
        assert await call_tool(server, "pictured", {}, "k") == Success(whole)
        found = tools.find("it.pictured")
        assert found is not None
        assert await found.call(step, {}, None) == Success(whole)
    finally:
        await server.close()
