"""The variables of a walk: their first values, what options and agents set, and their declared types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

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
    """The declared default values."""
    found: dict[str, Any] = {}
    for variable in declared:
        if variable.default_value is not UNSET:
            assign(found, variable.name, variable.default_value)
    return found


def check(given: Mapping[str, Any], declared: tuple[Variable, ...] | UnsetType, field: str) -> None:
    """Refuses values of another type than the workflow declares, and parts of what is no object; null is allowed.

    Raises:
        ToolFailure: VALIDATION_ERROR naming ``<field>.<name>``.
    """
    kinds = {one.name: _KINDS[one.type] for one in (() if declared is UNSET else declared)}
    for name, value in given.items():
        path = name.split(".")
        if not name or len(name) > MAX_NAME or "" in path:
            raise invalid(f"{field}.{name[:80]}", f"a name has 1 to {MAX_NAME} characters, and no empty part")
        *above, _ = accumulate(path, "{}.{}".format)
        for holder in above:
            types, words = kinds.get(holder, _KINDS["object"])
            if dict not in types:
                # Setting it would put an object in the holder's place.
                raise invalid(
                    f"{field}.{name}", f"cannot be set: '{holder}' must be {words}, as the workflow declares it"
                )
        if value is None or name not in kinds:
            continue
        types, words = kinds[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise invalid(f"{field}.{name}", f"must be {words}, as the workflow declares it")


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
