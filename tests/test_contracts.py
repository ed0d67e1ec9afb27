"""What every toolset publishes: described, valid, as recorded, and true of its examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator.toolsets.tool import Tool, Toolset
from tests.support.contracts import (
    examples,
    must_be_as_recorded,
    must_be_taken,
    must_have_valid_schemas,
    toolsets,
    undocumented,
)

ROOMS = toolsets()
EVERY_ROOM = pytest.mark.parametrize("room", [pytest.param(room, id=name) for name, room in ROOMS.items()])
EVERY_TOOL = pytest.mark.parametrize(
    "tool", [pytest.param(tool, id=tool.name) for room in ROOMS.values() for tool in room.tools]
)


@EVERY_TOOL
def test_every_field_is_described(tool: Tool) -> None:
    # What a refusal of the gateway says beside its error is described with the answers that it comes instead of.
    assert [path for path in undocumented(tool) if not path.startswith("result.Refusal.")] == []


@EVERY_ROOM
def test_the_contract_is_as_recorded(room: Toolset) -> None:
    must_be_as_recorded(room, Path(__file__).parent / room.name / "contract.json")


@EVERY_TOOL
def test_the_schemas_are_json_schema_2020_12(tool: Tool) -> None:
    must_have_valid_schemas(tool)


@pytest.mark.parametrize(("tool", "example"), [param for room in ROOMS.values() for param in examples(room)])
def test_examples_keep_to_the_input_schema(tool: Tool, example: Mapping[str, Any]) -> None:
    must_be_taken(tool, example)


@EVERY_ROOM
def test_every_tool_has_examples(room: Toolset) -> None:
    assert list(room.examples) == [tool.name for tool in room.tools]
    assert all(room.examples.values())
