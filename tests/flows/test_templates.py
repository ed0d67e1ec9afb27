"""Templates, conditions and recorded results."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.steps.results import failure_json, fitting, result_json
from coordinator.toolsets.flows.rules import templates
from coordinator.toolsets.flows.rules.conditions import holds, problem

GIVEN: dict[str, Any] = {
    "topic": "MCP server", "n": 3, "on": True, "none": None, "list": [1, {"x": "y"}], "map": {"a": {"b": 1.5}},
    "a.b": "dotted", "braces": "{{input.n}}",
}  # fmt: skip


def test_results_that_are_too_large_together_fail_the_step() -> None:
    results = {"a": "x" * 1_000_000}
    assert len(templates.resolve("{{steps.a.result}}" * 4, {}, results)) == 4_000_000
    for args in ("{{steps.a.result}}" * 5, ["{{steps.a.result}}"] * 5):
        with pytest.raises(templates.TooLarge, match="more than 4194304 bytes"):
            templates.resolve(args, {}, results)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{input.topic}}", "MCP server"),
        ("{{ input.topic }}", "MCP server"),
        ("{{input.n}}", 3),
        ("{{input.on}}", True),
        ("{{input.none}}", None),
        ("{{input.list}}", [1, {"x": "y"}]),
        ("{{input.list.1.x}}", "y"),
        ("{{input.map.a.b}}", 1.5),
        ("{{input.a.b}}", "dotted"),
        ("{{input.braces}}", "{{input.n}}"),
        ("about {{input.topic}}!", "about MCP server!"),
        ("{{input.n}}{{input.on}}", "3true"),
        ("{{input.n}} and {{input.n}}", "3 and 3"),
        (" {{input.n}}", " 3"),
        ("{{input.none}}.", "null."),
        ("{{input.map}}.", '{"a":{"b":1.5}}.'),
        ("{{input.n}} }}", "3 }}"),
        ("{ {input.n} }", "{ {input.n} }"),
        ("{{unclosed", "{{unclosed"),
        ("plain", "plain"),
    ],
)
def test_replacement_of_templates(text: str, value: Any) -> None:
    assert templates.resolve({"x": [text]}, GIVEN) == {"x": [value]}


@pytest.mark.parametrize("text", ["{{input.x}}", "{{input.list.2}}", "{{input.list.-1}}", "{{input.n.x}}", "{{env.x}}"])
def test_missing_input_is_reported(text: str) -> None:
    with pytest.raises(templates.Absent, match=r"^\{\{"):
        templates.resolve(text, GIVEN)


def test_results_of_steps() -> None:
    results = {"search docs": [{"title": "x"}], "a.result.b": 1}
    assert templates.resolve("{{steps.search docs.result.0.title}}", {}, results) == "x"
    assert templates.resolve("{{steps.search docs.result}}", {}, results) == [{"title": "x"}]
    assert templates.reference("steps.a.results") is None
    assert templates.reference("steps.result") is None
    with pytest.raises(templates.Absent, match="step 'b' did not run"):
        templates.resolve("{{steps.b.result}}", {}, results)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_input_of_any_kind_passes_unchanged(value: Any) -> None:
    assert templates.resolve({"q": "{{input.v}}"}, {"v": value}) == {"q": value}


@given(JSON)
def test_arguments_without_tokens_stay_as_they_are(value: Any) -> None:
    if not list(templates.tokens(value)):
        assert templates.resolve(value, {}) == value


CONDITIONS = (
    "result == true",
    "result == false",
    "result != nil",
    "result == nil",
    'result == "true"',
    'result == "a"b"',
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, {0, 2}),
        (False, {1, 2}),
        (None, {3}),
        ("true", {2, 4}),
        ('a"b', {2, 5}),
        (1, {2}),
        (0, {2}),
        ("", {2}),
        ([], {2}),
        ({"result": True}, {2}),
    ],
)
def test_conditions_hold_for(value: Any, expected: set[int]) -> None:
    assert {number for number, one in enumerate(CONDITIONS) if holds(one, value)} == expected


@pytest.mark.parametrize(
    "text", ["result == 1", "result == True", " result == true", "result != true", "", 'result == "x']
)
def test_other_texts_are_not_conditions(text: str) -> None:
    assert problem(text).startswith("must be exactly one of: result == true, ")
    with pytest.raises(ValueError, match="not a condition"):
        holds(text, True)


def test_conditions_are_single_comparisons() -> None:
    for between in (" or ", " AND ", "||", " && "):
        assert problem(f'result == "a"{between}result != "b"').startswith("must be a single comparison")
    for condition in (*CONDITIONS, 'result == ""a" or "b""', 'result == "a or result == b"'):
        assert problem(condition) == ""


@given(JSON)
def test_the_recorded_result_is_json(value: Any) -> None:
    text = result_json(value, 1000)
    assert len(text.encode()) <= 1000
    recorded = json.loads(text)
    assert recorded == value or recorded["truncated"] is True


@given(st.text(alphabet='ab"\\\n\u00e9\U0001f600', min_size=200, max_size=2000))
def test_a_long_result_is_cut_and_marked(value: str) -> None:
    text = result_json(value, 300)
    assert len(text.encode()) <= 300
    recorded = json.loads(text)
    if recorded != value:
        assert recorded.keys() == {"truncated", "bytes", "beginning"}
        assert recorded["bytes"] > 300
        assert len(recorded["beginning"]) > 20
        assert result_json(value, 10_000).startswith(recorded["beginning"][:20])


def test_the_documented_forms_of_results() -> None:
    listed = [{"title": "Workflow Design", "score": 0.95}]
    assert result_json(listed, 1000) == '[{"title":"Workflow Design","score":0.95}]'
    assert result_json("x", 1000) == '"x"'
    assert failure_json("no such tool", "unknown_tool") == '{"error":"no such tool","type":"unknown_tool"}'


@given(st.text(alphabet='ab"\\\n\u0001\u00e9\U0001f600', max_size=40), st.integers(-3, 60))
def test_as_much_of_a_text_is_taken_as_there_is_room_for(text: str, room: int) -> None:
    def length(part: str) -> int:
        return len(json.dumps(part, ensure_ascii=False).encode()) - 2

    part = fitting(text, room)
    assert text.startswith(part)
    assert length(part) <= max(0, room)
    assert part == text or length(text[: len(part) + 1]) > room
