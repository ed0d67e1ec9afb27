"""The contract of every toolset: described, valid, as recorded, and matched by its examples."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.cli.agents.tools import as_json
from coordinator.client import tools as client_tools
from coordinator.toolsets.tool import Tool, Toolset
from tests.support.contracts import (
    digests,
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
    # The fields of a gateway refusal beside its error are described with the regular answers; usage and next of the
    # toolset worker by work_next, and by the names of their fields.
    elsewhere = ["result.Refusal.", *(["arguments.usage.", "arguments.next."] if tool.name.startswith("work_") else [])]
    assert [path for path in undocumented(tool) if not path.startswith(tuple(elsewhere))] == []


@EVERY_TOOLSET
def test_the_contract_is_as_recorded(toolset: Toolset) -> None:
    must_be_as_recorded(toolset, Path(__file__).parents[1] / toolset.name / "contract.txt")


@EVERY_TOOLSET
def test_digests_see_any_change_of_the_json(toolset: Toolset) -> None:
    text = msgspec.json.encode(as_json(toolset))
    recorded, pick = list(digests(msgspec.json.decode(text))), random.Random(0)
    for _ in range(30):
        changed = msgspec.json.decode(text)
        tool = pick.choice(changed["tools"])
        container, place = pick.choice(list(places(tool)))
        if isinstance(value := container[place], dict) and len(value) > 1:
            container[place] = dict(reversed(value.items()))
        else:
            container[place] = [value]
        differs = [old for old, new in zip(recorded, digests(changed), strict=True) if old != new]
        assert len(differs) == 2, (tool["name"], place, value)
        assert recorded[-1] in differs


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each member of a JSON value, as its container and its key or index there."""
    for place, member in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, place
        if isinstance(member, (dict, list)):
            yield from places(member)


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
