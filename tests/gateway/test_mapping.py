"""Output mappings against a plain evaluator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.toolsets.gateway.rules.mapping import problem, written
from coordinator.toolsets.gateway.rules.scope import MISSING, Scope, resolve
from tests.gateway import plain
from tests.gateway.json_values import objects, values

OPERATORS = ("add", "subtract", "multiply", "divide")
ROOTS = {
    "$.context": "context",
    "$.arguments": "arguments",
    "$.workflow.input": "input",
    "$.input": "input",
    "$.output": "output",
}


@st.composite
def paths(draw: st.DrawFn) -> tuple[str, Any]:
    """A path as it is written, and its meaning."""
    if draw(st.integers(0, 9)) == 0:
        return "$", ["output"]
    text = draw(st.sampled_from(list(ROOTS)))
    steps: list[str | int] = [ROOTS[text]]
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(["a", "b_c", "n-1", "0"]))
        text += f".{name}"
        steps.append(name)
    return text, steps


literals = st.one_of(
    st.integers(-5, 5), st.booleans(), st.none(), st.sampled_from(["", "text", "context.a", "{x}"]),
    st.lists(st.integers(0, 3), max_size=3), st.just({}), st.just({"one": 1, "two": 2}), st.just({"other": [1]}),
)  # fmt: skip


@st.composite
def specs(draw: st.DrawFn) -> tuple[Any, Any]:
    """A spec, and a function that computes its expected value from the data."""
    kind = draw(st.sampled_from(["path", "literal", "set", "concat", *OPERATORS]))
    if kind == "path":
        text, steps = draw(paths())
        return text, lambda known: _null(plain.walk(known, steps))
    if kind == "literal":
        value = draw(literals)
        return value, lambda known: value
    if kind == "set":
        value = draw(literals | paths().map(lambda one: one[0]))
        return {"set": value}, lambda known: value
    count = draw(st.integers(0, 3)) if kind == "concat" else 2
    operands = [draw(paths().map(lambda one: (one[0], one[1], True)) | literals.map(lambda one: (one, one, False)))
                for _ in range(count)]  # fmt: skip

    def meaning(known: plain.Json) -> Any:
        found = [plain.walk(known, steps) if is_path else steps for _, steps, is_path in operands]
        return plain.concatenated(found) if kind == "concat" else plain.arithmetic(kind, *found)

    return {kind: [text for text, _, _ in operands]}, meaning


def _null(value: Any) -> Any:
    return None if value is plain.NOTHING else value


@settings(max_examples=80)
@given(st.dictionaries(st.sampled_from("xyz"), specs(), max_size=3), objects, objects, objects, values)
def test_mappings_match_the_plain_evaluator(
    mapping: dict[str, tuple[Any, Any]],
    context: plain.Json,
    arguments: plain.Json,
    given_input: plain.Json,
    output: Any,
) -> None:
    known = {"context": context, "arguments": arguments, "input": given_input, "output": output}
    found = written({key: spec for key, (spec, _) in mapping.items()}, Scope(context, arguments, given_input, output))
    assert found.keys() == mapping.keys()
    for key, (spec, meaning) in mapping.items():
        assert plain.exactly(found[key], meaning(known)), (spec, known)


def test_all_specs_see_the_context_as_it_was() -> None:
    swapped = written({"a": "$.context.b", "b": "$.context.a"}, Scope({"a": 1, "b": 2}))
    assert swapped == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"divide": [7, 2]}, 3.5),
        ({"divide": [8, 2]}, 4),
        ({"divide": [1, 0]}, None),
        ({"add": ["$.context.count", 1]}, 1),
        ({"add": ["$.context.text", 1]}, None),
        ({"add": [True, 1]}, None),
        ({"add": [1]}, None),
        ({"multiply": [1e308, 10]}, None),
        ({"concat": ["v", "$.context.none", {"a": 1}, 1.5]}, 'vnull{"a":1}1.5'),
        ({"concat": "text"}, None),
        ({"set": "$.context.text"}, "$.context.text"),
        ({"add": [1, 2], "set": 3}, {"add": [1, 2], "set": 3}),
        ("$.nowhere", None),
        ("$$", "$$"),
    ],
)
def test_edge_cases_of_operators(spec: Any, expected: Any) -> None:
    (found,) = written({"x": spec}, Scope({"text": "a"})).values()
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "spec", ["$.nowhere.x", {"add": [1]}, {"concat": "a"}, {"add": ["$.foo.x", 1]}, "$.context.[x]"]
)
def test_invalid_specs_are_reported(spec: Any) -> None:
    assert problem(spec)


@pytest.mark.parametrize(
    "spec",
    ["$", "$.output.a", {"add": ["$.context.a", 1]}, {"set": ["$.foo"]}, {"other": [1]}, "text", None, 5],
)
def test_valid_specs_are_not_reported(spec: Any) -> None:
    assert problem(spec) == ""


def test_paths_are_resolved_at_any_depth_but_not_inside_texts() -> None:
    known = Scope({"a": 1}, {"b": [2]}, {"c": "three"})
    stated = {
        "x": ["$.context.a", {"y": "$.arguments.b[0]"}],
        "z": "v$.context.a",
        "w": "$.input.c",
        "n": "$.context.q",
    }
    assert resolve(stated, known) == {"x": [1, {"y": 2}], "z": "v$.context.a", "w": "three", "n": None}
    assert resolve("$.context.q", known, MISSING) is MISSING
    assert resolve("$.context.list." + "9" * 5000, Scope({"list": [1]}), MISSING) is MISSING
