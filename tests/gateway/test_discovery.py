"""gateway.home, gateway.search, gateway.describe and workflow.explain, as a caller sees them."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest

from coordinator.errors import ToolFailure
from coordinator.toolsets.gateway.contract.discovery import MAX_BYTES
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Lab, states

pytestmark = pytest.mark.anyio

NOOP: Json = {"kind": "noop"}
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


def pages_of(*sizes: int) -> Json:
    return {f"tool.{number:03}": {"description": "x" * size, "executor": NOOP} for number, size in enumerate(sizes)}


def size_of(entries: list[Json]) -> int:
    return len(msgspec.json.encode(entries))


async def walked(lab: Lab) -> list[list[Json]]:
    """The items of each page."""
    found: list[list[Json]] = []
    link: Json = {"rel": "next", "method": "gateway.home", "args": {}}
    while link["rel"] == "next":
        answer = await lab(link["method"], **link["args"])
        found.append(answer["items"])
        link = answer["links"][0]
        assert answer.get("total", len(answer["items"])) == len(lab.settings.gateway.capabilities)  # type: ignore[union-attr]
    assert link == {"rel": "search", "method": "gateway.search", "args": {"query": ""}}
    return found


async def test_a_small_catalogue_is_one_answer(make_lab: MakeLab) -> None:
    lab = make_lab(capabilities=pages_of(0))
    room = MAX_BYTES - size_of((await lab("gateway.home"))["items"])
    lab = make_lab(capabilities=pages_of(room))
    answer = await lab("gateway.home")
    assert answer.keys() == {"items", "links"}
    assert size_of(answer["items"]) == MAX_BYTES
    assert [link["rel"] for link in answer["links"]] == ["search"]
    lab = make_lab(capabilities=pages_of(room // 2, room // 2))
    answer = await lab("gateway.home")
    assert (len(answer["items"]), answer["total"]) == (1, 2)
    assert [link["rel"] for link in answer["links"]] == ["next", "search"]


@pytest.mark.parametrize("sizes", [(5,) * 400, (0, 30_000, 30_000, 1), (9_000,) * 7, (19_700, 50, 1, 19_700)])
async def test_a_large_catalogue_comes_in_pages(make_lab: MakeLab, sizes: tuple[int, ...]) -> None:
    lab = make_lab(capabilities=pages_of(*sizes))
    pages = await walked(lab)
    assert [item["id"] for page in pages for item in page] == list(pages_of(*sizes))
    assert all(size_of(page) <= MAX_BYTES or len(page) == 1 for page in pages)
    for page, after in pairwise(pages):
        assert size_of([*page, after[0]]) > MAX_BYTES, "each page is as large as it may be"


async def test_a_cursor_stays_valid_while_its_item_is_there(make_lab: MakeLab) -> None:
    everything = pages_of(*(5,) * 400)
    before = make_lab(capabilities=everything)
    first = await before("gateway.home")
    last = first["items"][-1]["id"]
    ((_, link),) = [(one["rel"], one) for one in first["links"] if one["rel"] == "next"]
    changed = {"new": {"executor": NOOP}, **everything, "newest": {"executor": NOOP}}
    del changed["tool.000"], changed["tool.399"]
    rest = await make_lab(capabilities=changed)(link["method"], **link["args"])
    order = list(changed)
    assert rest["items"][0]["id"] == order[order.index(last) + 1]
    assert rest["total"] == 400
    del changed[last]
    refused = await make_lab(capabilities=changed).refused(link["method"], **link["args"])
    assert refused["error"]["code"] == "ITEM_NOT_FOUND"
    assert refused["error"]["message"].startswith("The catalogue has changed, so the cursor")
    assert [one["rel"] for one in refused["links"]] == ["home", "search"]
    # The cursor of another caller's catalogue reveals nothing.
    hidden = make_lab(
        capabilities={"open": {"executor": NOOP}, "locked": GUARDED["locked"]}, discovery={"visibility": "byGuards"}
    )
    assert (await hidden.refused("gateway.home", cursor="locked"))["error"] == {
        **(await hidden.refused("gateway.home", cursor="absent"))["error"],
        "message": "The catalogue has changed, so the cursor 'locked' leads nowhere. Begin again without it.",
    }


async def test_results_of_a_search_are_bounded(make_lab: MakeLab) -> None:
    lab = make_lab(capabilities=pages_of(*(300,) * 100))
    whole = await lab("gateway.search", query="tool", limit=20)
    assert "total" not in whole
    cut = await lab("gateway.search", query="tool", limit=100)
    assert (cut["total"], cut["results"][:20]) == (100, whole["results"])
    assert MAX_BYTES - 1_000 < size_of(cut["results"]) <= MAX_BYTES


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
