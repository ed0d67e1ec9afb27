"""Decodes arguments like a transport, and checks answers against the published schemas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from coordinator.errors import ToolFailure
from coordinator.toolsets.schema import lean_output_schema, output_schema
from coordinator.toolsets.tool import Tool

Results = tuple[type[msgspec.Struct], ...]


def _is_utc(time: str) -> bool:
    try:
        return time.endswith("Z") and datetime.fromisoformat(time).tzinfo is not None
    except ValueError:
        return False


@cache
def _validators(results: Results) -> tuple[jsonschema_rs.Draft202012Validator, ...]:
    """Validators of the full schema and of the listed one."""
    formats = {"date-time": _is_utc}
    return tuple(
        jsonschema_rs.Draft202012Validator(schema, validate_formats=True, formats=formats)
        for schema in (output_schema(results), lean_output_schema(results))
    )


def _told(error: jsonschema_rs.ValidationError) -> str:
    told = f"{error.instance_path}: {error.schema_path[-1]}: {error.message[:500]}"
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.AnyOf):
        told += "".join(f"; {_told(one)}" for alternative in error.kind.context for one in alternative)
    return told


def decoded(tool: Tool, arguments: Mapping[str, Any]) -> Any:
    """A tool's arguments from JSON. Raises ToolFailure like a transport."""
    try:
        return msgspec.json.decode(msgspec.json.encode(arguments), type=tool.arguments)
    except msgspec.ValidationError as error:
        raise ToolFailure("VALIDATION_ERROR", str(error)) from None


def departures(results: Results, answer: Any) -> list[str]:
    """The violations of a tool's output schema by an answer or a failure's body."""
    return [_told(error) for validator in _validators(results) for error in validator.iter_errors(answer)]


def must_keep_to(results: Results, answer: Any) -> None:
    """Fails if there are violations."""
    assert not (found := departures(results, answer)), found
