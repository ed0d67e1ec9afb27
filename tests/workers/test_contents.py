"""Content beside structured content: kept where it says more, in results of the gateway and of flows."""

from __future__ import annotations

import sys
from typing import Any

import mcp_types as types
import pytest

from coordinator.settings.sections.connections import Connection
from coordinator.steps.model import StepRun, Success
from tests.support.downstream import RAW
from workers.downstream.contents import beside, plain, with_content, without_secrets
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


def test_short_secrets_that_occur_in_blocks_leave_them_valid() -> None:
    secrets = {"text", "image", "aGk=", "user", "resource", "s3cret"}
    blocks: list[types.ContentBlock] = [
        types.TextContent(text="a text for s3cret", annotations=types.Annotations(audience=["user"])),
        types.ImageContent(data="aGk=", mime_type="image/png"),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="file:///s3cret", text="s3cret")),
        types.ResourceLink(uri="file:///s3cret", name="s3cret", _meta={"s3cret": ["s3cret"]}),
    ]
    assert [plain(without_secrets(one, secrets)) for one in blocks] == [
        {"type": "text", "text": "a *** for ***", "annotations": {"audience": ["user"]}},
        IMAGE,
        {"type": "resource", "resource": {"uri": "file:///***", "text": "***"}},
        {"type": "resource_link", "uri": "file:///***", "name": "***", "_meta": {"***": ["***"]}},
    ]


@pytest.mark.anyio
async def test_what_servers_say_of_their_tools_tells_no_secrets() -> None:
    given = Connection(kind="mcp", command=sys.executable, args=(str(RAW), "told"), env={"KEY": "${KEY}"})
    server = DownstreamServer("it", given, {"KEY": "s3cret"})
    try:
        (tool,) = await server.tools()
        assert (tool.name, tool.title, tool.description) == ("ask", "Asks ***", "Asks https://*** anything.")
    finally:
        await server.close()
