"""The published contract, beyond the checks for every toolset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from coordinator.toolsets.flows.contract.create import STEP
from coordinator.toolsets.flows.rules.check import check_flow
from coordinator.toolsets.flows.rules.parse import FIELDS, QUEUE, RETRY_FIELDS
from coordinator.toolsets.schema import input_schema
from tests.flows.graphs import FORK, RIGHT
from tests.flows.programs import Json
from tests.support.contracts import toolsets

FLOWS = toolsets()["flows"]
TOOLS = {tool.name: tool for tool in FLOWS.tools}


def test_the_tools_are_those_of_the_contract_in_its_order() -> None:
    assert list(TOOLS) == ["workflow_create", "workflow_list", "workflow_get", "workflow_cancel", "workflow_step_ready"]


@pytest.mark.parametrize("example", FLOWS.examples["workflow_create"])
def test_the_flows_of_examples_can_be_executed(example: Mapping[str, Any]) -> None:
    check_flow(example["flow"], example["input"], lambda tool: "", with_results=False)


def test_the_published_fields_of_a_step_are_the_parsed_ones() -> None:
    assert list(STEP["properties"]) == list(FIELDS)
    assert list(STEP["properties"]["retry"]["properties"]) == list(RETRY_FIELDS)
    assert STEP["properties"]["queue"]["pattern"] == f"^{QUEUE.pattern.removesuffix(chr(92) + 'Z')}$"


@pytest.mark.parametrize("flow", [FORK, *RIGHT.values()])
def test_valid_flows_match_the_published_schema(flow: Json) -> None:
    # Null members are tolerated for agents that write out unused fields; the schema need not mention them.
    bare = {
        key: {name: value for name, value in step.items() if value is not None or name == "tool"}
        for key, step in flow.items()
    }
    jsonschema.Draft202012Validator(input_schema(TOOLS["workflow_create"].arguments)).validate(
        {"name": "n", "flow": bare}
    )


def test_lists_have_no_output_schema_and_objects_do() -> None:
    assert [name for name, tool in TOOLS.items() if not tool.result] == ["workflow_list"]


def test_read_only_tools_are_annotated() -> None:
    assert [name for name, tool in TOOLS.items() if tool.read_only] == ["workflow_list", "workflow_get"]
    assert [name for name, tool in TOOLS.items() if tool.destructive] == ["workflow_cancel"]
