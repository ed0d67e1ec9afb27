"""What the gateway toolset publishes: described, valid, as recorded, and true of its examples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from coordinator.errors import CATALOGUE, ToolFailure
from coordinator.toolsets.gateway.contract.discovery import KINDS
from coordinator.toolsets.gateway.rules import catalogue
from coordinator.toolsets.gateway.rules.links import Links
from coordinator.toolsets.schema import output_schema
from coordinator.transport.surfaces import published_name
from tests.support.contracts import (
    examples,
    must_be_as_recorded,
    must_be_taken,
    must_have_valid_schemas,
    toolset,
    undocumented,
)

GATEWAY = toolset("gateway")
TOOLS = {tool.name: tool for tool in GATEWAY.tools}


def test_the_tools_are_those_of_the_seed_in_its_order() -> None:
    assert list(TOOLS) == [
        "gateway.home",
        "gateway.search",
        "gateway.describe",
        "workflow.start",
        "workflow.get",
        "workflow.submit",
        "workflow.explain",
    ]


@pytest.mark.parametrize("name", TOOLS)
def test_every_field_is_described(name: str) -> None:
    missing = [path for path in undocumented(TOOLS[name]) if not path.startswith("result.Refusal.")]
    assert missing == []


def test_the_contract_is_as_recorded() -> None:
    must_be_as_recorded(GATEWAY, Path(__file__).with_name("contract.json"))


@pytest.mark.parametrize("name", TOOLS)
def test_the_schemas_are_json_schema_2020_12(name: str) -> None:
    must_have_valid_schemas(TOOLS[name])


@pytest.mark.parametrize(("name", "example"), examples(GATEWAY))
def test_examples_keep_to_the_input_schema(name: str, example: Mapping[str, Any]) -> None:
    must_be_taken(TOOLS[name], example)


def test_every_tool_has_examples() -> None:
    assert list(GATEWAY.examples) == list(TOOLS)


def test_what_reads_says_so() -> None:
    assert [name for name, tool in TOOLS.items() if not tool.read_only] == ["workflow.start", "workflow.submit"]


@pytest.mark.parametrize("name", TOOLS)
def test_every_failure_has_the_seeds_shape_and_links(name: str) -> None:
    validator = jsonschema.Draft202012Validator(output_schema(TOOLS[name].result))
    for code in CATALOGUE:
        failure = ToolFailure(code, "why", retry_after_ms=7)
        refusal = TOOLS[name].refusal
        assert refusal is not None
        reply = refusal(failure)
        assert reply.is_error
        body = json.loads(msgspec.json.encode(reply.structured))
        validator.validate(body)
        details = {"kind": failure.kind, "retryAfterMs": 7}
        assert body["error"] == {"code": code, "message": "why", "details": details}
        assert [link["rel"] for link in body["links"]] == ["home", "search"]


def test_the_published_kinds_are_those_that_are_listed() -> None:
    assert KINDS == (catalogue.WORKFLOW, catalogue.CAPABILITY, catalogue.CONNECTION)


@pytest.mark.parametrize("name", TOOLS)
def test_links_name_tools_as_they_are_published(name: str) -> None:
    assert Links().method(name) == published_name("gateway", name, "dotted") == name
    assert Links(underscore=True).method(name) == published_name("gateway", name, "underscore")
