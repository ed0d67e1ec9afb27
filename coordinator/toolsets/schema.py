"""The description of a tool in ``tools/list``, generated from its contract structs.

The schemas are JSON Schema 2020-12, the dialect that MCP assumes by default. ``$schema`` is left out on purpose:
clients whose validator knows only an older dialect would reject a schema that names this one, and nothing that we
generate differs between the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import UnsetType

from coordinator.toolsets.actor import FILLED_BY_CALLER, REFUSED_ALONE
from coordinator.toolsets.host_schema import REF as _REF
from coordinator.toolsets.host_schema import inlined, references, typed
from coordinator.toolsets.tool import Tool

MAX_RESULT = "anthropic/maxResultSizeChars"
"""Key of a tool's ``_meta``: up to how many characters Claude Code shows a result whole to its model."""
Outputs = Literal["lean", "full", "none"]
"""How much ``tools/list`` says about results."""
LEAN_BYTES = 850
"""For a longer structure a lean list only says that it is an object."""
HUGE = 10**9
"""Lean lists leave out greater maxima: no caller comes near them by intent."""
_BESIDE = frozenset(("description", "examples", "title", "default", "enum", "format", "pattern"))
_BESIDE |= {f"{bound}{of}" for bound in ("min", "max") for of in ("imum", "Length", "Items", "Properties")}
"""Keywords left out of lean lists: descriptions, values and bounds."""
_REMEMBERED = 512

TOOL_ERROR: dict[str, Any] = {
    "description": "Why the call failed; present only then.",
    "type": "object",
    "properties": {
        "kind": {
            "description": "transient: retry may succeed; permanent: it will not; shedding: come back later.",
            "type": "string",
            "enum": ["permanent", "shedding", "transient"],
        },
        "code": {"description": "The stable name of this failure.", "type": "string"},
        "message": {"description": "What went wrong, in a sentence.", "type": "string"},
        "retryAfterMs": {"description": "When to retry, in milliseconds.", "type": "integer", "minimum": 0},
        "contendedItemId": {"description": "The item that caused the conflict.", "type": "string"},
    },
    "required": ["kind", "code", "message"],
}
"""The ``error`` member of a failed call's structured content (``ToolFailure.body``)."""


class ContractError(Exception):
    """A contract struct cannot be published: a defect of the toolset that declares it."""


