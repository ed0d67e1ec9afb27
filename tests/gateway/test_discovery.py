"""gateway.home, gateway.search, gateway.describe and workflow.explain, as a caller sees them."""

from __future__ import annotations

import json

import pytest

from coordinator.errors import ToolFailure
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Lab, states

pytestmark = pytest.mark.anyio

GUARDED: Json = {
    "open": {"title": "Open", "tags": ["door"], "executor": {"kind": "noop"}},
    "locked": {
        "title": "Locked",
        "tags": ["door"],
        "guards": [{"kind": "role", "role": "keeper"}],
        "executor": {"kind": "noop"},
        "examples": [{"a": 1}],
    },
}
SECRETS = {
    "kind": "rest",
    "connection": "api",
    "method": "POST",
    "path": "/v1/{x}",
    "headers": {"Authorization": "Bearer s3cret"},
    "query": {"key": "s3cret"},
    "body": {"password": "s3cret"},
}


async def test_visibility_by_guards(make_lab: MakeLab) -> None:
    everybody = make_lab(capabilities=GUARDED)
    assert [item["id"] for item in (await everybody("gateway.home"))["items"]] == ["open", "locked"]
    lab = make_lab(capabilities=GUARDED, discovery={"visibility": "byGuards"})
    keeper = lab.as_("ana", "keeper")
    for who, seen in ((lab, ["open"]), (keeper, ["open", "locked"])):
        assert [item["id"] for item in (await who("gateway.home"))["items"]] == seen
        found = await who("gateway.search", query="door")
        assert sorted(hit["item"]["id"] for hit in found["results"]) == sorted(seen)
    refused = await lab.refused("gateway.describe", id="locked")
    assert refused["error"]["code"] == "ITEM_NOT_FOUND"
    # Nor is it revealed otherwise.
    refused = await lab.refused("workflow.explain", definitionId="proxy_default", transition="locked")
    assert refused["error"]["code"] == "INVALID_TRANSITION"
    everything = await lab("workflow.explain", definitionId="proxy_default")
    assert everything["states"] == {"ready": {"transitions": ["open"]}}
    tries: list[Json] = [{}, {"arguments": {}}, {"wrong": 1}]
    for given in tries:
        refused = await lab.refused(
            "workflow.start", definitionId="proxy_default", input={"capability": "locked", **given}
        )
        unknown = await lab.refused(
            "workflow.start", definitionId="proxy_default", input={"capability": "absent", **given}
        )
        assert json.loads(json.dumps(refused).replace("locked", "absent")) == unknown
    assert (await keeper.start("proxy_default", capability="locked"))["state"] == "ready"
    shown = await keeper("workflow.explain", definitionId="proxy_default", transition="locked")
    assert shown["guards"] == [{"kind": "role", "role": "keeper"}]
    described = await keeper("gateway.describe", id="locked")
    assert described["examples"] == [{"a": 1}]
    assert described["links"][0]["input_schema"] == {"type": "object", "properties": {}, "additionalProperties": False}


async def test_search_is_limited_and_filtered(make_lab: MakeLab) -> None:
    lab = make_lab(
        capabilities={f"tool.{number}": {"executor": {"kind": "noop"}} for number in range(30)},
        workflows={"tool_flow": states(a={"terminal": True})},
    )
    found = await lab("gateway.search", query="tool")
    assert len(found["results"]) == 10
    assert found["links"] == [{"rel": "home", "method": "gateway.home", "args": {}}]
    assert len((await lab("gateway.search", query="tool", limit=31))["results"]) == 31
    only = await lab("gateway.search", query="tool", kind="workflow")
    assert [hit["item"]["id"] for hit in only["results"]] == ["tool_flow"]
    assert (await lab("gateway.search", query="zzzz"))["results"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"query": "x", "limit": 0}, "limit: must be 1 to 100"),
        ({"query": "x", "limit": 101}, "limit: must be 1 to 100"),
        ({"query": "x", "kind": "tool"}, "kind: must be one of workflow, capability, connection"),
        ({"query": "x" * 1001}, "query: must be at most 32 words and 1000 characters"),
        ({"query": "x " * 33}, "query: must be at most 32 words and 1000 characters"),
    ],
)
async def test_invalid_searches_are_rejected(make_lab: MakeLab, arguments: Json, says: str) -> None:
    with pytest.raises(ToolFailure, match=says):
        await make_lab()("gateway.search", **arguments)


