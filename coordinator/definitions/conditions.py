"""Whether a condition holds, and how it is written for people (reference of both eras).

Rules: a path is split at dots and walked through objects; what is not there is missing.
``exists`` means neither missing nor null. ``==`` and ``!=`` compare without conversion: values
of different kinds differ, numbers go by value, and missing is not null. ``< > <= >=`` hold only
between numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, assert_never

import msgspec
from msgspec import UNSET

from coordinator.definitions.model import All, Condition, Not, Simple, Some


def lookup(variables: Mapping[str, Any], path: str) -> Any:
    """The value at a path of names joined by dots; ``UNSET`` where there is none."""
    found: Any = variables
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return UNSET
        found = found[name]
    return found


def holds(condition: Condition, variables: Mapping[str, Any], *, numeric_text: bool = False) -> bool:
    """Whether the condition is true of the variables.

    Args:
        numeric_text: whether text that is a number counts as one in ``< > <= >=`` (seed 000's
            era); without it only numbers do (seed 002's).
    """
    if isinstance(condition, Simple):
        return _simple(condition, variables, numeric_text)
    if isinstance(condition, All):
        return all(holds(one, variables, numeric_text=numeric_text) for one in condition.conditions)
    if isinstance(condition, Some):
        return any(holds(one, variables, numeric_text=numeric_text) for one in condition.conditions)
    if isinstance(condition, Not):
        return not holds(condition.condition, variables, numeric_text=numeric_text)
    assert_never(condition)


def text(condition: Condition) -> str:
    """The condition as agents name it: ``needs_review == true AND level > 3``, ``NOT (x exists)``."""
    if isinstance(condition, Simple):
        if condition.operator in ("exists", "notExists"):
            return f"{condition.variable} {condition.operator}"
        return f"{condition.variable} {condition.operator} {_json(condition.value)}"
    if isinstance(condition, Not):
        return f"NOT ({text(condition.condition)})"
    return (" AND " if isinstance(condition, All) else " OR ").join(map(text, condition.conditions))


def _simple(condition: Simple, variables: Mapping[str, Any], numeric_text: bool) -> bool:
    actual = lookup(variables, condition.variable)
    operator, expected = condition.operator, condition.value
    if operator == "exists":
        return actual is not UNSET and actual is not None
    if operator == "notExists":
        return actual is UNSET or actual is None
    if operator == "==":
        return _same(actual, expected)
    if operator == "!=":
        return not _same(actual, expected)
    left, right = _number(actual, numeric_text), _number(expected, numeric_text)
    if left is None or right is None:
        return False
    if operator == "<":
        return left < right
    if operator == "<=":
        return left <= right
    return left > right if operator == ">" else left >= right


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if left is UNSET or right is UNSET or left is None or right is None:
        return left is right
    # Lists and objects are never the same as a plain value.
    return isinstance(left, str) and isinstance(right, str) and left == right


def _number(value: Any, numeric_text: bool) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if not isinstance(value, float) or math.isfinite(value) else None
    return _from_text(value) if numeric_text and isinstance(value, str) else None


def _from_text(value: str) -> float | int | None:
    """The number that text stands for, read as JavaScript's ``Number`` does; None for anything else."""
    stripped = value.strip()
    if not stripped:
        return 0
    if "_" in stripped:
        return None
    head = stripped[:2].lower()
    try:
        if head in ("0x", "0o", "0b"):
            # No sign may stand before a prefix, nor blanks after it.
            return int(stripped[2:], {"0x": 16, "0o": 8, "0b": 2}[head]) if stripped[2:3].isalnum() else None
        number = float(stripped)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _json(value: Any) -> str:
    if value is UNSET:
        return "undefined"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value).decode()
