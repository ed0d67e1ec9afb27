"""The variables of a walk: initial values, updates by options and agents, and declared types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.definitions import Variable
from coordinator.errors import invalid

_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "a string"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "array": ((list,), "an array"),
    "object": ((dict,), "an object"),
}
MAX_NAME = 200


def first_values(declared: Iterable[Variable]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable in declared:
        if variable.default_value is not UNSET:
            assign(found, variable.name, variable.default_value)
    return found


def changed(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that differ from their defaults."""
    return {name: value for name, value in values.items() if name not in defaults or not _same(value, defaults[name])}


def check(given: Mapping[str, Any], declared: Sequence[Variable] | UnsetType, field: str) -> None:
    """Rejects values of another type than declared, and parts of non-objects; null is allowed.

    Raises:
        ToolFailure: VALIDATION_ERROR naming ``<field>.<name>``.
    """
    kinds = _kinds(declared or ())
    for name, value in given.items():
        if wrong := _wrong(name, value, kinds):
            raise invalid(f"{field}.{name[:MAX_NAME]}", wrong)


def fits(name: str, value: Any, declared: Sequence[Variable]) -> bool:
    return not _wrong(name, value, _kinds(declared))


def _same(left: Any, right: Any) -> bool:
    # In Python, true equals 1.
    return bool(left == right) and msgspec.json.encode(left) == msgspec.json.encode(right)


def _kinds(declared: Sequence[Variable]) -> dict[str, tuple[tuple[type, ...], str]]:
    return {one.name: _KINDS[one.type] for one in declared}


def _wrong(name: str, value: Any, kinds: Mapping[str, tuple[tuple[type, ...], str]]) -> str:
    path = name.split(".")
    if not name or len(name) > MAX_NAME or "" in path:
        return f"a name has 1 to {MAX_NAME} characters, and no empty part"
    *above, _ = accumulate(path, "{}.{}".format)
    for holder in above:
        types, words = kinds.get(holder, _KINDS["object"])
        if dict not in types:
            # Setting it would replace the holder by an object.
            return f"cannot be set: '{holder}' must be {words}, as the workflow declares it"
    if value is None or name not in kinds:
        return ""
    types, words = kinds[name]
    fits = isinstance(value, types) and not (isinstance(value, bool) and bool not in types)
    return "" if fits else f"must be {words}, as the workflow declares it"


def assign(variables: dict[str, Any], name: str, value: Any) -> None:
    """Sets a variable. A name with dots is a path through objects, which are created if they are missing."""
    *path, last = name.split(".")
    into = variables
    for part in path:
        inner = into.get(part)
        # Objects on the path are copied: they may belong to the definition, which all walks share.
        inner = into[part] = dict(inner) if isinstance(inner, dict) else {}
        into = inner
    into[last] = value
