"""Who calls: agents by header, by token and by slot, over both paths of a front-end, with clients of the SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.store import Store
from tests.authentication.support import Authenticators, Tokens
from tests.feed.rig import Front, serving
from tests.items.client import LONG_MS
from tests.support.contracts import toolsets
from tests.support.fleets import ROOT, environment, fork_line
from tests.transport.guarded import RESOURCE
from tests.worker.client import Tools

pytestmark = pytest.mark.anyio

MODES: list[Any] = ["legacy", "auto"]
TOOLS = [tool.name for tool in toolsets()["worker"].tools]
BUDGET = 500
"""Tokens that a finished item costs an agent besides the item's own text; a token is four bytes here."""
ONE_CALL = 900
"""Bytes of request and answer, the same way, where the end of an item comes with the request for the next."""


@pytest.fixture
async def front(store: Store) -> AsyncIterator[Front]:
    async with serving(store) as front:
        yield front


@asynccontextmanager
async def client(front: Front, project: str, mode: Any = "auto", path: str = "worker", **headers: str) -> Any:
    """A client of the SDK with these headers (``_`` for ``-``)."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"http://127.0.0.1:{front.port}/p/{project}/mcp/{path}"
    async with (
        httpx2.AsyncClient(headers=named, trust_env=False, timeout=120) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=120) as made,
    ):
        yield made


async def said(client: Client, tool: str, **arguments: Any) -> Any:
    """The structured content of an answer."""
    return (await client.call_tool(tool, arguments)).structured_content


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_is_named_by_a_header(front: Front, store: Store, project: str, mode: Any) -> None:
    tools = Tools(store, project)
    item = await tools.add()
    async with client(front, project, mode, fleet_agent="claude-1") as agent:
        hits = front.app.fast_path.hits
        assert [tool.name for tool in (await agent.list_tools()).tools] == TOOLS
        assert (await said(agent, "work_next"))["item"]["id"] == item
        assert await tools.holder(item) == "claude-1"
        for number in range(3):
            assert (await said(agent, "work_note", key=f"note-{number}", body="x"))["itemId"] == item
        assert await said(agent, "work_done") == {"itemId": item, "role": "terminal"}
        assert front.app.fast_path.hits - hits >= 3
        assert (await said(agent, "work_done"))["repeated"]
        assert (await said(agent, "work_next", waitMs=10))["outcome"] == "none"
    (done, start) = (await tools.get(item))["transitions"]
    assert start["actor"] == done["actor"] == {"id": "claude-1", "kind": "subagent"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [None, "x" * 501, "t\u00e4st", "a\tb"])
async def test_without_a_usable_name_calls_are_refused(front: Front, project: str, mode: Any, name: str | None) -> None:
    headers = {} if name is None else {"fleet_agent": name.encode()}
    async with client(front, project, mode, **headers) as agent:  # type: ignore[arg-type]
        for tool, arguments in (("work_next", {}), ("work_next", {"waitMs": 0}), ("work_done", {})):
            error = (await said(agent, tool, **arguments))["error"]
            assert error["code"] == "VALIDATION_ERROR"
            assert error["message"].startswith("Fleet-Agent: ")


async def test_a_repeated_header_is_refused(front: Front, project: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work_done", "arguments": {}}}
    headers = [("fleet-agent", "a"), ("fleet-agent", "b"), ("accept", "application/json, text/event-stream")]
    answer = await front.http.post(f"/p/{project}/mcp/worker", json=message, headers=headers)
    assert (answer.status_code, "fleet-agent is repeated" in answer.text) == (400, True)


async def test_a_token_names_the_agent_and_its_slots(store: Store, project: str, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.yaml")
    keys = {
        name: tokens.add(name, permissions=permissions)
        for name, permissions in {
            "w": ("worker",),
            "w/other": ("worker",),
            "i": ("items",),
            "r": ("items.read",),
        }.items()
    }
    auth = Auth(tokens=str(tokens.path), mode="required", resource=RESOURCE)
    settings = Settings(request_deadline_ms=LONG_MS, auth=auth)
    authenticators = Authenticators()
    authenticator = authenticators.make(settings)
    await authenticator.start()
    tools = Tools(store, project)
    items = await tools.add_many(3)

    def of(name: str, **more: str) -> Any:
        return client(guarded, project, authorization=f"Bearer {keys[name]}", **more)

    async with serving(store, settings, authenticator) as guarded:
        async with of("w") as first, of("w", fleet_agent="w/2") as second:
            assert (await said(first, "work_next", waitMs=0))["item"]["id"] == items[0]
            assert (await said(second, "work_next"))["item"]["id"] == items[1]
            assert [await tools.holder(item) for item in items] == ["w", "w/2", ""]
            # The identity may report on an item of its slot.
            assert (await said(first, "work_done", itemId=items[1]))["role"] == "terminal"
            assert (await said(first, "work_note", key="k", body="b"))["itemId"] == items[0]
            assert (await said(second, "work_next"))["item"]["id"] == items[2]
            # What it takes with that is its own.
            ended = await said(first, "work_failed", itemId=items[2], reason="r", handBack=True, next={"waitMs": 0})
            assert (ended["itemId"], ended["next"]["item"]["id"]) == (items[2], items[0])
        async with of("i") as agent:
            assert (await said(agent, "work_next"))["item"]["id"] == items[2]
        for name, agent_name, code in (
            ("w", "w/other", "actor_mismatch"),
            ("w", "someone", "actor_mismatch"),
            ("w", "w/-", "VALIDATION_ERROR"),
        ):
            async with of(name, fleet_agent=agent_name) as agent:
                error = (await said(agent, "work_next", waitMs=0))["error"]
                assert (error["code"], error["message"].startswith("Fleet-Agent: ")) == (code, True)
        answer = await guarded.http.post(
            f"/p/{project}/mcp/worker",
            json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
            headers={"authorization": f"Bearer {keys['r']}", "accept": "application/json, text/event-stream"},
        )
        assert answer.status_code == 403
        assert 'scope="worker"' in answer.headers["www-authenticate"]
    await authenticators.close()


async def test_a_finished_item_costs_few_tokens(front: Front, store: Store, project: str) -> None:
    tools = Tools(store, project)
    blocker, item = (
        await tools.add("Design the login", priority="high"),
        await tools.add("Build it", description="x" * 4000),
    )
    await tools.link(blocker, item)
    async with client(front, project, fleet_agent="claude-1") as agent:
        await said(agent, "work_next")
        await said(agent, "work_done", result="Three screens.")
        spent = calls = 0
        for tool, arguments in (
            ("work_next", {}),
            ("work_note", {"key": "progress", "body": "n" * 400}),
            ("work_done", {"result": "r" * 800, "summary": "Built, with its tests."}),
        ):
            answer = await agent.call_tool(tool, arguments)
            # What a model reads and writes: the call, and one text block.
            (block,) = answer.content
            spent += len(json.dumps({"name": tool, "arguments": arguments})) + len(block.text)
            calls += 1
    own = 4000 + 400 + 800
    assert calls == 3
    assert (spent - own) / 4 <= BUDGET / 2, "half of what is allowed, so that there is room"


async def test_a_finished_item_is_one_short_call(front: Front, store: Store, project: str) -> None:
    """Counted as bodies of HTTP, with all of the protocol's own."""
    tools = Tools(store, project)
    item, _ = await tools.add("Build it"), await tools.add("Test it", description="d" * 4000)
    call = {"name": "work_done", "arguments": {"itemId": item, "result": "r" * 800, "next": {"waitMs": 0}}}
    headers = {
        "Fleet-Agent": "claude-1", "accept": "application/json, text/event-stream", "content-type": "application/json"
    }  # fmt: skip

    async def send(params: Any) -> tuple[str, httpx2.Response]:
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
        return body, await front.http.post(f"/p/{project}/mcp/worker", content=body, headers=headers)

    await send({"name": "work_next", "arguments": {"waitMs": 0}})
    body, answer = await send(call)
    got = answer.json()["result"]
    assert got["structuredContent"]["next"]["item"]["title"] == "Test it"
    assert front.app.fast_path.hits == 1, "of the second call; the first one has made the host known"
    # The item's text comes twice, as text and as structured content.
    own = 800 + 2 * 4000
    assert len(body) + len(answer.content) - own <= ONE_CALL
    (block,) = got["content"]
    assert len(json.dumps(call)) + len(block["text"]) - 800 - 4000 <= ONE_CALL / 2


