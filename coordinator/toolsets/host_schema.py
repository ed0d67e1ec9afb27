"""JSON Schemas in the form that the hosts of models accept.

OpenAI's strict mode, Gemini and Anthropic each take a subset of JSON Schema, and the converters of their hosts fail on,
or silently drop, what is outside of it. So here references are replaced by what they refer to, unless it contains
itself; each alternative of a union carries its own keywords; and whatever lists its values has a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

REF = "#/$defs/"
"""The prefix of references to definitions."""

KEYWORDS = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
}
"""The keywords that apply to values of one type only."""

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def inlined(root: Schema) -> Schema:
    """The schema without references, but for those to definitions that contain themselves.

    Args:
        root: all its references are to its own ``$defs``.
    """
    definitions = root.get("$defs", {})
    endless = {name for name in definitions if name in _reached(definitions[name], definitions)}
    body: Schema = _replaced({key: value for key, value in root.items() if key != "$defs"}, definitions, endless)
    if endless:
        body["$defs"] = {name: _replaced(definitions[name], definitions, endless) for name in sorted(endless)}
    return body


def typed(node: Schema) -> Schema:
    """The schema with a type beside every list of values, and each keyword within the alternative that it is about.

    An array whose elements may be anything says so.
    """
    made = {key: _of_children(key, value) for key, value in node.items()}
    kinds = made.get("type")
    if isinstance(kinds, list):
        del made["type"]
        made["anyOf"] = [{"type": kind} for kind in kinds]
    if "anyOf" in made and any("type" in one for one in made["anyOf"]):
        made["anyOf"] = _distributed(made)
    elif "enum" in made and "type" not in made:
        names = {_TYPES[type(value)] for value in made["enum"]}
        if len(names) == 1:
            made = {"type": names.pop(), **made}
        else:
            made["anyOf"] = [{"type": name} for name in sorted(names)]
            made["anyOf"] = _distributed(made)
    if made.get("type") == "array" and "prefixItems" not in made:
        made.setdefault("items", {})
    return made


def _distributed(node: Schema) -> list[Schema]:
    """The alternatives of a union merged with their sibling keywords, which are removed from the node."""
    values = node.pop("enum", None)
    shared = {key: node.pop(key) for key in {key for keys in KEYWORDS.values() for key in keys} & node.keys()}
    made = []
    for option in node["anyOf"]:
        kind = option.get("type", "")
        own = {key: shared[key] for key in KEYWORDS.get(kind, ()) if key in shared}
        if values is not None and kind != "null":
            own["enum"] = [value for value in values if _TYPES[type(value)] == kind]
        made.append({**option, **own})
    return made


def _of_children(key: str, value: Any) -> Any:
    if key in ("properties", "$defs"):
        return {name: typed(one) for name, one in value.items()}
    if key in ("anyOf", "prefixItems"):
        return [typed(one) for one in value]
    return typed(value) if key in ("items", "additionalProperties") and isinstance(value, dict) else value


def references(schema: Any) -> Iterator[str]:
    """The definitions that a schema refers to, with repetitions."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(REF)
            elif key not in ("default", "enum", "examples"):
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def _reached(schema: Schema, definitions: dict[str, Schema]) -> set[str]:
    """All definitions that a schema refers to, directly or by others."""
    found: set[str] = set()
    pending = list(references(schema))
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += references(definitions[name])
    return found


def _replaced(node: Any, definitions: dict[str, Schema], endless: set[str]) -> Any:
    if isinstance(node, list):
        return [_replaced(one, definitions, endless) for one in node]
    if not isinstance(node, dict):
        return node
    name = node.get("$ref", "").removeprefix(REF) if isinstance(node.get("$ref"), str) else ""
    if name and name not in endless:
        # Keywords beside the reference are about this place, so they override the definition.
        # Its own description is a docstring, for readers of the code.
        node = {
            **{key: value for key, value in definitions[name].items() if key != "description"},
            **{key: value for key, value in node.items() if key != "$ref"},
        }
    return {
        key: value if key in ("default", "enum", "examples") else _replaced(value, definitions, endless)
        for key, value in node.items()
    }
