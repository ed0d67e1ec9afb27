"""Traces across the processes of a fleet, as received by a collector."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp.client import Client
from opentelemetry import trace

from tests.support.fleets import MCP_HEADERS, Http, RunningFleet, call_body
from tests.support.wait import wait_until_sync
from tests.tracing.collector import Collector, Seen

pytestmark = pytest.mark.anyio

SERVER, CLIENT, CONSUMER = 2, 3, 5
CONFIG = """
flows: {{step_results: true}}
connections:
  local: {{kind: mcp, command: {python}, args: ["{program}"]}}
gateway:
  version: "1.0.0"
  workflows:
    release:
      title: Release
      initialState: open
      states:
        open:
          transitions:
            ship: {{title: Ship it, target: done, executor: {{kind: noop}}}}
            stay: {{title: Stay here, target: open, executor: {{kind: noop}}}}
        done: {{terminal: true}}
"""
SECRET = "do-not-tell-anybody"


class World:
    """A fleet of a front-end and a worker, and its collector."""

    def __init__(self, folder: Path, collector: Collector) -> None:
        self.collector = collector
        config = folder / "fleet.yaml"
        program = Path(__file__).with_name("downstream.py")
        config.write_text(CONFIG.format(python=sys.executable, program=program))
        self.fleet = RunningFleet(
            folder / "data",
            *("--config", str(config), "--port", "0", "--frontends", "1", "--workers", "1"),
            FLEET_TRACING_ENDPOINT=collector.url,
        )
        self.fleet.wait_ready()
        # The fast path serves requests like those admitted before.
        self.call("get_blocked_items", {}, begin())

    def call(self, tool: str, arguments: dict[str, Any], traceparent: str, path: str = "/mcp") -> Any:
        """The structured content of a call with a trace context."""
        message = json.loads(call_body(tool, arguments))
        message["params"]["_meta"] = {"traceparent": traceparent, "tracestate": "vendor=1"}
        with Http(self.fleet.port) as client:
            try:
                client.connection.request("POST", path, json.dumps(message), MCP_HEADERS)
                answer = client.connection.getresponse().read().decode()
            except OSError as error:
                raise AssertionError(f"{tool}: {error!r}\n{self.fleet.stderr}") from None
        if not answer.startswith("{"):
            answer = next(line[5:] for line in answer.splitlines() if line.startswith("data:") and line[5:].strip())
        result = msgspec.json.decode(answer)["result"]
        assert not result.get("isError"), result
        return result.get("structuredContent") or json.loads(result["content"][0]["text"])

    def flow(self, flow: dict[str, Any], traceparent: str, status: str) -> dict[str, Any]:
        """A workflow when it has ended, its steps by name."""
        made = self.call("workflow_create", {"name": "f", "flow": flow, "input": {"word": SECRET}}, traceparent)

        def ended() -> Any:
            found = self.call("workflow_get", {"id": made["id"]}, begin())
            return found if found["status"] == status else None

        return {step["name"]: step for step in wait_until_sync(ended, what=status)["steps"]}


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("tracing"), collector)
    yield world
    world.fleet.clean_up()


def begin() -> str:
    """A trace context of a caller."""
    return f"00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-01"


def ids(traceparent: str) -> tuple[str, str]:
    _, whole, span, _ = traceparent.split("-")
    return whole, span


def one(found: list[Seen], name: str) -> Seen:
    (span,) = [span for span in found if span.name == name]
    return span


def test_a_call_continues_the_caller_s_trace_with_its_script_as_a_child(world: World) -> None:
    caller = begin()
    whole, above = ids(caller)
    item = {"title": SECRET, "summary": SECRET}
    actor = {"id": SECRET, "kind": "subagent"}
    request = {"operation": "create", "requestId": str(uuid.uuid4()), "actor": actor, "items": [item]}
    world.call("manage_items", request, caller, "/p/mine/mcp/items")
    found = world.collector.wait_for(whole, "tools/call manage_items", "script create_items")
    call, script = one(found, "tools/call manage_items"), one(found, "script create_items")
    assert (call.parent, call.kind, call.failed) == (above, SERVER, False)
    assert call.process == "fe-0"
    shown = {key: value for key, value in call.attributes.items() if key != "coordinator.request_id"}
    assert shown == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "manage_items",
        "coordinator.project": "mine",
        "coordinator.transport": "fast",
        "coordinator.outcome": "ok",
    }
    assert (script.parent, script.kind, script.process) == (call.span, CLIENT, call.process)
    assert script.attributes["coordinator.outcome"] == "new"
    assert call.began <= script.began <= script.ended <= call.ended
    assert not any(SECRET.encode() in body for body in world.collector.bodies)


def test_the_slow_path_makes_the_same_span(world: World) -> None:
    caller = begin()
    whole, above = ids(caller)
    actor = {"id": "ann", "kind": "subagent"}
    parked = {"requestId": str(uuid.uuid4()), "actor": actor, "waitMs": 1}
    world.call("claim_item", {**parked, "claims": [{"selector": {"tags": "none-such"}}]}, caller, "/p/long/mcp/items")
    found = world.collector.wait_for(whole, "tools/call claim_item")
    call = one(found, "tools/call claim_item")
    assert (call.parent, call.attributes["coordinator.transport"]) == (above, "sdk")
    assert len({span.span for span in found}) == len(found)


async def test_a_client_of_the_sdk_propagates_its_trace(world: World) -> None:
    caller = begin()
    whole, above = ids(caller)
    context = trace.SpanContext(int(whole, 16), int(above, 16), True, trace.TraceFlags(1))
    async with Client(f"http://127.0.0.1:{world.fleet.port}/p/sdk/mcp/items") as client:
        with trace.use_span(trace.NonRecordingSpan(context)):
            result = await client.call_tool("get_blocked_items", {})
    assert not result.is_error, result
    call = one(world.collector.wait_for(whole, "tools/call get_blocked_items"), "tools/call get_blocked_items")
    assert (call.parent, call.attributes["coordinator.transport"]) == (above, "fast")


def test_a_rejected_call_is_a_failed_span_without_details(world: World) -> None:
    caller = begin()
    whole, above = ids(caller)
    with pytest.raises(AssertionError):
        world.call("query_items", {"operation": SECRET}, caller)
    call = one(world.collector.wait_for(whole, "tools/call query_items"), "tools/call query_items")
    assert (call.parent, call.failed) == (above, True)
    assert (call.attributes["coordinator.outcome"], call.attributes["error.type"]) == ("invalid", "VALIDATION_ERROR")


def test_steps_and_their_tool_calls_continue_the_trace(world: World) -> None:
    caller = begin()
    whole, _ = ids(caller)
    flow = {
        "start": {"name": "first", "tool": "local.whose", "args": {}, "next": "second"},
        "second": {
            "name": "second",
            "tool": "query_items",
            "args": {"operation": "search", "query": "{{input.word}}"},
            "done": True,
        },
    }
    steps = world.flow(flow, caller, "completed")
    found = world.collector.wait_for(
        whole, "tools/call workflow_create", "step flows", "step flows", "script report_steps"
    )
    create = one(found, "tools/call workflow_create")
    assert create.parent == ids(caller)[1]
    first, second = [span for span in found if span.name == "step flows"]
    for span, key, tool in ((first, "start", "local.whose"), (second, "second", "query_items")):
        assert (span.parent, span.kind, span.process) == (create.span, CONSUMER, "w-0")
        assert (span.attributes["coordinator.step.key"], span.attributes["gen_ai.tool.name"]) == (key, tool)
        assert (span.attributes["coordinator.attempt"], span.attributes["coordinator.outcome"]) == (1, "ok")
    told = json.loads(steps["first"]["result_json"])
    assert ids(told if isinstance(told, str) else told["content"][0]["text"]) == (whole, first.span)
    below = {span.name for span in found if span.parent == second.span}
    assert any(name.startswith("script ") and name != "script report_steps" for name in below), below
    report = next(span for span in found if span.name == "script report_steps")
    assert report.process == "w-0"
    assert report.parent in (first.span, second.span)
    assert not any(SECRET.encode() in body for body in world.collector.bodies)


def test_attempts_after_the_first_continue_the_trace(world: World) -> None:
    caller = begin()
    whole, _ = ids(caller)
    retry = {"max_attempts": 2, "delay_ms": 1, "backoff": "fixed"}
    flow = {"start": {"name": "s", "tool": "local.fail", "args": {}, "retry": retry, "done": True}}
    world.flow(flow, caller, "failed")
    found = world.collector.wait_for(whole, "tools/call workflow_create", "step flows", "step flows")
    create = one(found, "tools/call workflow_create")
    attempts = [span for span in found if span.name == "step flows"]
    assert [span.attributes["coordinator.attempt"] for span in attempts] == [1, 2]
    assert [span.attributes["coordinator.outcome"] for span in attempts] == ["retry", "failed"]
    assert {span.parent for span in attempts} == {create.span}


def test_executors_of_the_gateway_are_children_of_their_transition(world: World) -> None:
    path = "/mcp/gateway"
    made = world.call("workflow.start", {"definitionId": "release", "input": {}}, begin(), path)
    version = made["version"]
    for transition in ("stay", "ship"):
        caller = begin()
        whole, above = ids(caller)
        asked = {
            "workflowId": made["workflowId"],
            "expectedVersion": version,
            "transition": transition,
            "arguments": {},
        }
        version = world.call("workflow.submit", asked, caller, path)["version"]
        found = world.collector.wait_for(whole, "tools/call workflow.submit", "step gateway")
        submit = one(found, "tools/call workflow.submit")
        assert submit.parent == above
        assert (one(found, "step gateway").parent, one(found, "step gateway").process) == (submit.span, "w-0")


def test_unsampled_traces_of_callers_are_not_recorded(world: World) -> None:
    unsampled, sampled = begin()[:-2] + "00", begin()
    for caller in (unsampled, sampled):
        world.call("get_blocked_items", {}, caller)
    world.collector.wait_for(ids(sampled)[0], "tools/call get_blocked_items")
    # Both could come from another process, so only the unwanted spans are checked.
    assert world.collector.of(ids(unsampled)[0]) == []


def test_the_last_spans_are_delivered_before_a_fleet_ends(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--frontends", "1", "--workers", "0")
    with (
        Collector() as collector,
        RunningFleet(tmp_path / "data", *arguments, FLEET_TRACING_ENDPOINT=collector.url) as fleet,
    ):
        fleet.wait_ready()
        with Http(fleet.port) as client:
            client.call("get_blocked_items")
        assert fleet.end() == 0
        assert [span.name for span in collector.spans].count("tools/call get_blocked_items") == 1