@lru_cache(maxsize=_REMEMBERED)
def input_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a tool's arguments. Cached and shared: do not change it.

    Raises:
        ContractError: a struct in it accepts unknown fields, so that a misspelt argument would be silently dropped.
    """
    (name,), definitions = _components([arguments])
    for schema in definitions.values():
        if "properties" in schema and schema.get("additionalProperties") is not False:
            raise ContractError(f"{arguments.__qualname__}: every argument struct needs forbid_unknown_fields=True")
    return inlined(_assembled(dict(definitions[name]), definitions))


@lru_cache(maxsize=_REMEMBERED)
def identified_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """``input_schema`` for authenticated callers. Cached and shared: do not change it."""
    schema = dict(input_schema(arguments))
    required = [name for name in schema.get("required", ()) if name not in _marked(arguments, FILLED_BY_CALLER)]
    schema.pop("required", None)
    return {**schema, "required": required} if required else schema


@lru_cache(maxsize=_REMEMBERED)
def lean_input_schema(arguments: type[msgspec.Struct], identified: bool = False) -> dict[str, Any]:
    """``input_schema``, or ``identified_schema``, in which a repeated member is described once, and no bound is huge.

    A member is repeated if its name and its whole schema are. Cached and shared: do not change it.
    """
    schema: dict[str, Any] = _concise((identified_schema if identified else input_schema)(arguments), set())
    return schema


def _concise(node: Any, seen: set[tuple[str, bytes]]) -> Any:
    if isinstance(node, list):
        return [_concise(one, seen) for one in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):
            made[key] = {name: _member(name, member, seen) for name, member in value.items()}
        elif key in ("default", "enum", "examples"):
            made[key] = value
        elif key != "maximum" or value < HUGE:
            made[key] = _concise(value, seen)
    return made


def _member(name: str, schema: dict[str, Any], seen: set[tuple[str, bytes]]) -> dict[str, Any]:
    same = (name, msgspec.json.encode(schema))
    described = schema
    if same in seen:
        described = {key: value for key, value in schema.items() if key != "description"}
    seen.add(same)
    made: dict[str, Any] = _concise(described, seen)
    return made


@lru_cache(maxsize=_REMEMBERED)
def output_schema(results: tuple[type[msgspec.Struct], ...]) -> dict[str, Any]:
    """The schema of a tool's structured content, failures included. Cached and shared: do not change it.

    A failed call has structured content too (``{"error": ...}``), and some clients check it against this schema
    although ``isError`` is set. So the schema covers everything that can come: one of the results, or ``error``.

    Args:
        results: the structs that the tool may return.
    """
    names, definitions = _components(results)
    if len(names) > 1:
        options = [{"$ref": _REF + name} for name in names]
        stated = [definitions[name].get("properties", {}) for name in names]
        owned = [properties["error"] for properties in stated if "error" in properties]
        error = {"anyOf": [*owned, TOOL_ERROR]} if owned else TOOL_ERROR
        failed = {"properties": {"error": error}, "required": ["error"]}
        return _assembled({"type": "object", "anyOf": [*options, failed]}, definitions)
    root = dict(definitions[names[0]])
    required = root.pop("required", [])
    root["properties"] = {**root.get("properties", {})}
    own = root["properties"].get("error")
    # A result may have a member ``error`` of its own, of another type.
    root["properties"]["error"] = TOOL_ERROR if own is None else {**_described(own), "anyOf": [own, TOOL_ERROR]}
    root.pop("additionalProperties", None)
    if required:
        root["anyOf"] = [{"required": required}, {"required": ["error"]}]
    return _assembled(root, definitions)


@lru_cache(maxsize=_REMEMBERED)
def lean_output_schema(results: tuple[type[msgspec.Struct], ...]) -> dict[str, Any]:
    """The structure of ``output_schema`` without words, values and bounds; of a long one, only that it is an object.

    Hardly any model reads more. Cached and shared: do not change it.
    """
    structure: dict[str, Any] = _bare(output_schema(results))
    return structure if len(msgspec.json.encode(structure)) <= LEAN_BYTES else {"type": "object"}


def _bare(node: Any) -> Any:
    if isinstance(node, list):
        return [_bare(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node == TOOL_ERROR:
        return {"type": "object"}
    return {
        key: {name: _bare(one) for name, one in value.items()} if key in ("properties", "$defs") else _bare(value)
        for key, value in node.items()
        if key not in _BESIDE
    }


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": schema["description"]} if "description" in schema else {}


def behaviour(tool: Tool) -> dict[str, bool]:
    """The tool's behaviour as MCP's hints."""
    return {
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent or tool.read_only,
        "openWorldHint": tool.open_world,
    }


def describe(
    tool: Tool, name: str | None = None, *, identified: bool = False, outputs: Outputs = "full"
) -> dict[str, Any]:
    """The tool's entry in ``tools/list``.

    Args:
        name: the published name; None: the tool's own.
        identified: for authenticated callers, who need not name themselves as actors.
        outputs: how much it says about results. Only 'full' repeats the description of an argument.
    """
    results = {}
    if tool.result and outputs != "none":
        results["outputSchema"] = output_schema(tool.result) if outputs == "full" else lean_output_schema(tool.result)
    if outputs == "full":
        arguments = identified_schema(tool.arguments) if identified else input_schema(tool.arguments)
    else:
        arguments = lean_input_schema(tool.arguments, identified)
    return {
        "name": name or tool.name,
        "description": tool.description,
        "inputSchema": arguments,
        **results,
        "annotations": behaviour(tool),
        **({"_meta": {MAX_RESULT: tool.result_chars}} if tool.result_chars else {}),
    }


def _components(structs: Sequence[type[msgspec.Struct]]) -> tuple[list[str], dict[str, Any]]:
    """The structs' names and all schemas by name, without titles (they only repeat the names)."""
    classes = list(structs)
    for struct in structs:
        classes += [inner for inner in _structs(_type_info(struct), set()) if inner not in classes]
    references, components = msgspec.json.schema_components(classes, ref_template=_REF + "{name}")
    names = [reference["$ref"].removeprefix(_REF) for reference in references]
    for name, struct in zip(names, classes, strict=True):
        schema = components[name]
        schema.pop("title", None)
        optional_for_some = {*_marked(struct, FILLED_BY_CALLER), *_marked(struct, REFUSED_ALONE)}
        stated = {*schema.get("required", ()), *optional_for_some} - _left_out(struct)
        required = [field.encode_name for field in msgspec.structs.fields(struct) if field.encode_name in stated]
        if required:
            schema["required"] = required
        else:
            schema.pop("required", None)
        for field, member in schema["properties"].items():
            # This default only marks an absent value. Passed by a caller, it would be rejected or have no effect.
            if "default" in member and (member["default"] is None or field in optional_for_some or _excluded(member)):
                del member["default"]
        components[name] = typed(schema)
    return names[: len(structs)], components


