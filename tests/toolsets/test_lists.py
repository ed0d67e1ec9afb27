"""The size of tools/list, and the correctness of short lists.

That real answers keep to the lean schemas too is checked with every answer (``tests/support/schemas.py``).
"""

from __future__ import annotations

import gzip
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from coordinator.toolsets.schema import HUGE, LEAN_BYTES, describe, lean_output_schema, output_schema
from coordinator.toolsets.tool import Tool
from tests.support.contracts import nodes, toolsets

TOOLSETS = toolsets()
EVERY = [tool for toolset in TOOLSETS.values() for tool in toolset.tools]
TOOLS = [pytest.param(tool, id=tool.name) for tool in EVERY]
STRUCTURED = [pytest.param(tool, id=tool.name) for tool in EVERY if tool.result]
CEILINGS = {
    "items": 54_000,
    "worker": 8_000,
    "flows": 13_500,
    "sessions": 20_000,
    "navigator": 13_500,
    "gateway": 9_500,
}
"""Bytes. A list is read by every client that starts, and much of it by every model."""


def listed(name: str, outputs: Any = "lean") -> bytes:
    return msgspec.json.encode([describe(tool, outputs=outputs) for tool in TOOLSETS[name].tools])


def members(schema: Any) -> list[tuple[str, Any]]:
    """Every argument, and every member of one."""
    return [found for node in nodes(schema) for found in node.get("properties", {}).items()]


def words(member: Any) -> str:
    """A member's description."""
    return str(member.get("description", ""))


def without_words(node: Any) -> Any:
    """A schema without its descriptions and huge bounds."""
    if isinstance(node, list):
        return [without_words(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: without_words(value)
        for key, value in node.items()
        if not (key == "description" and isinstance(value, str)) and not (key == "maximum" and value >= HUGE)
    }


@pytest.mark.parametrize("name", CEILINGS)
def test_lists_stay_within_their_limits(name: str) -> None:
    assert len(listed(name)) <= CEILINGS[name]
    assert len(listed(name, "none")) < len(listed(name)) < len(listed(name, "full"))


def test_all_lists_together_stay_within_the_limit() -> None:
    assert set(CEILINGS) == set(TOOLSETS)
    # Agents have the toolset worker instead of the others.
    assert sum(len(listed(name)) for name in TOOLSETS if name != "worker") <= 105_000
    assert len(gzip.compress(listed("items"))) <= 9_000


@pytest.mark.parametrize("tool", TOOLS)
def test_no_sentence_is_repeated_in_one_tool(tool: Tool) -> None:
    shown = describe(tool, outputs="none")
    words = [node["description"] for node in nodes(shown["inputSchema"]) if "description" in node]
    repeated = {one for one in words if words.count(one) > 2 and len(one) > 60}
    assert not repeated


@pytest.mark.parametrize("identified", [False, True])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_lean_list_has_the_same_arguments_and_describes_each_once(tool: Tool, identified: bool) -> None:
    full = describe(tool, identified=identified)["inputSchema"]
    lean = describe(tool, identified=identified, outputs="lean")["inputSchema"]
    assert without_words(lean) == without_words(full)
    told = [(name, words(member)) for name, member in members(lean) if words(member)]
    different = {(name, words(member), msgspec.json.encode(member)) for name, member in members(full) if words(member)}
    assert sorted(told) == sorted((name, said) for name, said, _ in different)


@pytest.mark.parametrize("tool", STRUCTURED)
def test_a_lean_schema_is_the_full_one_without_descriptions_or_just_an_object(tool: Tool) -> None:
    lean, full = lean_output_schema(tool.result), output_schema(tool.result)
    assert lean["type"] == "object"
    assert len(msgspec.json.encode(lean)) <= LEAN_BYTES
    jsonschema.Draft202012Validator.check_schema(lean)
    assert not [node for node in nodes(lean) if {"description", "enum", "minimum", "format"} & node.keys()]
    if lean != {"type": "object"}:
        assert list(lean.get("properties", ())) == list(full.get("properties", ()))
        assert lean.get("$defs", {}).keys() == full.get("$defs", {}).keys()
    assert jsonschema.Draft202012Validator(lean).is_valid({"error": {"kind": "permanent", "code": "c", "message": "m"}})
