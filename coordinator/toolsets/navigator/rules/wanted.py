"""The reports that would make a condition hold, or no longer hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from coordinator.definitions import Condition, lookup
from coordinator.definitions.conditions import holds
from coordinator.definitions.model import And, Comparison, Not

_PAIRS = (("==", "!="), ("<", ">="), (">", "<="), ("exists", "notExists"))
_OPPOSITE = {**dict(_PAIRS), **{second: first for first, second in _PAIRS}}


class Want(NamedTuple):
    """A variable and its required value."""

    name: str
    operator: str
    """``==``, another comparison with the value, or ``exists``."""
    value: Any
    """UNSET for ``exists``. To not exist, it must be null."""


def wants(condition: Condition, variables: Mapping[str, Any], truth: bool = True) -> tuple[Want, ...]:
    """The changes of variables that make the condition true (or false); empty if it is already.

    If one of several suffices, the first one with the fewest changes of existing values.
    """
    if holds(condition, variables) is truth:
        return ()
    if isinstance(condition, Comparison):
        return (_want(condition, truth),)
    if isinstance(condition, Not):
        return wants(condition.condition, variables, not truth)
    parts = [wants(one, variables, truth) for one in condition.conditions]
    if isinstance(condition, And) is truth:
        return _distinct(want for part in parts for want in part)
    return min(parts, key=lambda part: (_changes(part, variables), len(part)), default=())


def opposites(found: Sequence[Want]) -> tuple[Want, ...]:
    """The changes of variables that make none of these conditions hold."""
    return _distinct(_made(want.name, _OPPOSITE[want.operator], want.value) for want in found)


def names(found: Sequence[Want]) -> str:
    """The names of the variables, for a sentence."""
    return ", ".join(dict.fromkeys(want.name for want in found))


def _want(condition: Comparison, truth: bool) -> Want:
    return _made(condition.variable, condition.operator if truth else _OPPOSITE[condition.operator], condition.value)


def _made(name: str, operator: str, value: Any) -> Want:
    if operator == "!=" and isinstance(value, bool):
        return Want(name, "==", not value)
    if operator == "notExists":
        return Want(name, "==", None)
    if operator == "exists" or (operator == "!=" and value is None):
        return Want(name, "exists", UNSET)
    return Want(name, operator, value)


def _distinct(found: Iterable[Want]) -> tuple[Want, ...]:
    # In Python, true equals 1.
    return tuple({(want.name, want.operator, repr(want.value)): want for want in found}.values())


def _changes(found: Sequence[Want], variables: Mapping[str, Any]) -> int:
    return sum(lookup(variables, want.name) is not UNSET for want in found)
