"""``fleet tools``: prints the tools of a toolset on one page, from their contracts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.terminal import print_json
from coordinator.settings.problems import unknown
from coordinator.toolsets.registry import described_toolsets
from coordinator.toolsets.schema import TOOL_ERROR, describe, input_schema, output_schema
from coordinator.toolsets.tool import Tool, Toolset

Json = dict[str, Any]
_ERROR = '{"error": {"kind", "code", "message", "retryAfterMs?", "contendedItemId?"}}'
_OWN_ERROR = '{"error": {"code", "message", "details?": {"kind?", "retryAfterMs?", ...}}, "links"}'
_CELLS = ("Argument", "Type", "Required", "Default", "Allowed", "What it means")


def tools(
    toolset: Annotated[str, Parameter(help="Which toolset; without it, their names.")] = "",
    *,
    format: Annotated[
        Literal["markdown", "json"],
        Parameter(help="'json' has the full schemas, as tools/list gives them with output_schemas full."),
    ] = "markdown",
) -> None:
    known = described_toolsets()
    if not toolset:
        for name, entry in known.items():
            print(f"{name}: {entry.title}, {len(entry.tools)} tools")
    elif toolset not in known:
        raise CommandFailed(unknown("toolset", toolset, known), Exit.USAGE)
    elif format == "json":
        print_json(as_json(known[toolset]))
    else:
        print("\n".join(as_markdown(known[toolset])))


def as_json(toolset: Toolset) -> Json:
    """Everything about a toolset; the ``examples`` of a tool are arguments of calls."""
    return {
        "name": toolset.name,
        "title": toolset.title,
        "instructions": toolset.instructions,
        "tools": [{**describe(tool), "examples": toolset.examples.get(tool.name, ())} for tool in toolset.tools],
    }


def as_markdown(toolset: Toolset) -> Iterator[str]:
    yield from (f"# {toolset.title}: the toolset `{toolset.name}`", "", toolset.instructions, "")
    yield from ("| Tool | | What it does |", "| --- | --- | --- |")
    for tool in toolset.tools:
        yield f"| [{tool.name}](#{tool.name}) | {_behaviour(tool)} | {_first_sentence(tool.description)} |"
    if toolset.resources:
        yield from ("", "| Resource | What it is |", "| --- | --- |")
        for resource in toolset.resources:
            yield f"| `{resource.uri}` | {resource.description} |"
    yield ""
    errors = [output_schema(tool.result[:1])["properties"]["error"] for tool in toolset.tools if tool.result]
    yield (
        "In answers below, `?` marks what can be absent. A call that fails as a whole answers with `isError` and "
        f"`{_ERROR if TOOL_ERROR in errors else _OWN_ERROR}`; kind is transient (retry), permanent (do not) or "
        "shedding (come back after retryAfterMs)."
    )
    for tool in toolset.tools:
        yield from _tool(tool, toolset.examples.get(tool.name, ()))


def _tool(tool: Tool, examples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("", f"## {tool.name}", "", tool.description, "")
    schema = input_schema(tool.arguments)
    if rows := list(_arguments(schema, schema, "", ())):
        yield from (f"| {' | '.join(row)} |" for row in (_CELLS, ["---"] * len(_CELLS), *rows))
    else:
        yield "Takes no arguments."
    yield from _blocks("Call", examples)
    shapes = []
    for result in tool.result:
        schema = output_schema((result,))
        node = {**schema, "properties": {name: _own(member) for name, member in schema["properties"].items()}}
        if node["properties"]["error"] == TOOL_ERROR:
            del node["properties"]["error"]
        shapes.append(_shape(node, {**node, "required": _required(node)}, ()))
    yield from _blocks("Answer", shapes)


def _own(member: Json) -> Json:
    """The schema of a member of an answer, without the alternative for failures."""
    options = [option for option in member.get("anyOf", ()) if option != TOOL_ERROR]
    return member if len(options) == len(member.get("anyOf", ())) else options[0]


def _blocks(title: str, values: Sequence[Any]) -> Iterator[str]:
    for position, value in enumerate(values):
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        yield from ("", "or:" if position else f"{title}:", "", "```json", text, "```")


def _behaviour(tool: Tool) -> str:
    return "reads" if tool.read_only else "writes, deletes" if tool.destructive else "writes"


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".") + "."


def _arguments(root: Json, node: Json, prefix: str, above: tuple[str, ...]) -> Iterator[list[str]]:
    """A row for each argument, members of objects and elements of arrays and mappings included."""
    for name, member in node.get("properties", {}).items():
        required = name in node.get("required", ())
        yield [
            f"`{prefix}{name}`",
            _type(root, member),
            "yes" if required else "",
            _default(member),
            _allowed(root, member),
            _cell(member.get("description", "")),
        ]
        for inner, mark in _inner(root, member):
            reference = inner.get("$ref", "")
            if not reference or reference not in above:
                yield from _arguments(root, _resolved(root, inner), f"{prefix}{name}{mark}.", (*above, reference))


def _inner(root: Json, node: Json) -> Iterator[tuple[Json, str]]:
    """The objects within a node, each with its path segment."""
    for option in node.get("anyOf", [node]):
        schema = _resolved(root, option)
        if "items" in schema:
            yield from ((inner, "[]" + mark) for inner, mark in _inner(root, schema["items"]))
        elif "properties" in schema:
            yield option, ""
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from ((inner, ".*" + mark) for inner, mark in _inner(root, schema["additionalProperties"]))


def _resolved(root: Json, node: Json) -> Json:
    while "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    return node


def _type(root: Json, node: Json) -> str:
    words = []
    for option in node.get("anyOf", [node]):
        schema = _resolved(root, option)
        if schema.get("type") == "array":
            words.append(f"array of {_type(root, schema['items'])}" if schema.get("items") else "array")
        else:
            types = schema.get("type", "string" if "enum" in schema else "any")
            words += [types] if isinstance(types, str) else types
    return " or ".join(dict.fromkeys(words))


def _default(node: Json) -> str:
    if node.get("default") in (None, "", []):
        return ""
    return f"`{msgspec.json.encode(node['default']).decode()}`"


def _allowed(root: Json, node: Json) -> str:
    facts: dict[str, None] = {}
    for schema in (node, *(_resolved(root, option) for option in node.get("anyOf", ()))):
        if "enum" in schema:
            facts[", ".join(f"`{value}`" for value in schema["enum"] if value is not None)] = None
        for low, high, unit in (
            ("minimum", "maximum", ""),
            ("minLength", "maxLength", " characters"),
            ("minItems", "maxItems", " elements"),
        ):
            if low in schema or high in schema:
                facts[_range(schema.get(low), schema.get(high)) + unit] = None
        if "pattern" in schema:
            facts[f"matching `{_cell(schema['pattern'])}`"] = None
    return "; ".join(facts)


def _range(low: Any, high: Any) -> str:
    if low is None:
        return f"up to {high}"
    return f"{low} or more" if high is None else f"{low} to {high}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _required(node: Json) -> list[str]:
    """The members that every successful answer has."""
    return [name for option in node.get("anyOf", ()) for name in option["required"] if name != "error"]


def _shape(root: Json, node: Json, above: tuple[str, ...]) -> Any:
    """The shape of a value: its names, with types in place of values."""
    options = [option for option in node.get("anyOf", ()) if "type" in option or "$ref" in option]
    if options:
        words = [_shape(root, option, above) for option in options]
        structured = [word for word in words if not isinstance(word, str)]
        return structured[0] if structured else " or ".join(words)
    if "$ref" in node:
        return _shape(root, _resolved(root, node), (*above, node["$ref"])) if node["$ref"] not in above else "..."
    if "properties" in node:
        required = node.get("required", ())
        return {
            name if name in required else f"{name}?": _shape(root, member, above)
            for name, member in node["properties"].items()
        }
    if node.get("type") == "array":
        return [_shape(root, node["items"], above)] if node.get("items") else []
    if isinstance(node.get("additionalProperties"), dict):
        return {"...": _shape(root, node["additionalProperties"], above)}
    return str(node.get("type", "any"))
