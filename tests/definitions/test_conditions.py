"""Conditions against a plain model: evaluation, variables, and text form."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.definitions import Condition, holds, lookup, text

NAMES = ("a", "b", "a.b", "a.b.c", "x.y")
OPERATORS = ("==", "!=", ">", "<", ">=", "<=")
values = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from((0.0, 1.0, 1.5, -2.0)),
    st.sampled_from(("", "0", "1", "true", "null", " 2 ", "x")),
)  # fmt: skip
deep = st.recursive(values, lambda inner: st.dictionaries(st.sampled_from(("a", "b", "c", "y")), inner, max_size=3))
worlds = st.dictionaries(st.sampled_from(("a", "b", "x")), deep, max_size=3)
simple = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("simple"), "variable": st.sampled_from(NAMES), "operator": st.sampled_from(OPERATORS)},
        optional={"value": values},
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("simple"),
            "variable": st.sampled_from(NAMES),
            "operator": st.sampled_from(("exists", "notExists")),
        }
    ),
)
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.sampled_from(("and", "or")), "conditions": st.lists(inner, min_size=2, max_size=3)}
        ),
        st.fixed_dictionaries({"type": st.just("not"), "condition": inner}),
    ),
    max_leaves=8,
)

MISSING = ("missing",)


def kind(value: Any) -> str:
    if value == MISSING:
        return "missing"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def walked(world: Any, names: list[str]) -> Any:
    if not names:
        return world
    if kind(world) != "dict" or names[0] not in world:
        return MISSING
    return walked(world[names[0]], names[1:])


def model(condition: dict[str, Any], world: dict[str, Any]) -> bool:
    """The same rules, written for JSON data and without regard for speed."""
    if condition["type"] == "and":
        return False not in [model(one, world) for one in condition["conditions"]]
    if condition["type"] == "or":
        return True in [model(one, world) for one in condition["conditions"]]
    if condition["type"] == "not":
        return not model(condition["condition"], world)
    left, right = walked(world, condition["variable"].split(".")), condition.get("value", MISSING)
    operator = condition["operator"]
    if operator in ("exists", "notExists"):
        return (kind(left) not in ("missing", "NoneType")) == (operator == "exists")
    if operator in ("==", "!="):
        same = kind(left) == kind(right) and kind(left) != "dict" and left == right
        return same == (operator == "==")
    if kind(left) != "number" or kind(right) != "number":
        return False
    return {">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}[operator]


def condition_of(data: dict[str, Any]) -> Condition:
    condition: Condition = msgspec.convert(data, Condition)
    return condition


@settings(max_examples=80)
@given(conditions, worlds)
def test_conditions_match_the_model(data: dict[str, Any], world: dict[str, Any]) -> None:
    assert holds(condition_of(data), world) is model(data, world)


@settings(max_examples=40)
@given(worlds, st.sampled_from(NAMES))
def test_paths_lead_through_objects(world: dict[str, Any], path: str) -> None:
    found = walked(world, path.split("."))
    looked = lookup(world, path)
    assert (looked is msgspec.UNSET) if found == MISSING else (looked == found)


@pytest.mark.parametrize(
    ("operator", "below", "equal", "above"),
    [
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
        ("==", False, True, False),
        ("!=", True, False, True),
    ],
)
def test_numbers_are_compared_by_value(operator: str, below: bool, equal: bool, above: bool) -> None:
    one = condition_of({"type": "simple", "variable": "v", "operator": operator, "value": 2})
    assert [holds(one, {"v": value}) for value in (1.5, 2.0, 3)] == [below, equal, above]


@pytest.mark.parametrize("value", ["3", "", True, False, None, [], {}, math.inf, math.nan])
def test_other_values_are_not_numbers(value: Any) -> None:
    for operator in (">", "<", ">=", "<="):
        one = condition_of({"type": "simple", "variable": "v", "operator": operator, "value": 0})
        assert not holds(one, {"v": value})


@pytest.mark.parametrize(
    ("data", "written"),
    [
        ({"type": "simple", "variable": "a.b", "operator": "==", "value": True}, "a.b == true"),
        ({"type": "simple", "variable": "a", "operator": "!=", "value": "x y"}, 'a != "x y"'),
        ({"type": "simple", "variable": "a", "operator": ">=", "value": 2.0}, "a >= 2"),
        ({"type": "simple", "variable": "a", "operator": "<", "value": 0.5}, "a < 0.5"),
        ({"type": "simple", "variable": "a", "operator": "==", "value": None}, "a == null"),
        ({"type": "simple", "variable": "a", "operator": "=="}, "a == undefined"),
        ({"type": "simple", "variable": "a", "operator": "exists"}, "a exists"),
        ({"type": "simple", "variable": "a", "operator": "notExists", "value": 1}, "a notExists"),
    ],
)
def test_how_they_are_written(data: dict[str, Any], written: str) -> None:
    assert text(condition_of(data)) == written
    assert text(condition_of({"type": "not", "condition": data})) == f"NOT ({written})"
    assert text(condition_of({"type": "and", "conditions": [data, data]})) == f"{written} AND {written}"
    assert text(condition_of({"type": "or", "conditions": [data, data]})) == f"{written} OR {written}"
