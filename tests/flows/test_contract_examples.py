"""Every example of the contract of flows, sent over MCP to a running fleet and executed by its workers."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mcp.client import Client

from tests.flows.fleet import Agent, Json, result
from tests.support.fleets import RunningFleet

pytestmark = pytest.mark.anyio

GREET_AND_COUNT: Json = {
    "start": {"name": "greet", "tool": "get_greeting", "args": {"name": "World"}, "next": "count"},
    "count": {"name": "count", "tool": "get_counter", "args": {}, "done": True},
}
RESEARCH: Json = {
    "start": {"name": "search", "tool": "knowledge_search", "args": {"query": "{{input.topic}}"}, "done": True}
}
CONDITIONAL: Json = {
    "start": {
        "name": "check_admin",
        "tool": "is_admin",
        "args": {},
        "branch": [
            {"if": "result == true", "then": "admin_step"},
            {"if": "result == false", "then": "user_step"},
        ],
    },
    "admin_step": {"name": "admin_step", "tool": "knowledge_list", "args": {}, "done": True},
    "user_step": {"name": "user_step", "tool": "get_greeting", "args": {"name": "World"}, "done": True},
}
APPROVED_WRITE: Json = {
    "start": {"name": "await_approval", "tool": None, "args": {}, "next": "write_doc"},
    "write_doc": {
        "name": "write_doc",
        "tool": "knowledge_add",
        "args": {"title": "{{input.title}}", "content": "{{input.content}}", "scope": "general"},
        "done": True,
    },
}
PARALLEL_RESEARCH: Json = {
    "start": {"name": "fan_out", "tool": None, "args": {}, "parallel": ["search_docs", "search_blogs"]},
    "search_docs": {
        "name": "search_docs",
        "tool": "knowledge_search",
        "args": {"query": "{{input.topic}}"},
        "join": "summarize",
    },
    "search_blogs": {
        "name": "search_blogs",
        "tool": "knowledge_search_text",
        "args": {"query": "{{input.topic}}"},
        "join": "summarize",
    },
    "summarize": {"name": "summarize", "tool": "get_greeting", "args": {"name": "World"}, "done": True},
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with RunningFleet(
        tmp_path_factory.mktemp("flows") / "data",
        *("--port", "0", "--frontends", "2", "--workers", "2"),
        FLEET_FLOWS_DEMO_TOOLS="true",
    ) as running:
        running.wait_ready()
        yield running


@pytest.fixture(params=["auto", "legacy"])
async def agent(fleet: RunningFleet, request: pytest.FixtureRequest) -> AsyncIterator[Agent]:
    project = f"p{uuid.uuid4().hex[:12]}"
    url = f"http://127.0.0.1:{fleet.port}/p/{project}/mcp/flows"
    async with Client(url, mode=request.param) as client:
        yield Agent(client)


async def test_the_five_tools_are_listed(fleet: RunningFleet) -> None:
    async with Client(f"http://127.0.0.1:{fleet.port}/mcp/flows") as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
        "workflow_create", "workflow_list", "workflow_get", "workflow_cancel", "workflow_step_ready",
    ]  # fmt: skip


async def test_they_are_listed_with_the_items_tools_at_the_plain_path(fleet: RunningFleet) -> None:
    async with Client(f"http://127.0.0.1:{fleet.port}/mcp") as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
    assert len(tools) == 14 + 5
    assert {"claim_item", "workflow_create"} <= set(tools)


async def test_two_steps_in_sequence(agent: Agent) -> None:
    structured, text = await agent.call("workflow_create", name="greet-and-count", flow=GREET_AND_COUNT, input={})
    assert structured == text == {"id": text["id"], "status": "started"}
    assert isinstance(text["id"], int)
    found = await agent.ended(text["id"])
    assert found.keys() == {"id", "name", "status", "created_by", "steps"}
    greet, count = found["steps"]
    assert greet.keys() == {
        "id", "name", "tool", "status", "attempt", "result_json", "started_at", "completed_at"
    }  # fmt: skip
    assert (greet["name"], greet["tool"], greet["status"], greet["attempt"]) == ("greet", "get_greeting", "done", 1)
    assert greet["result_json"] == '"Hello, World!"'
    assert (count["name"], count["result_json"]) == ("count", "1")
    assert text["id"] < greet["id"] < count["id"]
    assert text["id"] <= greet["started_at"] <= greet["completed_at"] <= count["started_at"] <= count["completed_at"]


async def test_input_variables(agent: Agent) -> None:
    add = {"start": {**APPROVED_WRITE["write_doc"], "tool": "knowledge_add"}}
    await agent.run(add, input={"title": "Workflow Design", "content": "How an MCP server executes steps"})
    steps = await agent.run(RESEARCH, input={"topic": "MCP server architecture"})
    (found,) = result(steps["search"])
    assert found["title"] == "Workflow Design"
    assert 0 < found["score"] < 1
    assert steps["search"]["result_json"] == json.dumps([found], separators=(",", ":"))


async def test_branching_on_a_condition(agent: Agent) -> None:
    steps = await agent.run(CONDITIONAL, input={})
    assert list(steps) == ["check_admin", "user_step"]
    assert steps["check_admin"]["result_json"] == "false"
    yes = {**CONDITIONAL, "start": {**CONDITIONAL["start"], "tool": "echo", "args": {"value": True}}}
    steps = await agent.run(yes)
    assert list(steps) == ["check_admin", "admin_step"]
    assert steps["admin_step"]["result_json"] == "[]"


async def test_an_approval_gate_before_a_write(agent: Agent) -> None:
    given = {"title": "Deployment Runbook", "content": "Steps for deploying to production..."}
    workflow = await agent.create(APPROVED_WRITE, name="approved-write", input=given)
    found = await agent.until(workflow, lambda one: bool(one["steps"]), "the gate")
    assert found["status"] == "running"
    (gate,) = found["steps"]
    assert (gate["name"], gate["tool"], gate["status"]) == ("await_approval", None, "running")
    assert gate["started_at"] is not None
    assert (gate["completed_at"], gate["result_json"]) == (None, None)
    structured, text = await agent.call("workflow_step_ready", step_id=gate["id"])
    assert structured == text == {"queued": True}
    found = await agent.ended(workflow)
    gate, write = found["steps"]
    assert (gate["status"], gate["result_json"], gate["approved_by"]) == ("done", "null", "anonymous")
    assert result(write)["title"] == "Deployment Runbook"
    assert await agent("workflow_step_ready", step_id=gate["id"]) == {"queued": False, "error": "step is done"}


async def test_parallel_fan_out(agent: Agent) -> None:
    steps = await agent.run(PARALLEL_RESEARCH, input={"topic": "workflow engines"})
    assert set(steps) == {"fan_out", "search_docs", "search_blogs", "summarize"}
    assert (steps["fan_out"]["tool"], steps["fan_out"]["result_json"]) == (None, "null")
    joined = steps["summarize"]["started_at"]
    assert all(steps[name]["completed_at"] <= joined for name in ("search_docs", "search_blogs"))


async def test_both_branches_run_concurrently(agent: Agent) -> None:
    waits = {name: {"name": name, "tool": "sleep", "args": {"ms": 300}, "join": "end"} for name in ("a", "b")}
    flow = {"start": {"name": "fork", "tool": None, "parallel": ["a", "b"]}, **waits,
            "end": {"name": "end", "tool": "get_counter", "done": True}}  # fmt: skip
    steps = await agent.run(flow)
    assert max(steps["a"]["started_at"], steps["b"]["started_at"]) < min(
        steps["a"]["completed_at"], steps["b"]["completed_at"]
    )


async def test_the_list(agent: Agent) -> None:
    first = await agent.create(RESEARCH, name="research", input={"topic": "x"}, actor={"id": "james", "kind": "user"})
    await agent.ended(first)
    second = await agent.create(APPROVED_WRITE, name="approved-write", input={"title": "t", "content": "c"})
    structured, text = await agent.call("workflow_list")
    assert text == [
        {"id": second, "name": "approved-write", "status": "running", "created_by": "anonymous", "completed_at": None},
        {"id": first, "name": "research", "status": "completed", "created_by": "james",
         "completed_at": text[1]["completed_at"]},
    ]  # fmt: skip
    assert text[1]["completed_at"] >= first
    # Only revision 2026-07-28 has room for a bare array there.
    assert structured == (text if agent.modern else {"result": text})
    assert await agent("workflow_list", limit=1) == text[:1]
    await agent("workflow_cancel", id=second)


async def test_cancelling(agent: Agent) -> None:
    flow = {"start": {"name": "long", "tool": "sleep", "args": {"ms": 600_000}, "done": True, "timeout_ms": 900_000}}
    workflow = await agent.create(flow)
    await agent.until(workflow, lambda one: one["steps"][0]["status"] == "running", "the step")
    structured, text = await agent.call("workflow_cancel", id=workflow)
    assert structured == text == {"cancelled": True}
    found = await agent.get(workflow)
    assert (found["status"], found["steps"][0]["status"]) == ("cancelled", "cancelled")
    assert await agent("workflow_cancel", id=workflow) == {"cancelled": False, "status": "cancelled"}


async def test_a_failed_step_has_its_error(agent: Agent) -> None:
    flow = {
        "start": {"name": "try", "tool": "fail", "args": {"message": "no paper"}, "next": "never"},
        "never": {"name": "never", "tool": "get_counter", "done": True},
    }
    steps = await agent.run(flow, "failed")
    assert list(steps) == ["try"]
    assert steps["try"]["status"] == "failed"
    assert result(steps["try"]) == {"error": "no paper", "type": "tool_error"}
    row: Any = (await agent("workflow_list"))[0]
    assert row["status"] == "failed"
    found = await agent.get(row["id"])
    assert found["reason"] == "step 'try' failed: no paper"
