"""The contract of every toolset: described, valid, as recorded, and matched by its examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from coordinator.client import tools as client_tools
from coordinator.toolsets.tool import Tool, Toolset
from tests.support.contracts import (
    examples,
    known_to_clients,
    must_be_as_recorded,
    must_be_recorded,
    must_be_taken,
    must_have_valid_schemas,
    toolsets,
    undocumented,
)

TOOLSETS = toolsets()
EVERY_TOOLSET = pytest.mark.parametrize(
    "toolset", [pytest.param(toolset, id=name) for name, toolset in TOOLSETS.items()]
)
EVERY_TOOL = pytest.mark.parametrize(
    "tool", [pytest.param(tool, id=tool.name) for toolset in TOOLSETS.values() for tool in toolset.tools]
)


@EVERY_TOOL
def test_every_field_is_described(tool: Tool) -> None:
    # The fields of a gateway refusal beside its error are described with the regular answers.
    assert [path for path in undocumented(tool) if not path.startswith("result.Refusal.")] == []


@EVERY_TOOLSET
def test_the_contract_is_as_recorded(toolset: Toolset) -> None:
    must_be_as_recorded(toolset, Path(__file__).parents[1] / toolset.name / "contract.json")


def test_the_client_knows_the_tools_as_recorded() -> None:
    must_be_recorded(known_to_clients(), Path(client_tools.__file__).with_suffix(".json"))


@EVERY_TOOL
def test_the_schemas_are_json_schema_2020_12(tool: Tool) -> None:
    must_have_valid_schemas(tool)


@pytest.mark.parametrize(("tool", "example"), [param for toolset in TOOLSETS.values() for param in examples(toolset)])
def test_examples_match_the_input_schema(tool: Tool, example: Mapping[str, Any]) -> None:
    must_be_taken(tool, example)


@EVERY_TOOLSET
def test_every_tool_has_examples(toolset: Toolset) -> None:
    assert list(toolset.examples) == [tool.name for tool in toolset.tools]
    assert all(toolset.examples.values())
