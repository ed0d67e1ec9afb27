"""The published contract, beyond the checks for every toolset."""

from __future__ import annotations

import json

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from coordinator.errors import CATALOGUE, ToolFailure
from coordinator.toolsets.gateway.contract.discovery import KINDS
from coordinator.toolsets.gateway.rules import catalogue
from coordinator.toolsets.gateway.rules.links import Links
from coordinator.toolsets.schema import output_schema
from coordinator.transport.endpoints import published_name
from tests.support.contracts import toolsets

TOOLS = {tool.name: tool for tool in toolsets()["gateway"].tools}


def test_the_tools_are_those_of_the_contract_in_its_order() -> None:
    assert list(TOOLS) == [
        "gateway.home",
        "gateway.search",
        "gateway.describe",
        "workflow.start",
        "workflow.get",
        "workflow.submit",
        "workflow.explain",
    ]


def test_read_only_tools_are_annotated() -> None:
    assert [name for name, tool in TOOLS.items() if not tool.read_only] == ["workflow.start", "workflow.submit"]


@pytest.mark.parametrize("name", TOOLS)
def test_every_failure_has_the_documented_shape_and_links(name: str) -> None:
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


def test_the_published_kinds_are_the_listed_ones() -> None:
    assert KINDS == (catalogue.WORKFLOW, catalogue.CAPABILITY, catalogue.CONNECTION)


@pytest.mark.parametrize("name", TOOLS)
def test_links_use_the_published_tool_names(name: str) -> None:
    assert Links().method(name) == published_name("gateway", name, "dotted") == name
    assert Links(underscore=True).method(name) == published_name("gateway", name, "underscore")
