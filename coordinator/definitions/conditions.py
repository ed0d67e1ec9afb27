"""Evaluates conditions, and writes them as text (reference of both eras).

Rules: a path is split at dots and followed through objects; a value that is not there is missing.
``exists`` means neither missing nor null. ``==`` and ``!=`` compare without conversion: values
of different types differ, numbers compare by value, and missing differs from null. ``< > <= >=``
are true only between numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.definitions.model import And, Comparison, Condition, Not, Or, Scalar

_ORDER: dict[str, Callable[..., bool]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def lookup(variables: Mapping[str, Any], path: str) -> Any:
    """The value at a path of names joined by dots; ``UNSET`` if there is none."""
    found: Any = variables
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return UNSET
        found = found[name]
    return found


def holds(condition: Condition, variables: Mapping[str, Any]) -> bool:
    """Whether the condition is true for these variables."""
    if isinstance(condition, Comparison):
        return _compare(condition, variables)
    if isinstance(condition, And):
        return all(holds(one, variables) for one in condition.conditions)
    if isinstance(condition, Or):
        return any(holds(one, variables) for one in condition.conditions)
    if isinstance(condition, Not):
        return not holds(condition.condition, variables)
    assert_never(condition)


def text(condition: Condition) -> str:
    """The condition as agents name it: ``needs_review == true AND level > 3``, ``NOT (x exists)``."""
    if isinstance(condition, Comparison):
        if condition.operator in ("exists", "notExists"):
            return f"{condition.variable} {condition.operator}"
        return f"{condition.variable} {condition.operator} {_json(condition.value)}"
    if isinstance(condition, Not):
        return f"NOT ({text(condition.condition)})"
    return (" AND " if isinstance(condition, And) else " OR ").join(map(text, condition.conditions))


def _compare(condition: Comparison, variables: Mapping[str, Any]) -> bool:
    actual = lookup(variables, condition.variable)
    if condition.operator == "exists":
        return actual is not UNSET and actual is not None
    if condition.operator == "notExists":
        return actual is UNSET or actual is None
    if condition.operator == "==":
        return _same(actual, condition.value)
    if condition.operator == "!=":
        return not _same(actual, condition.value)
    left, right = _number(actual), _number(condition.value)
    return left is not None and right is not None and _ORDER[condition.operator](left, right)


def _same(left: Any, right: Scalar | UnsetType) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    # Lists and objects never equal anything: the value in a condition is always a scalar.
    same: bool = left == right
    return same


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _json(value: Any) -> str:
    if value is UNSET:
        return "undefined"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value).decode()