def _excluded(member: dict[str, Any]) -> bool:
    """Whether a member's default is not among its allowed values."""
    return member["default"] not in member.get("enum", [member["default"]])


@lru_cache(maxsize=_REMEMBERED)
def _type_info(struct: type[msgspec.Struct]) -> msgspec.inspect.StructType:
    """msgspec's type information of a struct; cached, because all schemas need the same ones many times."""
    return msgspec.inspect.type_info(struct)  # type: ignore[return-value]


def _structs(info: object, seen: set[int]) -> Iterator[type[msgspec.Struct]]:
    """Every struct class within a type as ``msgspec.inspect`` describes it."""
    if id(info) in seen or not isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field | tuple):
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.StructType):
        yield info.cls
    for part in info if isinstance(info, tuple) else (getattr(info, name) for name in info.__struct_fields__):
        yield from _structs(part, seen)


@lru_cache(maxsize=_REMEMBERED)
def _left_out(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Fields without a default that can still be absent from the JSON, because they may be UNSET."""
    hints = get_type_hints(struct)
    return frozenset(
        field.encode_name
        for field in msgspec.structs.fields(struct)
        if field.required and UnsetType in get_args(hints[field.name])
    )


def _marked(struct: type[msgspec.Struct], mark: dict[str, bool]) -> set[str]:
    """Fields whose ``Meta.extra`` has the mark: the schema requires them, but the decoder accepts their absence."""
    return {
        field.encode_name
        for field in _type_info(struct).fields
        if isinstance(field.type, msgspec.inspect.Metadata) and mark.items() <= (field.type.extra or {}).items()
    }


def _assembled(root: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """The root with only the definitions that it refers to, in alphabetical order."""
    # The struct's docstring is for readers of the code; callers see the tool's description.
    root.pop("description", None)
    reached: set[str] = set()
    pending = list(references(root))
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending.extend(references(components[name]))
    if reached:
        root["$defs"] = {name: components[name] for name in sorted(reached)}
    return root


def nesting(schema: dict[str, Any], part: dict[str, Any] | None = None) -> int | None:
    """Levels of objects and arrays that a value of this schema, or of a part of it, can have; None: any number."""
    return _levels(schema, part or schema, frozenset())


def _levels(root: dict[str, Any], node: dict[str, Any], above: frozenset[str]) -> int | None:
    reference = node.get("$ref")
    if reference is not None:
        if reference in above:
            return None
        node, above = root["$defs"][reference.removeprefix(_REF)], above | {reference}
    if "anyOf" in node:
        inner = [_levels(root, option, above) for option in node["anyOf"]]
        return None if None in inner else max(one for one in inner if one is not None)
    kind = node.get("type")
    if kind not in ("object", "array"):
        return 0 if kind or "enum" in node else None
    members = list(node.get("properties", {}).values())
    members += [node[key] for key in ("items", "additionalProperties") if isinstance(node.get(key), dict)]
    members += node.get("prefixItems", [])
    if not members:
        # An object without fields has no further levels; an array without a type of its elements may have any number.
        return 1 if node.get("additionalProperties") is False or node.get("maxItems") == 0 else None
    levels = [_levels(root, member, above) for member in members]
    return None if None in levels else 1 + max(level for level in levels if level is not None)


def at(schema: dict[str, Any], path: str) -> dict[str, Any] | None:
    """The schema of one argument.

    Args:
        schema: an input schema.
        path: in msgspec's form, ``$.items[0].title`` or ``$[...].x``; ``$`` is the whole.
    """
    node: dict[str, Any] | None = schema
    for name, _index in re.findall(r"\.([^.\[\]]+)|(\[[^\]]*\])", path):
        if node is None:
            return None
        node = member_of(schema, node, name)
    return _resolved(schema, node)


def members_at(schema: dict[str, Any], path: str) -> list[str]:
    """The names that an object at a path may have."""
    options = options_of(schema, at(schema, path) or {})
    return [name for option in options for name in option.get("properties", {})]


def member_of(root: dict[str, Any], node: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The schema of the member ``name``; '': of the elements."""
    for option in options_of(root, node):
        if name:
            member = option.get("properties", {}).get(name)
        else:
            member = option.get("items") or option.get("additionalProperties")
        if isinstance(member, dict):
            return member
    return None


def options_of(root: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    """The alternatives of a schema; itself if it has none.

    Args:
        root: has the definitions that it refers to.
    """
    node = _resolved(root, node) or {}
    return [resolved for one in node.get("anyOf", [node]) if (resolved := _resolved(root, one)) is not None]


def _resolved(root: dict[str, Any], node: dict[str, Any] | None) -> dict[str, Any] | None:
    while node is not None and "$ref" in node:
        node = root.get("$defs", {}).get(node["$ref"].removeprefix(_REF))
    return node


def allowed(schema: dict[str, Any], node: dict[str, Any]) -> str:
    """A short description of a schema's values: ``an integer from 1 to 20``."""
    node = _resolved(schema, node) or {}
    words = [_words(option) for option in options_of(schema, node)]
    return " or ".join(dict.fromkeys(word for word in words if word)) or "any value"


def _words(node: dict[str, Any]) -> str:
    if "enum" in node:
        return "one of " + ", ".join(msgspec.json.encode(value).decode() for value in node["enum"])
    kind = node.get("type")
    if kind in ("integer", "number"):
        noun = "an integer" if kind == "integer" else "a number"
        above = f" above {node['exclusiveMinimum']}" if "exclusiveMinimum" in node else ""
        below = f" below {node['exclusiveMaximum']}" if "exclusiveMaximum" in node else ""
        return noun + _range(node, "minimum", "maximum", "") + above + below
    if kind == "string":
        noun = {"uuid": "a UUID", "date-time": "an ISO-8601 timestamp"}.get(node.get("format", ""), "a string")
        pattern = f" matching {node['pattern']}" if "pattern" in node else ""
        return noun + _range(node, "minLength", "maxLength", " characters") + pattern
    if kind == "array":
        return "an array" + _range(node, "minItems", "maxItems", " elements")
    if kind == "object":
        members = ", ".join(node.get("properties", {}))
        return f"an object with {members}" if members else "an object"
    return {"boolean": "true or false", "null": "null"}.get(kind or "", "")


def _range(node: dict[str, Any], low: str, high: str, unit: str) -> str:
    lowest, highest = node.get(low), node.get(high)
    if lowest is not None and highest is not None:
        return f" {'of' if unit else 'from'} {lowest} to {highest}{unit}"
    if lowest is not None:
        return f" of at least {lowest}{unit}"
    if highest is not None:
        return f" of at most {highest}{unit}"
    return ""
