"""Checks of every toolset's published contract: it is as recorded, its schemas are valid, its examples fit."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from coordinator.cli.agents.tools import as_json, as_markdown
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.schema import input_schema, output_schema
from coordinator.toolsets.tool import Services, Tool, Toolset

Json = dict[str, Any]
UPDATE = "UPDATE_CONTRACT"
"""With this environment variable set, records are rewritten instead of compared:
``UPDATE_CONTRACT=1 pytest tests -k recorded``. The diff of the commit shows the change."""
_SHOWN_LINES = 80
_PARTS = ("inputSchema", "outputSchema", "annotations", "examples")


def toolsets() -> dict[str, Toolset]:
    """Every toolset by name, as front-ends load it; its tools cannot be called."""
    return load_toolsets(Services(Settings(), Store("redis://nowhere"), trust_self_reported))


def must_be_as_recorded(toolset: Toolset, page: Path) -> None:
    """Fails with the difference between what a toolset publishes and its recorded page."""
    must_be_recorded(recorded_page(toolset), page)


def must_be_recorded(published: str, record: Path) -> None:
    """The same for a text that was made from contracts."""
    if os.environ.get(UPDATE):
        record.write_text(published, encoding="utf-8")
    recorded = record.read_text(encoding="utf-8")
    if published == recorded:
        return
    diff = list(difflib.unified_diff(recorded.splitlines(), published.splitlines(), lineterm="", n=2))
    more = [f"... and {len(diff) - _SHOWN_LINES} more lines"] if len(diff) > _SHOWN_LINES else []
    shown = "\n".join([*diff[:_SHOWN_LINES], *more])
    pytest.fail(
        f"the published contract has changed; if it should, run with {UPDATE}=1\n{shown}\n"
        "Where only digests differ, compare what `fleet tools TOOLSET --format json` prints before and after.",
        pytrace=False,
    )


def recorded_page(toolset: Toolset) -> str:
    """The page that ``fleet tools`` prints, and digests of the JSON: what the page leaves out counts, too."""
    return "\n".join([*as_markdown(toolset), *digests(as_json(toolset)), ""])


def digests(published: Json) -> Iterator[str]:
    """A table that has for each tool the digests of its parts, and in its last row that of the whole toolset.

    The order of members counts: it is the order in which clients see them.
    """
    yield from ("", "## Digests of the JSON", "", f"| | {' | '.join(_PARTS)} | all |")
    yield f"|{' --- |' * (len(_PARTS) + 2)}"
    for tool in published["tools"]:
        yield f"| {tool['name']} | {' | '.join(_digest(tool.get(part)) for part in _PARTS)} | {_digest(tool)} |"
    yield f"| all tools |{' |' * len(_PARTS)} {_digest(published)} |"


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:16]


def known_to_clients() -> str:
    """What the client library has to know of each tool (``coordinator/client/tools.json``)."""
    known = {name: {tool.name: _facts(tool) for tool in toolset.tools} for name, toolset in toolsets().items()}
    return msgspec.json.format(msgspec.json.encode(known), indent=2).decode() + "\n"


def _facts(tool: Tool) -> str:
    schema = input_schema(tool.arguments)
    # That of a session is who holds its claim, not who calls.
    facts = [name for name in ("requestId", "actor") if {"requestId", name} <= schema["properties"].keys()]
    for name, member in schema["properties"].items():
        for form in (member, *member.get("anyOf", ())):
            element = form.get("items", {})
            element = schema.get("$defs", {}).get(element.get("$ref", "").removeprefix("#/$defs/"), element)
            facts += [f"{name}[].actor"] * ("actor" in element.get("properties", {}))
    # A repeated work_next answers with the item that the agent holds; nav_start keeps nothing.
    harmless = tool.read_only or tool.idempotent or tool.name in ("work_next", "nav_start")
    return " ".join([*facts, *(["once"] if not harmless and "requestId" not in facts else [])])


def undocumented(tool: Tool) -> list[str]:
    """Paths of the tool's arguments and results that have no description of their own.

    Members of a union's alternatives count too; the alternatives themselves need none.
    """
    missing = [f"arguments.{path}" for path in _bare(input_schema(tool.arguments))]
    return missing + [f"result.{path}" for path in _bare(output_schema(tool.result) if tool.result else {})]


def _bare(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, member in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        if "description" not in member and "$ref" not in member:
            yield here
        yield from _bare(member, here)
    if isinstance(items := schema.get("items"), dict):
        yield from _bare(items, f"{path}[]")
    for name, definition in schema.get("$defs", {}).items():
        yield from _bare(definition, name)


def must_have_valid_schemas(tool: Tool) -> None:
    """Fails unless a tool's schemas are JSON Schema 2020-12 with matching references and definitions."""
    for schema in (input_schema(tool.arguments), *([output_schema(tool.result)] if tool.result else ())):
        jsonschema.Draft202012Validator.check_schema(schema)
        known = {f"#/$defs/{definition}" for definition in schema.get("$defs", {})}
        assert {node["$ref"] for node in nodes(schema) if "$ref" in node} == known
        for node in nodes(schema):
            if "default" in node:
                # A client may fill it in.
                within = {**node, "$defs": schema.get("$defs", {})}
                jsonschema.Draft202012Validator(within).validate(node["default"])


def nodes(schema: Any) -> Iterator[Json]:
    """Every schema within one."""
    if isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                for member in value.values():
                    yield from nodes(member)
            elif key not in ("enum", "default"):
                yield from nodes(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from nodes(value)


def examples(toolset: Toolset) -> list[Any]:
    """For ``parametrize``: a tool, and the arguments of an example."""
    return [
        pytest.param(tool, example, id=f"{tool.name}-{number}")
        for tool in toolset.tools
        for number, example in enumerate(toolset.examples[tool.name])
    ]


def must_be_taken(tool: Tool, example: Mapping[str, Any]) -> None:
    """Fails unless the arguments of an example match the schema, and decode."""
    jsonschema.Draft202012Validator(input_schema(tool.arguments)).validate(example)
    msgspec.convert(example, tool.arguments)
