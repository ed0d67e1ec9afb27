"""``fleet tools``: the page about a toolset agrees with what is served."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from coordinator import cli
from coordinator.toolsets.schema import describe, input_schema
from coordinator.toolsets.tool import Tool
from tests.support.contracts import toolsets

Out = pytest.CaptureFixture[str]

TOOLSETS = toolsets()
TOOLS = {(toolset.name, tool.name): tool for toolset in TOOLSETS.values() for tool in toolset.tools}
PAIRS = [(toolset.name, tool.name) for toolset in TOOLSETS.values() for tool in toolset.tools]


def page(toolset: str, capsys: Out) -> str:
    assert cli.run(["tools", toolset]) == 0
    return capsys.readouterr().out


def chapter(text: str, tool: str) -> str:
    return text.split(f"\n## {tool}\n")[1].split("\n## ")[0]


def blocks(text: str) -> list[Any]:
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", text, re.DOTALL)]


@pytest.mark.parametrize(("toolset", "name"), PAIRS)
def test_the_page_has_each_argument_example_and_answer(toolset: str, name: str, capsys: Out) -> None:
    text = chapter(page(toolset, capsys), name)
    tool = TOOLS[toolset, name]
    assert tool.description in text
    rows = {row.split("`")[1]: row for row in text.splitlines() if row.startswith("| `")}
    schema = input_schema(tool.arguments)
    for argument, member in schema["properties"].items():
        assert member.get("description", "") in rows[argument].replace("\\|", "|")
        assert ("| yes |" in rows[argument]) is (argument in schema.get("required", []))
    found = blocks(text)
    examples = list(TOOLSETS[toolset].examples[name])
    assert found[: len(examples)] == examples
    assert len(found) == len(examples) + len(tool.result)
    for shape, result in zip(found[len(examples) :], tool.result, strict=True):
        assert [key.rstrip("?") for key in shape] == [field.encode_name for field in msgspec.structs.fields(result)]


def test_rows_show_allowed_values(capsys: Out) -> None:
    text = chapter(page("items", capsys), "claim_item")
    assert "| `claims[].ttlSeconds` | integer |  | `900` | 1 to 86400 |" in text
    assert "| `claims[].selector.role` | string or null |  |  | `queue`, `work`, `review`, `blocked` |" in text
    assert "| `actor` | object | yes |" in text
    assert "| `actor.kind` | string |" in text
    answer = blocks(text)[-1]
    assert answer["claimResults"][0]["fenceToken?"] == "integer"
    assert answer["summary"]["claimsTotal"] == "integer"


def test_rows_show_the_fields_of_a_step(capsys: Out) -> None:
    text = chapter(page("flows", capsys), "workflow_create")
    assert "| `flow` | object | yes |" in text
    assert "| `flow.start.name` | string | yes |  | 1 to 200 characters |" in text
    assert "| `flow.start.branch[].then` | string | yes |" in text
    assert "| `flow.start.retry.max_attempts` | integer | yes |  | 1 to 100 |" in text
    assert "| `flow.start.on_error` | string |  |  | `fail`, `continue` |" in text
    assert "| `queue` | string or null |  |  | matching `^[a-z][a-z0-9_-]{0,49}$` |" in text


@pytest.mark.parametrize(
    ("toolset", "tool", "allowed"),
    [
        ("sessions", "get_workflow_status", "`checkpoint`, `changed`, `ended`"),
        ("flows", "workflow_get", "`ended`, `attention`, `changed`"),
        ("gateway", "workflow.get", "`ended`, `attention`, `changed`"),
    ],
)
def test_rows_show_what_can_be_waited_for(toolset: str, tool: str, allowed: str, capsys: Out) -> None:
    assert f"| `waitFor` | string or null |  |  | {allowed} |" in chapter(page(toolset, capsys), tool)


def test_the_page_shows_what_a_failure_looks_like(capsys: Out) -> None:
    for toolset in TOOLSETS:
        shown = (
            '{"error": {"code", "message", "details?"'
            if toolset == "gateway"
            else '{"error": {"kind", "code", "message", '
        )
        assert shown in page(toolset, capsys)


def test_resources_are_listed(capsys: Out) -> None:
    text = page("sessions", capsys)
    assert TOOLSETS["sessions"].resources
    for resource in TOOLSETS["sessions"].resources:
        assert f"| `{resource.uri}` | {resource.description} |" in text
    assert "Resource |" not in page("items", capsys)


def test_a_tool_without_arguments_has_no_table_of_them(capsys: Out) -> None:
    text = chapter(page("sessions", capsys), "health_check")
    assert "Takes no arguments." in text
    assert "| Argument |" not in text


def test_json_has_what_a_client_is_served(capsys: Out) -> None:
    assert cli.run(["tools", "items", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["name"] == "items"
    served: dict[str, Tool] = {tool.name: tool for tool in TOOLSETS["items"].tools}
    assert [tool["name"] for tool in report["tools"]] == list(served)
    for tool in report["tools"]:
        examples = tool.pop("examples")
        assert examples == [dict(example) for example in TOOLSETS["items"].examples[tool["name"]]]
        assert tool == json.loads(msgspec.json.encode(describe(served[tool["name"]])))


def test_names_of_toolsets(capsys: Out) -> None:
    assert cli.run(["tools"]) == 0
    assert f"items: Work items, {len(TOOLSETS['items'].tools)} tools\n" in capsys.readouterr().out
    assert cli.run(["tools", "itms"]) == 2
    assert capsys.readouterr().err == "fleet: unknown toolset 'itms'; did you mean 'items'?\n"
