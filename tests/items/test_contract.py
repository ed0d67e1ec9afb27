"""The items toolset's contract, beyond the checks for every toolset.

``Client`` validates every answer of every test in this folder against its tool's output schema.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType

import pytest

from coordinator.errors import ToolFailure
from coordinator.toolsets.items.fields import MAX_TAGS
from coordinator.toolsets.items.rules.dependencies.edges import MAX_EDGES
from coordinator.toolsets.items.tools.claims.check import MAX_ENTRIES
from coordinator.toolsets.items.tools.items import MAX_ITEMS
from coordinator.toolsets.items.tools.notes import MAX_NOTES
from coordinator.toolsets.items.tools.transitions import MAX_TRANSITIONS
from coordinator.toolsets.items.tools.trees import MAX_COMPLETED
from coordinator.toolsets.schema import input_schema
from tests.items.client import Client, Json
from tests.support.contracts import nodes, toolsets
from tests.support.schemas import departures

ITEMS = toolsets()["items"]
TOOLS = {tool.name: tool for tool in ITEMS.tools}
LIMITS: Mapping[str, Mapping[str, int]] = {
    "manage_items": {"items": MAX_ITEMS, "ids": MAX_ITEMS},
    "complete_tree": {"itemIds": MAX_COMPLETED},
    "manage_notes": {"notes": MAX_NOTES, "ids": MAX_NOTES},
    "manage_dependencies": {"dependencies": MAX_EDGES},
    "advance_item": {"transitions": MAX_TRANSITIONS},
    "claim_item": {"claims": MAX_ENTRIES, "releases": MAX_ENTRIES, "capabilities": MAX_TAGS},
}
"""The lists that the tools bound, by tool."""


def test_a_tool_is_under_one_name_in_contract_store_and_tools() -> None:
    package = "coordinator.toolsets.items"
    for name, tool in TOOLS.items():
        room = tool.arguments.__module__.rpartition(".")[2]
        store, joined = (importlib.import_module(f"{package}.{folder}.{room}") for folder in ("store", "tools"))
        assert any(one.__module__ == store.__name__ for one in _classes(store) if one.__name__.endswith("Store")), name
        assert any(name in vars(one) for one in _classes(joined)), name


def _classes(module: ModuleType) -> list[type]:
    return [one for one in vars(module).values() if isinstance(one, type)]


@pytest.mark.parametrize("name", TOOLS)
def test_defaults_are_among_the_values_allowed(name: str) -> None:
    given = [node for node in nodes(input_schema(TOOLS[name].arguments)) if "enum" in node and "default" in node]
    # An empty text counts as left out, and what is missing is refused by name.
    assert [node for node in given if node["default"] not in (*node["enum"], "")] == []


@pytest.mark.parametrize("name", LIMITS)
def test_published_lengths_of_lists_are_enforced(name: str) -> None:
    properties = input_schema(TOOLS[name].arguments)["properties"]
    published = {
        field: one["maxItems"]
        for field, node in properties.items()
        for one in node.get("anyOf", [node])
        if "maxItems" in one
    }
    assert published == LIMITS[name]


@pytest.mark.parametrize(
    ("name", "answer", "departure"),
    [
        ("get_next_status", {"recommendation": "Perhaps", "currentRole": "queue", "reason": "."}, "anyOf"),
        ("query_notes", {"notes": [], "total": -1}, "minimum"),
        ("claim_item", {"error": {"kind": "temporary", "code": "conflict", "message": "."}}, "enum"),
    ],
)
def test_an_answer_that_violates_the_output_schema_is_detected(name: str, answer: Json, departure: str) -> None:
    found = departures(TOOLS[name].result, answer)
    assert departure in " ".join(found)


def test_an_invalid_time_is_detected() -> None:
    item = {
        "id": "i", "title": "t", "summary": "", "role": "queue", "priority": "low", "complexity": None, "depth": 0,
        "requiresVerification": False,
        "createdAt": "2026-01-01T00:00:00.000Z", "modifiedAt": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    full = TOOLS["query_items"].result[:1]
    assert departures(full, item | {"roleChangedAt": "2026-01-01T00:00:00.000Z"}) == []
    assert len(departures(full, item | {"roleChangedAt": "yesterday"})) == 1


CALLS: Sequence[tuple[str, Json]] = [
    (name, dict(example)) for name, given in ITEMS.examples.items() for example in given
]


@pytest.mark.anyio
async def test_answers_and_refusals_of_every_tool_match_the_published_schema(tools: Client) -> None:
    item, other = await tools.add_many(2, tags="backend", priority="high", parentId=await tools.add("feature"))
    names = {"550e8400-e29b-41d4-a716-446655440001": item, "550e8400-e29b-41d4-a716-446655440002": other}
    answered: dict[str, int] = dict.fromkeys(TOOLS, 0)
    for name, example in CALLS:
        arguments = {
            key: names.get(value, value) if isinstance(value, str) else value for key, value in example.items()
        }
        answer = await tools.attempt(name, **arguments)
        body = answer.body() if isinstance(answer, ToolFailure) else answer
        assert departures(TOOLS[name].result, body) == [], f"{name} {arguments}"
        answered[name] += 1
    assert all(answered.values()), answered
