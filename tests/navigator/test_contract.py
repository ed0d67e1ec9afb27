"""What the navigator toolset publishes: described, valid, as recorded, and true of its examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.navigator.client import Client
from tests.support.contracts import (
    examples,
    must_be_as_recorded,
    must_be_taken,
    must_have_valid_schemas,
    toolset,
    undocumented,
)

NAVIGATOR = toolset("navigator")
TOOLS = {tool.name: tool for tool in NAVIGATOR.tools}


@pytest.mark.parametrize("name", TOOLS)
def test_every_field_is_described(name: str) -> None:
    assert undocumented(TOOLS[name]) == []


def test_the_contract_is_as_recorded() -> None:
    must_be_as_recorded(NAVIGATOR, Path(__file__).with_name("contract.json"))


@pytest.mark.parametrize("name", TOOLS)
def test_the_schemas_are_json_schema_2020_12(name: str) -> None:
    must_have_valid_schemas(TOOLS[name])


@pytest.mark.parametrize(("name", "example"), examples(NAVIGATOR))
def test_examples_keep_to_the_input_schema(name: str, example: Mapping[str, Any]) -> None:
    must_be_taken(TOOLS[name], example)


def test_every_tool_has_examples() -> None:
    assert list(NAVIGATOR.examples) == list(TOOLS)


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "example"), examples(NAVIGATOR))
async def test_examples_are_answered(nav: Client, name: str, example: Mapping[str, Any]) -> None:
    arguments = dict(example)
    if "state" in arguments:
        arguments["state"] = (await nav.start("change"))["state"]
    answer = await nav(name, **arguments)
    assert answer
    if name.startswith("nav_") and name != "nav_action":
        assert answer["success"]
