"""Which tools answer at which path."""

from __future__ import annotations

import itertools

import pytest

from coordinator.transport.endpoints import EndpointError, Endpoints, Target, published_name
from coordinator.transport.http.replies import Refusal
from tests.transport.rig import Rig, dotted_toolset, flows_toolset


def endpoints(default: tuple[str, ...] = ("rig",), style: str = "dotted") -> Endpoints:
    toolsets = {one.name: one for one in (Rig().toolset(), dotted_toolset(), flows_toolset())}
    return Endpoints(toolsets, default, style)  # type: ignore[arg-type]


def served(path: str, table: Endpoints | None = None) -> Target:
    found = (table or endpoints()).resolve(path)
    assert isinstance(found, Target), found
    return found


@pytest.mark.parametrize(
    ("path", "endpoint", "project"),
    [
        ("/mcp", "rig", "default"),
        ("/mcp/", "rig", "default"),
        ("/mcp/rig", "rig", "default"),
        ("/mcp/gateway", "gateway", "default"),
        ("/mcp/rig,gateway", "rig,gateway", "default"),
        ("/mcp/gateway,rig", "rig,gateway", "default"),
        ("/p/team-1/mcp", "rig", "team-1"),
        ("/p/0/mcp/gateway,flows", "gateway,flows", "0"),
        ("/p/" + "a" * 63 + "/mcp", "rig", "a" * 63),
    ],
)
def test_paths(path: str, endpoint: str, project: str) -> None:
    target = served(path)
    assert (target.endpoint.name, target.project) == (endpoint, project)


@pytest.mark.parametrize(
    "path", ["/", "/mcpx", "/mcp/rig/more", "/p/x", "/p/x/mcpx", "/x/mcp", "/p/a/b/mcp", "/MCP", ""]
)
def test_other_paths_are_not_endpoints(path: str) -> None:
    assert endpoints().resolve(path) is None


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/mcp/nope", 404, "no toolset 'nope'; there are: rig, gateway, flows"),
        ("/mcp/rig,", 404, "no toolset ''"),
        ("/mcp/Rig", 404, "no toolset 'Rig'"),
        ("/mcp/rig,rig", 400, "named twice"),
        ("/mcp/rig,flows", 400, "rig and flows cannot be served together because they share tool names: add"),
        ("/p/Team/mcp", 400, "no project can have the name 'Team'"),
        ("/p//mcp", 400, "no project can have the name ''"),
        ("/p/_x/mcp", 400, "beginning with a letter or digit"),
        ("/p/" + "a" * 64 + "/mcp", 400, "1 to 63 lower-case letters"),
        ("/p/x\n/mcp", 400, "no project"),
        ("/p/{!fleet}/mcp", 400, "no project"),
        ("/p/nope/mcp/nope", 404, "no toolset"),
    ],
)
def test_refusals_give_a_reason(path: str, status: int, words: str) -> None:
    found = endpoints().resolve(path)
    assert isinstance(found, Refusal)
    assert found.status == status
    assert words in found.message


def test_an_endpoint_is_made_once_and_does_not_depend_on_the_project() -> None:
    table = endpoints()
    assert served("/mcp/rig,gateway", table).endpoint is served("/p/x/mcp/gateway,rig", table).endpoint
    assert served("/mcp", table).endpoint is served("/mcp/rig", table).endpoint


def test_any_number_of_projects_takes_bounded_memory() -> None:
    table = endpoints()
    paths = [f"/p/p{number}/mcp" for number in range(10_000)]
    found = [table.resolve(path) for path in paths]
    latest = itertools.takewhile(lambda at: table.resolve(paths[at]) is found[at], reversed(range(len(paths))))
    assert 0 < len(list(latest)) <= 4_096
    assert served("/p/p0/mcp", table).project == "p0"


def test_tools_come_in_the_order_of_their_toolsets() -> None:
    endpoint = served("/mcp/gateway,rig").endpoint
    assert [tool["name"] for tool in endpoint.listing][-3:] == ["watch", "workflow.get", "workflow.list"]
    assert endpoint.instructions == "How to use rig.\n\nDots."
    assert endpoint.title == "Rig, Gateway"


def test_underscores_never_collide_with_another_toolset() -> None:
    target = served("/mcp/gateway,flows", endpoints(style="underscore"))
    assert list(target.endpoint.tools) == ["gw_workflow_get", "gw_workflow_list", "workflow_get", "add"]
    assert target.endpoint.tools["gw_workflow_get"].name == "workflow.get"
    assert published_name("sessions", "a.b.c", "underscore") == "sessions_a_b_c"
    assert published_name("sessions", "a_b", "underscore") == "a_b"
    assert published_name("gateway", "workflow.get", "dotted") == "workflow.get"


def test_a_default_that_cannot_be_served_stops_the_start() -> None:
    with pytest.raises(EndpointError, match="toolsets: there is no toolset 'nope'"):
        endpoints(("rig", "nope"))
    with pytest.raises(EndpointError, match="rig and flows cannot be served together"):
        endpoints(("rig", "flows"))
