"""What the navigator toolset publishes: described, valid, as recorded, and true of its examples."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from coordinator.identity.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets import load_toolsets
from coordinator.toolsets.tool import Services
from coordinator.transport.schema import input_schema, output_schema, snapshot, undocumented
from tests.navigator.client import Client

RECORD = Path(__file__).with_name("contract.json")
UPDATE = "UPDATE_CONTRACT"
"""With this environment variable set, the record is written anew instead of compared."""

NAVIGATOR = load_toolsets(Services(Settings(), Store("redis://nowhere"), trust_self_reported))["navigator"]
TOOLS = {tool.name: tool for tool in NAVIGATOR.tools}


@pytest.mark.parametrize("name", TOOLS)
def test_every_field_is_described(name: str) -> None:
    assert undocumented(TOOLS[name]) == []


def test_the_contract_is_as_recorded() -> None:
    published = snapshot(NAVIGATOR)
    if os.environ.get(UPDATE):
        RECORD.write_text(published, encoding="utf-8")
    recorded = RECORD.read_text(encoding="utf-8")
    diff = difflib.unified_diff(recorded.splitlines(), published.splitlines(), "recorded", "published", lineterm="")
    assert published == recorded, "\n".join(list(diff)[:80])


@pytest.mark.parametrize("name", TOOLS)
def test_the_schemas_are_json_schema_2020_12(name: str) -> None:
    tool = TOOLS[name]
    jsonschema.Draft202012Validator.check_schema(input_schema(tool.arguments))
    if tool.result:
        jsonschema.Draft202012Validator.check_schema(output_schema(tool.result))


EXAMPLES = [
    pytest.param(name, example, id=f"{name}-{number}")
    for name, examples in NAVIGATOR.examples.items()
    for number, example in enumerate(examples)
]


def test_every_tool_has_examples() -> None:
    assert list(NAVIGATOR.examples) == list(TOOLS)


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "example"), EXAMPLES)
async def test_examples_are_answered(nav: Client, name: str, example: Mapping[str, Any]) -> None:
    arguments = dict(example)
    if "state" in arguments:
        arguments["state"] = (await nav.start("change"))["state"]
    answer = await nav(name, **arguments)
    assert answer
    if name.startswith("nav_") and name != "nav_action":
        assert answer["success"]