async def test_null_means_what_leaving_an_argument_out_means(front: Front, store: Store, project: str) -> None:
    tools = Tools(store, project)
    first, second = await tools.add_many(2)
    async with client(front, project, fleet_agent="a") as agent:
        await said(agent, "work_next")
        nothing = dict.fromkeys(("inputTokens", "model"))
        assert (await said(agent, "work_note", key="k", body="b", usage=nothing))["itemId"] == first
        ended = await said(
            agent, "work_done", itemId=first, usage=None, next={"tags": None, "waitMs": None, "capabilities": None}
        )
        assert (ended["itemId"], ended["next"]["item"]["id"]) == (first, second)
        assert "next" not in await said(agent, "work_done", itemId=second, next=None, usage=None)
        assert (await said(agent, "work_done", next={"offset": 1}))["error"]["message"] == (
            "next.offset: no such field; allowed here: tags, type, parentId, capabilities, waitMs, ttlSeconds"
        )


async def test_the_list_is_short(front: Front, project: str) -> None:
    async with client(front, project, fleet_agent="a") as agent:
        listed = await agent.list_tools()
        assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) <= 12_000


@pytest.mark.parametrize(("flags", "name"), [(["--agent", "me"], "me"), ([], "other")])
async def test_a_session_on_stdio_has_a_name(
    store: Store, redis_url: str, project: str, flags: list[str], name: str
) -> None:
    tools = Tools(store, project)
    item = await tools.add()
    command, *arguments = fork_line("stdio", "--toolset", "worker", "--project", project, *flags)
    process = StdioServerParameters(
        command=command,
        args=arguments,
        env=environment(FLEET_REDIS_URL=redis_url, FLEET_AGENT="other"),
        cwd=str(ROOT),
    )
    async with Client(stdio_client(process), read_timeout_seconds=60) as agent:
        assert (await said(agent, "work_next"))["item"]["id"] == item
        assert await tools.holder(item) == name
        assert (await said(agent, "work_done"))["role"] == "terminal"
