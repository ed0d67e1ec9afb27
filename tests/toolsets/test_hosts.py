"""Published schemas stay within the subsets of hosts; the exceptions are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.toolsets.host_schema import typed
from coordinator.toolsets.schema import identified_schema, input_schema, output_schema
from coordinator.toolsets.tool import Tool
from tests.toolsets.host_schemas import OPEN, TOOLS
from tests.toolsets.hosts import anthropic, gemini, openai_strict, result

EVERY_TOOL = pytest.mark.parametrize("tool", [pytest.param(tool, id=name) for name, tool in TOOLS.items()])


@EVERY_TOOL
@pytest.mark.parametrize("accepts", [gemini, anthropic])
def test_arguments_are_within_the_published_subsets(tool: Tool, accepts: Callable[[Any], list[str]]) -> None:
    assert accepts(input_schema(tool.arguments)) == []
    assert accepts(identified_schema(tool.arguments)) == []


@pytest.mark.parametrize("name", TOOLS)
def test_arguments_are_within_the_strict_subset_except_for_those_named(name: str) -> None:
    found = openai_strict(input_schema(TOOLS[name].arguments))
    expected = OPEN.get(name, [])
    assert len(found) == len(expected)
    assert all(one.startswith(start) for one, start in zip(found, expected, strict=True)), found


@EVERY_TOOL
def test_results_are_readable_for_hosts(tool: Tool) -> None:
    assert not tool.result or result(output_schema(tool.result)) == []


@EVERY_TOOL
def test_an_actor_has_an_id_and_a_kind(tool: Tool) -> None:
    actor = input_schema(tool.arguments)["properties"].get("actor")
    if actor is not None:
        (shape,) = [one for one in actor.get("anyOf", [actor]) if one.get("type") == "object"]
        assert shape["required"] == ["id", "kind"]
        assert "default" not in shape["properties"]["id"]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": {"x": {"enum": ["a"]}}}, ".x: has neither"),
        ({"type": "object", "properties": {"x": {"enum": ["a", None], "anyOf": [{"type": "string"}]}}}, ".x: keywords"),
        ({"type": "object", "properties": {"x": {"type": ["string", "null"]}}}, ".x: its type"),
        ({"type": "object", "properties": {"x": {"type": "array"}}}, ".x: an array"),
        ({"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {}}}, ".x: $ref"),
        ({"type": "object", "properties": {"x": {"type": "integer", "enum": [1]}}}, ".x: an enum"),
        ({"type": "object", "properties": {}, "required": ["x"]}, "root: requires x"),
        ({"type": "object", "properties": {"x.y": {"type": "string"}}}, "root: the name x.y"),
        ({"anyOf": [{"type": "object"}]}, "root: is not an object"),
    ],
)
def test_schemas_that_gemini_rejects_are_found(schema: Any, says: str) -> None:
    assert any(one.startswith(says) for one in gemini(schema)), gemini(schema)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": {"x": {"type": "object"}}, "additionalProperties": False}, ".x: is an open"),
        ({"type": "object", "additionalProperties": False, "anyOf": []}, "root: is not"),
        ({"type": "object", "additionalProperties": False, "properties": {"x": {"oneOf": []}}}, ".x: oneOf"),
        ({"type": "object", "additionalProperties": False, "properties": {"x": {"type": "array"}}}, ".x: does not say"),
        ({"type": "object", "additionalProperties": False, "properties": {"x": {"pattern": "(?=a)"}}}, ".x: its patt"),
    ],
)
def test_schemas_that_strict_mode_rejects_are_found(schema: Any, says: str) -> None:
    assert any(one.startswith(says) for one in openai_strict(schema)), openai_strict(schema)


def test_schemas_that_anthropic_rejects_are_found() -> None:
    assert anthropic({"type": "object", "anyOf": [], "properties": {"ä": {"$ref": "#"}}}) == [
        "root: anyOf", "root: the name ä", ".ä: a reference"
    ]  # fmt: skip


def test_keywords_move_to_their_alternative() -> None:
    assert typed({"anyOf": [{"type": "string"}, {"type": "null"}], "enum": ["a", None], "maxLength": 3}) == {
        "anyOf": [{"type": "string", "maxLength": 3, "enum": ["a"]}, {"type": "null"}]
    }
    assert typed({"enum": ["a", None], "description": "d"}) == {
        "description": "d",
        "anyOf": [{"type": "null"}, {"type": "string", "enum": ["a"]}],
    }
    assert typed({"enum": [1, 2]}) == {"type": "integer", "enum": [1, 2]}
    assert typed({"type": ["array", "null"], "items": {"enum": ["x"]}, "maxItems": 2}) == {
        "anyOf": [{"type": "array", "items": {"type": "string", "enum": ["x"]}, "maxItems": 2}, {"type": "null"}]
    }
