"""Decodes the arguments of a call into the tool's struct, or explains what is wrong with them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.lenient import meant
from coordinator.toolsets.schema import allowed, at, identified_schema, members_at
from coordinator.toolsets.tool import Tool

_PLACED = re.compile(r"^(?P<problem>.*?)(?: - at (?:key in )?`(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$", re.DOTALL)
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def decoded(tool: Tool, schema: dict[str, Any], arguments: Mapping[str, Any]) -> Any:
    """The arguments as the tool's struct.

    Decodes strictly at first, as the fast path does. If that fails, decodes leniently: many agents quote values, so
    "5" and "true" are accepted where only a number, boolean or null is allowed. ``lenient`` says what else.

    Args:
        schema: the tool's input schema, for the wording of refusals.

    Raises:
        ToolFailure: VALIDATION_ERROR, naming the field and what is allowed there.
    """
    try:
        if not writable(arguments) and (found := _unwritable(arguments)):
            place, wanted = found
            raise invalid(place.removeprefix(".") or "arguments", wanted)
        return msgspec.convert(arguments, tool.arguments)
    except msgspec.ValidationError:
        pass
    except RecursionError:
        raise invalid("arguments", "nested too deeply") from None
    try:
        return _forgiving(tool, arguments)
    except msgspec.ValidationError as error:
        raise explained(str(error), schema) from None


def writable(value: object) -> bool:
    """Whether a decoded JSON value can be stored and shown: no lone surrogates, only finite numbers.

    A quick check whether ``_unwritable`` finds nothing; a call may have a million values.
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def _unwritable(value: object) -> tuple[str, str] | None:
    """The place of a value that can be neither stored nor shown, and what is allowed there; None: there is none.

    Some JSON parsers accept lone surrogates (``"\\ud800"``) and infinite numbers (``1e999``); the fast path's does not.
    """
    if isinstance(value, Mapping):
        for name, one in value.items():
            if _unwritable(name):
                return "", "names in it must be valid Unicode text"
            if place := _unwritable(one):
                return f".{name}{place[0]}", place[1]
    elif isinstance(value, list):
        for number, one in enumerate(value):
            if place := _unwritable(one):
                return f"[{number}]{place[0]}", place[1]
    elif isinstance(value, str) and _SURROGATE.search(value):
        return "", "must be valid Unicode text"
    elif isinstance(value, float) and not math.isfinite(value):
        return "", "must be a finite number"
    return None


def _forgiving(tool: Tool, arguments: object) -> Any:
    # An actor may be missing here. If the caller is not authenticated either, the tool rejects the call.
    return msgspec.convert(meant(identified_schema(tool.arguments), arguments), tool.arguments, strict=False)


def may_wait(tool: Tool, arguments: object) -> bool:
    """Whether a call may wait. A call with invalid arguments does not: it is rejected at once."""
    if tool.waits is None:
        return False
    try:
        return tool.may_wait(_forgiving(tool, arguments))
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError):  # the last for lone surrogates
        return False


def explained(message: str, schema: dict[str, Any]) -> ToolFailure:
    """The failure for one of msgspec's messages (``Expected `int`, got `str` - at `$.limit```)."""
    placed = _PLACED.match(message)
    problem, path = (placed["problem"], placed["path"] or "$") if placed else (message, "$")
    place = path.removeprefix("$").removeprefix(".")
    node = at(schema, path) or {}
    if unknown := _UNKNOWN.match(problem):
        names = ", ".join(members_at(schema, path)) or "none"
        return invalid(_join(place, unknown["name"]), f"no such field; allowed here: {names}")
    if missing := _MISSING.match(problem):
        member = at(schema, f"{path}.{missing['name']}") or {}
        return invalid(_join(place, missing["name"]), f"is required; allowed: {allowed(schema, member)}")
    sentence = problem[:1].lower() + problem[1:]
    return invalid(place or "arguments", f"{sentence}; allowed: {allowed(schema, node)}")


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
