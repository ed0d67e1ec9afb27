"""Mends schemas of downstream servers that break their draft, where it is plain what is meant.

Libraries and hands write what older drafts allowed, the types of a language, or null for what is not stated. Clients
that do not check schemas use such tools, so the gateway offers them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES = {
    **{name: name for name in ("string", "number", "integer", "boolean", "object", "array", "null")},
    "str": "string",
    "text": "string",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "none": "null",
}
"""What types are called, in lower case."""
_ANY = "any"
_SCHEMAS = (
    *("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "additionalItems", "items"),
    *("allOf", "anyOf", "oneOf", "prefixItems"),
)
"""Keywords with a schema, or a list of schemas."""
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("const", "default", "enum", "examples", "example")
"""Keywords with values, among which null is one."""
_TEXTS = ("title", "description", "$comment", "format", "contentEncoding", "contentMediaType")
_FLAGS = ("readOnly", "writeOnly", "deprecated")
_NOTES: Mapping[str, type] = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(_FLAGS, bool),
    "examples": list,
}
"""Keywords that allow and forbid nothing, and what they must be."""


def mended(schema: Any) -> Any:
    """A schema, with what is plainly meant in place of what is not allowed. What is allowed stays.

    Mended are, in schemas at any depth: ``required: true`` of a property (draft 3); ``exclusiveMinimum: true`` beside
    ``minimum`` (draft 4), and the same of maximum; ``items`` with a list (before 2020-12); keywords that are null, or
    ``[]`` in place of ``{}`` (PHP); types in other spellings (``"int"``, ``"String"``); a type or null in place of a
    schema; one name in place of a list of required ones, and names that are repeated there; titles and the like that
    are no texts.
    """
    if schema is None or schema == []:
        return {}
    if isinstance(schema, str) and (named := _type(schema)) is not None:
        return {"type": named} if named != _ANY else {}
    if not isinstance(schema, Mapping):
        return schema
    made = {key: value for key, value in schema.items() if (value is not None or key in _VALUES) and _fits(key, value)}
    _mend_types(made)
    if "draft-03" not in str(made.get("$schema", "")):
        _mend_required(made)
    if not any(draft in str(made.get("$schema", "")) for draft in ("draft-03", "draft-04")):
        _mend_bounds(made, "exclusiveMinimum", "minimum")
        _mend_bounds(made, "exclusiveMaximum", "maximum")
    _mend_items(made)
    for key in _MAPS:
        if made.get(key) == []:
            made[key] = {}
        if isinstance(made.get(key), Mapping):
            made[key] = {name: mended(part) for name, part in made[key].items()}
    for key in _SCHEMAS:
        if isinstance(made.get(key), list):
            made[key] = [mended(part) for part in made[key]]
        elif key in made:
            made[key] = mended(made[key])
    return made


def _fits(key: str, value: Any) -> bool:
    kind = _NOTES.get(key)
    return kind is None or isinstance(value, kind)


def _type(name: Any) -> str | None:
    """What a type is called in JSON Schema, or ``any``; None: unknown."""
    if name is None:
        return "null"
    lower = str(name).lower() if isinstance(name, str) else ""
    return _ANY if lower == _ANY else _TYPES.get(lower)


def _mend_types(made: dict[str, Any]) -> None:
    stated = made.get("type")
    if isinstance(stated, list):
        named = list(dict.fromkeys(_type(kind) for kind in stated))
        if _ANY in named or not named:
            del made["type"]
        elif None not in named:
            made["type"] = named
    elif (type_here := _type(stated)) is not None and "type" in made:
        made["type"] = type_here
        if type_here == _ANY:
            del made["type"]


def _mend_required(made: dict[str, Any]) -> None:
    """Names the properties that are required, and not the property that it is."""
    required = made.pop("required", None)
    if isinstance(required, str):
        required = [required]
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    properties = made.get("properties")
    if isinstance(properties, Mapping):
        names += [name for name, sub in properties.items() if isinstance(sub, Mapping) and sub.get("required") is True]
    if names:
        made["required"] = list(dict.fromkeys(names))


def _mend_bounds(made: dict[str, Any], exclusive: str, bound: str) -> None:
    if isinstance(stated := made.get(exclusive), bool):
        del made[exclusive]
        if stated and bound in made:
            made[exclusive] = made.pop(bound)


def _mend_items(made: dict[str, Any]) -> None:
    if isinstance(made.get("items"), list) and "$schema" not in made:
        first, rest = made.pop("items"), made.pop("additionalItems", None)
        made |= ({"prefixItems": first} if first else {}) | ({"items": mended(rest)} if rest is not None else {})
