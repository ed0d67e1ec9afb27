"""Expressions of guards: the grammar, and every comparison against a plain evaluator."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.toolsets.gateway.rules.expressions import OPERATORS, Malformed, holds, parse
from coordinator.toolsets.gateway.rules.scope import Scope
from tests.gateway import plain
from tests.gateway.json_values import NAMES, objects

ROOTS = {
    "context": ("$.context",),
    "arguments": ("$.arguments",),
    "input": ("$.workflow.input", "$.input"),
}


@st.composite
def operands(draw: st.DrawFn) -> tuple[str, Any]:
    """An operand as it is written, and its meaning: a value, or root and steps."""
    kind = draw(st.sampled_from(["number", "text", "word", "path", "path"]))
    if kind == "number":
        value = draw(st.integers(-5, 5) | st.floats(-5, 5).map(lambda number: round(number, 3)))
        return draw(st.sampled_from([f"{value}", json.dumps(value)])), value
    if kind == "text":
        text = draw(st.text(st.characters(codec="utf-8", exclude_characters="\"'"), max_size=6))
        quote = draw(st.sampled_from("\"'"))
        return f"{quote}{text}{quote}", text
    if kind == "word":
        word = draw(st.sampled_from(["true", "false", "null"]))
        return word, {"true": True, "false": False, "null": None}[word]
    root = draw(st.sampled_from(list(ROOTS)))
    text = draw(st.sampled_from(ROOTS[root]))
    steps: list[str | int] = [root]
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            name = draw(st.sampled_from(NAMES))
            text += f".{name}"
            steps.append(name)
        else:
            index = draw(st.integers(0, 3))
            text += draw(st.sampled_from([f"[{index}]", f".{index}"]))
            steps.append(index if text.endswith("]") else str(index))
    return text, steps


@settings(max_examples=80)
@given(operands(), st.sampled_from(OPERATORS), operands(), objects, objects, objects, st.data())
def test_comparisons_match_the_plain_evaluator(
    left: tuple[str, Any],
    operator: str,
    right: tuple[str, Any],
    context: plain.Json,
    arguments: plain.Json,
    given_input: plain.Json,
    data: st.DataObject,
) -> None:
    blanks = st.sampled_from([" ", "  ", "\t"])
    gap = [data.draw(blanks), data.draw(blanks)]
    text = f"{left[0]}{gap[0]}{operator}{gap[1]}{right[0]}"
    known = {"context": context, "arguments": arguments, "input": given_input}

    def meaning(operand: tuple[str, Any]) -> Any:
        if not isinstance(operand[1], list):
            return operand[1]
        found = plain.walk(known, operand[1])
        return None if found is plain.NOTHING else found

    expected = plain.compares(meaning(left), operator, meaning(right))
    assert holds(text, Scope(context, arguments, given_input)) is expected


@given(st.text(st.sampled_from("$.=<>!()[]'\"ab01 and_"), max_size=20))
def test_any_text_is_one_comparison_or_false(text: str) -> None:
    try:
        parse(text)
    except Malformed:
        assert holds(text, Scope({"a": 1})) is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "true",
        "$.context.a",
        "$.context.a ==",
        "== 1",
        "1 == 2 == 3",
        "$.context.a == 1 and $.context.b == 2",
        "($.context.a == 1)",
        "$.context.a = 1",
        "$.context.a == 'x",
        "len($.context.a) > 1",
        "$.context. == 1",
        "$.context[a] == 1",
        "$ == 1",
        "1.2.3 == 1",
        "12x == 1",
        "$.context.a == " + "1" * 3000,
    ],
)
def test_malformed_expressions_are_rejected_and_false(text: str) -> None:
    with pytest.raises(Malformed):
        parse(text)
    assert holds(text, Scope({"a": 1, "b": 2})) is False


CONTEXT = {"contains_pii": False, "starts_with_x": True, "n": 0.1, "list": [1, {"deep": "yes"}], "text": "release/1.2",
           "shorter": [1], "vast": -(10**400)}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Words that are operators may be parts of names.
        ("$.context.contains_pii == false", True),
        ("$.context.starts_with_x != true", False),
        ("$.context.text starts_with 'release/'", True),
        ("$.context.text contains '1.2'", True),
        ("$.context.n contains ''", True),
        # Equality converts nothing; order is defined between numbers only.
        ("'true' == true", False),
        ("'true' != true", True),
        ("1 == true", False),
        ("'1' < 2", False),
        ("'1' >= 2", False),
        ("null <= 0", False),
        # Numbers are doubles.
        ("$.context.n == 0.1", True),
        ("1 == 1.0", True),
        ("1e3 == 1000", True),
        ("-1 < +1", True),
        (".5 == 0.5", True),
        ("$.context.vast < 0", True),
        ("$.context.shorter == $.context.list", False),
        ("$.context.list == $.context.shorter", False),
        # Arrays by [n] and .n; an unresolved path is null.
        ("$.context.list[1].deep == 'yes'", True),
        ("$.context.list.1.deep == 'yes'", True),
        ("$.context.list[7] == null", True),
        ("$.context.list[2] == null", True),
        ("$.context.list.\u00b2 == null", True),
        ("$.context.text.deeper == null", True),
        ("$.nowhere.at.all == null", True),
        ("$.output.x == null", True),
        ("$.context.list[0]==1", True),
    ],
)
def test_edge_cases(text: str, expected: bool) -> None:
    assert holds(text, Scope(CONTEXT)) is expected
