"""A server with schemas and tools of every kind, behind two front-ends: what is offered, what is left out, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from mcp.client import Client

from tests.console.visitors import NAVIGATION, Visitor
from tests.flows.fleet import Agent as FlowAgent
from tests.gateway.fleet import Agent, GatewayFleet, Json
from tests.support.downstream import raw
from tests.support.fleets import fleet_command
from tests.support.raw_server import OUTPUTS, USABLE, USELESS
from tests.support.wait import wait_until_sync


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFleet]:
    gateway = {"version": "1.0.0", "proxy": {"import": [{"connection": "odd", "prefix": "odd"}]}}
    config = {"connections": {"odd": msgspec.to_builtins(raw("schemas"))}, "gateway": gateway}
    with GatewayFleet(tmp_path_factory.mktemp("odd"), config) as served:
        agents: list[Agent] = []

        def both_have_the_tools() -> bool:
            agents.append(served.agent())  # at either front-end, by chance
            return all(agent.items() for agent in agents) and len(served.answered()) == 2

        wait_until_sync(both_have_the_tools)
        yield served


@pytest.fixture
def agent(served: GatewayFleet) -> Agent:
    return served.agent()


def left_out(served: GatewayFleet, *more: str) -> str:
    at = ("--data-dir", str(served.fleet.data_dir), "--config", str(served.file))
    return fleet_command("gateway", "tools", *more, *at).stdout


def test_the_command_names_what_is_left_out(served: GatewayFleet, agent: Agent) -> None:
    assert agent.items().keys() == {f"odd.{name}" for name in (*USABLE, *OUTPUTS, "nulls")}
    told = {one["tool"]: one for one in json.loads(left_out(served, "--left-out", "--json"))}
    assert told.keys() == USELESS.keys()
    assert told["two words"] == {
        "connection": "odd",
        "tool": "two words",
        "reason": "its name is not one of 1 to 128 characters without blanks, '$' and brackets",
    }
    head, *rows = left_out(served, "--left-out").splitlines()
    assert head.split() == ["connection", "tool", "reason"]
    for row, one in zip(rows, told.values(), strict=True):
        assert row.startswith("odd ")
        assert all(row.count(cell) for cell in one.values())
    listed = json.loads(left_out(served, "--json"))
    assert {"connection": "odd", "tool": "meta", "capability": "odd.meta"} in listed
    assert len(listed) == len(USABLE) + len(OUTPUTS) + 1
    assert not any("left out" in line["event"] for line in served.fleet.logs)


def received(agent: Agent, name: str, arguments: Json) -> Json:
    """What a tool received that was called by the form of its start link."""
    (described,) = agent("gateway.describe", id=name)["links"]
    given = {**described["args"]["input"], "arguments": arguments}
    (block,) = agent("workflow.start", **{**described["args"], "input": given})["context"]["lastResult"]["content"]
    found: Json = json.loads(block["text"])
    return found


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("letters", {"x": "Ωé"}, {"x": "a1"}),
        ("year", {"x": "2026"}, {"x": "26"}),
        ("draft-3", {"x": ""}, {}),
        ("draft-4", {"x": 1}, {"x": 0}),
        ("booleans", {"x": [1]}, {"y": 1}),
        ("empties", {"x": None, "y": {"z": 1}}, {"y": 1}),
        ("nulls", {"any": 1}, None),
        ("meta", {"arguments": {"z": 1}}, {"arguments": 1}),
        ("meta", {"arguments": {"arguments": {}}, "capability": "x"}, {"capability": 1}),
    ],
)
def test_what_is_offered_can_be_called(agent: Agent, name: str, good: Json, bad: Json | None) -> None:
    assert received(agent, f"odd.{name}", good) == good
    if bad is not None:
        called = {"capability": f"odd.{name}", "arguments": bad}
        refused = agent.refused("workflow.start", definitionId="proxy_default", input=called)
        assert refused["error"]["code"] == "INPUT_SCHEMA_VIOLATION"


@pytest.mark.anyio
async def test_a_step_with_a_tool_that_is_only_a_task_is_refused_clearly(served: GatewayFleet) -> None:
    async with Client(f"http://127.0.0.1:{served.fleet.port}/mcp/flows") as client:
        flows = FlowAgent(client)
        flow = {"start": {"name": "a", "tool": "odd.as-task", "args": {"x": "y"}, "done": True}}
        found = await flows.ended(await flows.create(flow), "failed")
        assert "'as-task' cannot be called: it can only be called as a task" in json.dumps(found)


def test_the_page_of_the_gateway_names_what_is_left_out(served: GatewayFleet) -> None:
    person = Visitor(served.fleet.port)

    def shown() -> str:
        return person.ask("GET", "/console/p/default/gateway", NAVIGATION).text

    page = wait_until_sync(lambda: text if "tools left out" in (text := shown()) else "", what="the connection's row")
    assert f"<summary>{len(USELESS)} tools left out</summary>" in page
    assert "<li>as-task: it can only be called as a task" in page
