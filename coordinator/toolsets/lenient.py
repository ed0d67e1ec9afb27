"""Lenient decoding of what hosts and models write contrary to a schema, if the meaning is clear.

Many write null for an optional argument, and some encode each array and object as a string of JSON.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from coordinator.toolsets.schema import member_of, options_of

_MOST_SEEN = 50_000
"""The most elements and members checked in the arguments of one call."""
_DEEPEST = 64
"""Levels of arrays and objects in a string of JSON."""


def meant(schema: dict[str, Any], value: Any) -> Any:
    """The value without optional members that are null but must not be, and with arrays and objects for their JSON.

    A string counts as JSON only where the schema allows an array or object and no string, and only if it is one.
    Lists and objects are left as they are beyond ``_MOST_SEEN`` elements and members. No tool accepts as many, and a
    caller must not keep the process busy.
    """
    return _Reading(schema).of(schema, value)


class _Reading:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _MOST_SEEN

    def of(self, node: dict[str, Any], value: Any) -> Any:
        if isinstance(value, str):
            value = self._decoded(node, value)
        if not isinstance(value, list | dict):
            return value
        self._left -= len(value)
        if self._left < 0:
            return value
        root = self._root
        if isinstance(value, list):
            elements = member_of(root, node, "")
            return value if elements is None else [self.of(elements, one) for one in value]
        required = {name for option in options_of(root, node) for name in option.get("required", ())}
        kept = {}
        for name, one in value.items():
            member = member_of(root, node, name)
            if one is not None or member is None or name in required or _may_be_null(root, member):
                kept[name] = one if member is None else self.of(member, one)
        return kept

    def _decoded(self, node: dict[str, Any], text: str) -> Any:
        begins = text.lstrip()[:1]
        if begins not in ("[", "{"):
            return text
        kinds = {option.get("type") for option in options_of(self._root, node)}
        if ("array" if begins == "[" else "object") not in kinds or not kinds.isdisjoint(("string", None)):
            return text
        try:
            found = json.loads(text, parse_constant=_refuse)
            # A string may contain what a body may not: half a surrogate pair, an infinite number.
            json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return text
        return text if _deeper(found, _DEEPEST) else found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _may_be_null(root: dict[str, Any], node: dict[str, Any]) -> bool:
    return any(
        None in option["enum"] if "enum" in option else option.get("type") in ("null", None)
        for option in options_of(root, node)
    )
