"""Forms: what people can fill in of the schema of a transition's arguments. Forms are flat, and of primitive types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXTS = ("title", "description")
_KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
}
"""The keywords of each type that forms may have."""
_PYTHON: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
}
_FORMATS = ("email", "uri", "date", "date-time")


def properties(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The arguments of a transition, with the schema of each."""
    fields: dict[str, Any] = (schema or {}).get("properties", {})
    return fields


def form(schema: Mapping[str, Any] | None) -> dict[str, dict[str, Any]] | None:
    """The fields of a form for a transition's arguments; None: not all of them fit into one.

    A form may say less than the schema, which the arguments have to match all the same.
    """
    fields: dict[str, dict[str, Any]] = {}
    for name, member in properties(schema).items():
        field = _field(member)
        if field is None:
            return None
        fields[name] = field
    return fields if fields.keys() >= required(schema) else None


def required(schema: Mapping[str, Any] | None) -> set[str]:
    """The arguments that must be given."""
    return set((schema or {}).get("required", ()))


def _field(schema: Any) -> dict[str, Any] | None:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if not isinstance(kind, str) or kind not in _KEYWORDS:
        return None
    field = {"type": kind, **{key: schema[key] for key in (*_TEXTS, *_KEYWORDS[kind]) if key in schema}}
    default, options = schema.get("default"), schema.get("enum")
    if isinstance(default, _PYTHON[kind]) and isinstance(default, bool) == (kind == "boolean"):
        field["default"] = default
    if kind == "string" and isinstance(options, list) and all(isinstance(option, str) for option in options):
        field["enum"] = options
    if kind == "string" and schema.get("format") in _FORMATS:
        field["format"] = schema["format"]
    return field
