"""Which tools answer at which path."""

from __future__ import annotations

import pytest

from coordinator.transport.surfaces import Refusal, SurfaceError, Surfaces, Target, published_name
from tests.transport.rig import Rig, dotted_toolset, flows_toolset


def surfaces(default: tuple[str, ...] = ("rig",), style: str = "dotted") -> Surfaces:
    toolsets = {one.name: one for one in (Rig().toolset(), dotted_toolset(), flows_toolset())}
    return Surfaces(toolsets, default, style)  # type: ignore[arg-type]


def served(path: str, table: Surfaces | None = None) -> Target:
    found = (table or surfaces()).resolve(path)
    assert isinstance(found, Target), found
    return found


@pytest.mark.parametrize(
    ("path", "surface", "project"),
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
def test_paths(path: str, surface: str, project: str) -> None:
    target = served(path)
    assert (target.surface.name, target.project) == (surface, project)


@pytest.mark.parametrize(
    "path", ["/", "/mcpx", "/mcp/rig/more", "/p/x", "/p/x/mcpx", "/x/mcp", "/p/a/b/mcp", "/MCP", ""]
)
def test_other_paths_are_no_endpoints(path: str) -> None:
    assert surfaces().resolve(path) is None


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
        ("/p/_x/mcp", 400, "not starting with"),
        ("/p/" + "a" * 64 + "/mcp", 400, "1 to 63 characters"),
        ("/p/x\n/mcp", 400, "no project"),
        ("/p/{!fleet}/mcp", 400, "no project"),
        ("/p/nope/mcp/nope", 404, "no toolset"),
    ],
)
def test_refusals_say_why(path: str, status: int, words: str) -> None:
    found = surfaces().resolve(path)
    assert isinstance(found, Refusal)
    assert found.status == status
    assert words in found.message


def test_a_surface_is_made_once_and_does_not_depend_on_the_project() -> None:
    table = surfaces()
    assert served("/mcp/rig,gateway", table).surface is served("/p/x/mcp/gateway,rig", table).surface
    assert served("/mcp", table).surface is served("/mcp/rig", table).surface


def test_any_number_of_projects_takes_bounded_memory() -> None:
    table = surfaces()
    for number in range(10_000):
        table.resolve(f"/p/p{number}/mcp")
    assert len(table._paths) <= 4_096
    assert served("/p/p0/mcp", table).project == "p0"


def test_tools_come_in_the_order_of_their_toolsets() -> None:
    surface = served("/mcp/gateway,rig").surface
    assert [tool["name"] for tool in surface.listing][-3:] == ["watch", "workflow.get", "workflow.list"]
    assert surface.instructions == "How to use rig.\n\nDots."
    assert surface.title == "Rig, Gateway"


def test_underscores_never_collide_with_another_toolset() -> None:
    target = served("/mcp/gateway,flows", surfaces(style="underscore"))
    assert list(target.surface.tools) == ["gw_workflow_get", "gw_workflow_list", "workflow_get", "add"]
    assert target.surface.tools["gw_workflow_get"].name == "workflow.get"
    assert published_name("sessions", "a.b.c", "underscore") == "sessions_a_b_c"
    assert published_name("sessions", "a_b", "underscore") == "a_b"
    assert published_name("gateway", "workflow.get", "dotted") == "workflow.get"


def test_a_default_that_cannot_be_served_stops_the_start() -> None:
    with pytest.raises(SurfaceError, match="toolsets: there is no toolset 'nope'"):
        surfaces(("rig", "nope"))
    with pytest.raises(SurfaceError, match="rig and flows cannot be served together"):
        surfaces(("rig", "flows"))