@pytest.fixture
def explained(make_lab: MakeLab) -> Lab:
    again = {"target": "b", "title": "Again", "executor": SECRETS, "actor": "human"}
    branch = {"when": {"kind": "role", "role": "lead"}, "target": "c"}
    return make_lab(
        connections={"api": {"kind": "rest", "baseUrl": "https://api.example.org"}},
        capabilities={"c": {"executor": SECRETS}},
        workflows={
            "w": {
                "description": "Explained.",
                **states(
                    a={"transitions": {"again": again, "on": {"target": "b", "branches": [branch]}}},
                    b={"transitions": {"again": {"target": "c"}}},
                    c={"terminal": True, "outcome": "failure"},
                    d={},
                ),
            }
        },
    )


async def test_explanations_have_no_secrets(explained: Lab) -> None:
    whole = await explained("workflow.explain", definitionId="w")
    assert whole["states"]["c"] == {"terminal": True, "outcome": "failure"}
    assert whole["states"]["d"] == {"terminal": True}
    again = await explained("workflow.explain", definitionId="w", transition="again")
    assert again["executor"] == {"kind": "rest", "connection": "api", "method": "POST", "path": "/v1/{x}"}
    assert (again["target"], again["actor"], again["fromStates"]) == ("b", "human", ["a", "b"])
    assert again["inputSchema"] is None
    on = await explained("workflow.explain", definitionId="w", transition="on")
    assert on["executor"] is None
    assert on["branches"] == [{"when": {"kind": "role", "role": "lead"}, "target": "c"}]
    assert "s3cret" not in str([whole, again, on])


async def test_sessions_are_explained(explained: Lab) -> None:
    whole = await explained("workflow.explain", definitionId="proxy_default")
    assert whole["states"] == {"ready": {"transitions": ["c"]}}
    one = await explained("workflow.explain", definitionId="proxy_default", transition="c")
    assert one["executor"]["kind"] == "rest"


async def test_an_unknown_transition_links_to_the_explanation(explained: Lab) -> None:
    refused = await explained.refused("workflow.explain", definitionId="w", transition="nope")
    assert refused["error"]["code"] == "INVALID_TRANSITION"
    assert refused["links"] == [{"rel": "explain", "method": "workflow.explain", "args": {"definitionId": "w"}}]


async def test_links_follow_the_naming_style(make_lab: MakeLab) -> None:
    lab = make_lab({"tool_name_style": "underscore"}, capabilities=GUARDED)
    home = await lab("gateway.home")
    assert home["items"][0]["links"][0]["method"] == "gw_workflow_start"
    assert home["links"][0]["method"] == "gw_gateway_search"


async def test_visibility_that_depends_on_arguments(make_lab: MakeLab) -> None:
    few = [{"kind": "expr", "expr": "$.arguments.n < 3"}]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    lab = make_lab(
        capabilities={"few": {"executor": {"kind": "noop"}, "guards": few, "inputSchema": schema}},
        discovery={"visibility": "byGuards"},
        limits={"submitWaitMs": 100},  # nobody executes anything here
    )
    assert (await lab("gateway.home"))["items"] == []
    right: list[Json] = [{"n": 1}, {"arguments": {"n": 1}}]
    for given in right:
        called = await lab("workflow.start", definitionId="proxy_default", input={"capability": "few", **given})
        assert "inFlight" in called
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "few", "n": 5})
    assert "there is no capability 'few'" in refused["error"]["message"]
