"""The size of tools/list, and the correctness of short lists.

That real answers keep to the lean schemas too is checked with every answer (``tests/support/schemas.py``).
"""

from __future__ import annotations

import gzip
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from coordinator.toolsets.schema import LEAN_BYTES, describe, lean_output_schema, output_schema
from coordinator.toolsets.tool import Tool
from tests.support.contracts import nodes, toolsets

TOOLSETS = toolsets()
EVERY = [tool for toolset in TOOLSETS.values() for tool in toolset.tools]
TOOLS = [pytest.param(tool, id=tool.name) for tool in EVERY]
STRUCTURED = [pytest.param(tool, id=tool.name) for tool in EVERY if tool.result]
CEILINGS = {
    "items": 62_000,
    "worker": 8_000,
    "flows": 13_500,
    "sessions": 20_000,
    "navigator": 13_500,
    "gateway": 9_500,
}
"""Bytes. A list is read by every client that starts, and much of it by every model."""


def listed(name: str, outputs: Any = "lean") -> bytes:
    return msgspec.json.encode([describe(tool, outputs=outputs) for tool in TOOLSETS[name].tools])


@pytest.mark.parametrize("name", CEILINGS)
def test_lists_stay_within_their_limits(name: str) -> None:
    assert len(listed(name)) <= CEILINGS[name]
    assert len(listed(name, "none")) < len(listed(name)) < len(listed(name, "full"))


def test_all_lists_together_stay_within_the_limit() -> None:
    assert set(CEILINGS) == set(TOOLSETS)
    assert sum(len(listed(name)) for name in TOOLSETS) <= 120_000
    assert len(gzip.compress(listed("items"))) <= 10_500


@pytest.mark.parametrize("tool", TOOLS)
def test_no_sentence_is_repeated_in_one_tool(tool: Tool) -> None:
    shown = describe(tool, outputs="none")
    words = [node["description"] for node in nodes(shown["inputSchema"]) if "description" in node]
    repeated = {one for one in words if words.count(one) > 2 and len(one) > 60}
    assert not repeated


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
