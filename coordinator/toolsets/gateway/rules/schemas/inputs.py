"""Input schemas: defaults first, then validation. And how deep values may be nested."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import jsonschema  # type: ignore[import-untyped]
import msgspec

from coordinator.toolsets.gateway.rules.schemas import validator
from coordinator.toolsets.gateway.rules.schemas.patterns import PatternError, compiled
from coordinator.toolsets.gateway.rules.schemas.references import inner_problem

MAX_ARGUMENTS = 64 * 1024
"""Most bytes of the arguments of a transition, or of the input of a workflow, as JSON."""
MAX_DEPTH = 100
"""Of contexts, and of schemas of downstream servers: deeper ones could be stored, but not be sent to every client.
Encoders of MCP libraries give up at about 200."""
_MAX_SHOWN, _MAX_FOUND = 10, 100
"""Violations of one value: how many are reported, and after how many checking stops."""
_MAX_MESSAGE = 300
_VALIDATORS: dict[bytes, Any] = {}
"""Validators by the JSON of their schema."""
_MAX_VALIDATORS = 20_000
_encode = msgspec.json.Encoder(order="deterministic").encode

_FORMATS = jsonschema.FormatChecker(formats=())
"""Of the formats in the schemas of schemas, the one that matters."""

EMPTY: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
"""The schema of a capability that states none: it takes nothing."""


@_FORMATS.checks("regex", raises=PatternError)  # type: ignore[untyped-decorator]
def _is_pattern(value: object) -> bool:
    return not isinstance(value, str) or compiled(value) is not None


class Unusable(Exception):
    """Nothing can be checked against a schema, whatever the value. The text says why."""


class Violation(NamedTuple):
    """A place where a value does not match its schema."""

    path: str
    """``arguments.files.0``."""
    message: str


def too_deep(value: Any) -> bool:
    """Whether objects and lists are nested deeper than ``MAX_DEPTH``. Levels below that are not visited."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for part in level:
            if isinstance(part, Mapping):
                inner += part.values()
            elif isinstance(part, list | tuple):
                inner += part
        if not inner:
            return False
        level = [part for part in inner if isinstance(part, Mapping | list | tuple)]
        if not level:
            return False
    return True


def with_defaults(schema: Mapping[str, Any] | None, value: dict[str, Any]) -> dict[str, Any]:
    """Adds the schema's defaults for missing fields, also in existing nested objects."""
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return value
    filled = dict(value)
    for name, inner in properties.items():
        if not isinstance(inner, Mapping):
            continue
        if name not in filled and "default" in inner:
            filled[name] = copy.deepcopy(inner["default"])
        if isinstance(filled.get(name), dict):
            filled[name] = with_defaults(inner, filled[name])
    return filled


def violations(schema: Mapping[str, Any] | None, value: Any, name: str) -> list[Violation]:
    """The violations of a value; none without a schema.

    Args:
        name: what the value is called: ``input``, ``arguments``.

    Raises:
        Unusable: the schema itself is at fault, in a way that ``schema_problem`` does not find.
    """
    size = len(_encode(value))
    if size > MAX_ARGUMENTS:
        return [Violation(name, f"has {size} bytes as JSON; allowed: at most {MAX_ARGUMENTS}")]
    if schema is None:
        return []
    try:
        validator.begin()
        errors_here = list(islice(_validator(schema).iter_errors(value), _MAX_FOUND))
        errors = sorted(errors_here, key=lambda error: list(map(str, error.absolute_path)))
    except validator.TooLong:
        return [Violation(name, "takes too long to be checked against its schema")]
    except Exception as error:
        raise Unusable(f"{name} cannot be checked: the schema is invalid ({type(error).__name__})") from None
    return [_violation(error, name) for error in errors[:_MAX_SHOWN]]


def mismatch(schema: Mapping[str, Any], value: Any) -> str:
    """Why what a server made does not match its own schema, as a sentence; empty: it does, or nobody can tell."""
    try:
        validator.begin()
        errors = list(islice(_validator(schema).iter_errors(value), _MAX_SHOWN))
        return sentence(_violation(error, "structuredContent") for error in errors)
    except Exception:
        return ""


def schema_problem(schema: Mapping[str, Any]) -> str:
    """What is wrong with a schema itself, as a sentence; empty if it is valid."""
    try:
        validator.draft_of(schema).check_schema(schema, format_checker=_FORMATS)
        if problem := inner_problem(schema):
            return f"is no JSON Schema that can be used: {problem[:_MAX_MESSAGE]}"
        validator.begin()
        list(validator.validator(schema).iter_errors({}))
    except jsonschema.SchemaError as error:
        why = f"{error.message[:_MAX_MESSAGE]}{f': {error.cause}' if error.cause else ''}"
        return f"is no JSON Schema: {'.'.join(map(str, error.absolute_path)) or 'it'}: {why}"
    except validator.TooLong:
        return "is no JSON Schema that can be used: it takes too long to check {} against it"
    except Exception as error:
        return f"is no JSON Schema that can be used: {str(error)[:_MAX_MESSAGE]}"
    if schema.get("type", "object") != "object":
        return "must describe an object"
    return ""


def sentence(violations: Iterable[Violation]) -> str:
    return "; ".join(f"{violation.path}: {violation.message}" for violation in violations)


def _validator(schema: Mapping[str, Any]) -> Any:
    key = _encode(schema)
    made = _VALIDATORS.get(key)
    if made is None:
        if len(_VALIDATORS) >= _MAX_VALIDATORS:
            _VALIDATORS.clear()
        made = _VALIDATORS[key] = validator.validator(schema)
    return made


def _violation(error: Any, name: str) -> Violation:
    path = ".".join((name, *map(str, error.absolute_path)))
    if error.validator == "required":
        missing = [field for field in error.validator_value if field not in error.instance]
        if missing:
            return Violation(f"{path}.{missing[0]}" if len(missing) == 1 else path, _required(missing, error.schema))
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = ", ".join(error.schema.get("properties", {})) or "nothing"
        extra = sorted(set(error.instance) - set(error.schema.get("properties", {})))
        return Violation(f"{path}.{extra[0]}" if extra else path, f"is not known; allowed: {known}")
    if error.validator == "enum":
        choices = ", ".join(msgspec.json.encode(choice).decode() for choice in error.validator_value)
        return Violation(path, f"must be one of {choices}"[:_MAX_MESSAGE])
    if error.validator == "type":
        kinds = error.validator_value
        return Violation(path, f"must be of type {kinds if isinstance(kinds, str) else ' or '.join(kinds)}")
    return Violation(path, str(error.message)[:_MAX_MESSAGE])


def _required(missing: list[str], schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties", {})
    facts = []
    for name in missing:
        inner = properties.get(name)
        kind = inner.get("type") if isinstance(inner, Mapping) else None
        facts.append(f"{name} ({kind})" if isinstance(kind, str) else name)
    return "is required" if len(missing) == 1 and "(" not in facts[0] else f"is required: {', '.join(facts)}"
